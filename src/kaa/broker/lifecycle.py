"""The life of a broker in its cluster: it registers, stays alive by heartbeats, and leaves.

A registered broker is fenced, and leads nothing, until a heartbeat tells the controller that it has
caught up with the metadata. Leaving is asked for in a heartbeat too, and granted when the
controller has moved leaderships away as far as it can.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kaa.broker.directories import StartError
from kaa.controller.feature_table import supported_ranges
from kaa.controller.state import RequestContext
from kaa.wire.errors import Errors
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k62_broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
)
from kaa.wire.messages.k70_controller_registration import Feature as ControllerFeature
from kaa.wire.messages.k70_controller_registration import Listener as ControllerListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.config.server import BrokerConfig
    from kaa.controller.local import LocalController
    from kaa.quorum.voters import Endpoint
    from kaa.replication.partition import Partition
    from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatResponse
    from kaa.wire.primitives import Uuid

_REGISTRATION_VERSION: Final = 4
_HEARTBEAT_VERSION: Final = 1
_CONTROLLER_REGISTRATION_VERSION: Final = 0
_ALTER_PARTITION_VERSION: Final = 3
_RECOVERED: Final = 0
_PLAINTEXT: Final = 0
RETRY_SECONDS: Final = 0.01


async def register_controller(
    node_id: int,
    controller: LocalController,
    incarnation_id: Uuid,
    endpoints: Iterable[Endpoint],
) -> None:
    """Tells where the controller of this node listens, for tools that ask it directly (KIP-919)."""
    request = ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        listeners=[
            ControllerListener(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=_PLAINTEXT,
            )
            for endpoint in endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_ranges().items()
        ],
    )
    context = RequestContext(_CONTROLLER_REGISTRATION_VERSION)
    response = await controller.register_controller(request, context)
    # A cluster with the metadata of an older release does without.
    if response.error_code not in {Errors.NONE, Errors.UNSUPPORTED_VERSION}:
        error = Errors.of(response.error_code)
        raise StartError(f"the controller could not register: {error.message}")


class BrokerLifecycle:
    """Speaks for the broker with the controller."""

    def __init__(
        self,
        config: BrokerConfig,
        controller: LocalController,
        incarnation_id: Uuid,
        offline_directories: Callable[[], list[Uuid]],
    ) -> None:
        self._config = config
        self._controller = controller
        self._incarnation_id = incarnation_id
        self._offline_directories = offline_directories
        self.epoch = -1

    async def register(
        self,
        cluster_id: str,
        endpoints: Iterable[Endpoint],
        directories: Iterable[Uuid],
        previous_epoch: int,
    ) -> None:
        """Registers under the addresses that clients shall use."""
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=_PLAINTEXT,
                )
                for endpoint in endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_ranges().items()
            ],
            rack=self._config.get_optional_string("broker.rack"),
            log_dirs=list(directories),
            previous_broker_epoch=previous_epoch,
        )
        response = await self._controller.register_broker(
            request, RequestContext(_REGISTRATION_VERSION)
        )
        error = Errors.of(response.error_code)
        if error is not Errors.NONE:
            raise StartError(f"the controller refused this broker: {error.message}")
        self.epoch = response.broker_epoch

    async def unfence(self) -> None:
        """Heartbeats until the controller takes the broker as live."""
        while (await self.heartbeat()).is_fenced:  # noqa: ASYNC110  The controller decides.
            await asyncio.sleep(RETRY_SECONDS)

    async def report_recovered(self, partitions: Iterable[Partition]) -> None:
        """Tells that partitions which lost a clean end have been recovered by their leader here."""
        topics: dict[Uuid, RequestTopicData] = {}
        for partition in partitions:
            image = partition.image
            if not partition.is_leader or image.leader_recovery_state == _RECOVERED:
                continue
            topic = topics.setdefault(
                partition.topic_id, RequestTopicData(topic_id=partition.topic_id)
            )
            topic.partitions.append(
                RequestPartitionData(
                    partition_index=partition.number,
                    leader_epoch=image.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=replica) for replica in image.isr],
                    leader_recovery_state=_RECOVERED,
                    partition_epoch=image.partition_epoch,
                )
            )
        if topics:
            request = AlterPartitionRequest(
                broker_id=self._config.node_id,
                broker_epoch=self.epoch,
                topics=list(topics.values()),
            )
            context = RequestContext(_ALTER_PARTITION_VERSION)
            await self._controller.alter_partition(request, context)

    async def keep_alive(self) -> None:
        interval = self._config.get_int("broker.heartbeat.interval.ms") / 1000
        while True:
            await asyncio.sleep(interval)
            await self.heartbeat()

    async def leave(self, seconds: float) -> bool:
        """Asks to shut down until it is granted; False if that took too long."""
        try:
            async with asyncio.timeout(seconds):
                while not (await self.heartbeat(leaving=True)).should_shut_down:  # noqa: ASYNC110
                    await asyncio.sleep(RETRY_SECONDS)
        except TimeoutError:
            return False
        return True

    async def heartbeat(self, *, leaving: bool = False) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._controller.committed_offset,
            want_fence=False,
            want_shut_down=leaving,
            offline_log_dirs=self._offline_directories(),
        )
        return await self._controller.heartbeat(request, RequestContext(_HEARTBEAT_VERSION))
