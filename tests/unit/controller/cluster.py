"""A controller machine without a log: what it decides is written at once."""

from __future__ import annotations

import random
from typing import Any

from kaa.config.server import BrokerConfig, load_broker_config
from kaa.config.sources import merge_settings
from kaa.controller.bootstrap import bootstrap_records
from kaa.controller.feature_table import METADATA_VERSION_MAX, supported_ranges
from kaa.controller.image import ClusterImage
from kaa.controller.machine import ControllerMachine
from kaa.controller.port import ControllerRequestContext
from kaa.controller.result import ControllerResult
from kaa.controller.state import ControllerSettings, ControllerState
from kaa.model.pieces import Pieces, finish
from kaa.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kaa.wire.messages.k62_broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kaa.wire.messages.k63_broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from kaa.wire.primitives import Uuid
from kaa.wire.schema import MetadataRecord, Request

CLUSTER_ID = "dCn2Yfs2Q8Kk3xhTn1LHmQ"
NODE_ID = 1000
_BASE = {
    "node.id": str(NODE_ID),
    "process.roles": "broker,controller",
    "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
}


def broker_config(**settings: str) -> BrokerConfig:
    """The configuration of a combined node; settings are Kafka's, with _ for each dot."""
    texts = _BASE | {name.replace("_", "."): text for name, text in settings.items()}
    return load_broker_config(
        merge_settings(overrides=[f"{name}={text}" for name, text in texts.items()])
    ).config


def uuid(number: int) -> Uuid:
    """An id that is not reserved."""
    return Uuid((number + 1000).to_bytes(16, "big"))


class Quorum:
    """What a quorum says of itself."""

    def __init__(self) -> None:
        self.kraft_version = 0
        self.are_voters_known = True

    def knows_voters(self, level: int) -> bool:
        return self.are_voters_known


class Cluster:
    """The machine, with brokers 0, 1, ... that are registered and unfenced."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        metadata_version: int = METADATA_VERSION_MAX.level,
        racks: list[str | None] | None = None,
        directories: int = 1,
        levels: dict[str, int] | None = None,
        **settings: str,
    ) -> None:
        config = broker_config(**settings)
        self.quorum = Quorum()
        self.machine = ControllerMachine(
            ControllerSettings(NODE_ID, CLUSTER_ID, config), random.Random(1), self.quorum
        )
        self.now_ms = 0
        self.next_offset = 1
        self.written: list[MetadataRecord] = []
        self.epochs: dict[int, int] = {}
        bootstrap = bootstrap_records(metadata_version, levels)
        self._write(
            finish(
                self.machine.activate(
                    ClusterImage(), bootstrap, is_transaction_open=False, now_ms=0
                )
            )
        )
        for broker_id in range(brokers):
            self.register(broker_id, rack=racks[broker_id] if racks else None, count=directories)
            self.heartbeat(broker_id)

    @property
    def image(self) -> ClusterImage:
        return self.machine.state.image

    @property
    def state(self) -> ControllerState:
        return self.machine.state

    def send(self, request: Request, version: int | None = None, **context: Any) -> Any:
        """The response to a request, whose records are written; ControllerError if refused."""
        api_version = type(request).valid_versions.high if version is None else version
        result = self.decide(request, api_version, **context)
        self._write(result)
        return result.response

    def decide(self, request: Request, api_version: int, **context: Any) -> ControllerResult[Any]:
        decided = self.machine.decide(
            request,
            ControllerRequestContext(api_version, **context),
            now_ms=self.now_ms,
            next_offset=self.next_offset,
        )
        return finish(decided)

    def run(self, decided: Pieces[ControllerResult[Any]]) -> Any:
        """Writes what a periodic duty decides."""
        result = finish(decided)
        self._write(result)
        return result.response

    def _write(self, result: ControllerResult[Any]) -> None:
        self.write(result.records)
        self.machine.written(result, self.next_offset - 1)

    def write(self, records: list[MetadataRecord]) -> None:
        """Puts records into the log that nobody decided about."""
        finish(self.machine.replay(records))
        self.written = list(records)
        self.next_offset += len(records)

    def activate_again(self) -> None:
        """The machine is that of a new controller, which knows what is written."""
        committed = self.image.copy()
        self.machine.deactivate()
        assert not self.machine.is_active
        activation = self.machine.activate(
            committed, [], is_transaction_open=False, now_ms=self.now_ms
        )
        self._write(finish(activation))

    # --- brokers

    def registration(self, broker_id: int, **changes: Any) -> BrokerRegistrationRequest:
        count = changes.pop("count", 1)
        facts: dict[str, Any] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": uuid(broker_id),
            "listeners": [Listener(name="PLAINTEXT", host=f"host-{broker_id}", port=9092)],
            "features": [
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_ranges().items()
            ],
            "rack": None,
            "log_dirs": [directory(broker_id, number) for number in range(count)],
        }
        return BrokerRegistrationRequest(**(facts | changes))

    def register(self, broker_id: int, **changes: Any) -> int:
        response = self.send(self.registration(broker_id, **changes))
        self.epochs[broker_id] = response.broker_epoch
        epoch: int = response.broker_epoch
        return epoch

    def heartbeat(self, broker_id: int, **changes: Any) -> BrokerHeartbeatResponse:
        facts: dict[str, Any] = {
            "broker_id": broker_id,
            "broker_epoch": self.epochs[broker_id],
            "current_metadata_offset": self.next_offset - 1,
        }
        response = self.send(BrokerHeartbeatRequest(**(facts | changes)))
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.heartbeat(broker_id, want_fence=True)

    # --- topics

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        factor: int = 1,
        replicas: list[list[int]] | None = None,
        configs: dict[str, str | None] | None = None,
        **context: Any,
    ) -> CreateTopicsResponse:
        response = self.send(
            CreateTopicsRequest(topics=[topic(name, partitions, factor, replicas, configs)]),
            **context,
        )
        assert isinstance(response, CreateTopicsResponse)
        return response


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    replicas: list[list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
        for number, brokers in enumerate(replicas or [])
    ]
    return CreatableTopic(
        name=name,
        num_partitions=-1 if replicas else partitions,
        replication_factor=-1 if replicas else factor,
        assignments=assignments,
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def directory(broker_id: int, number: int = 0) -> Uuid:
    return uuid(10_000 + broker_id * 100 + number)
