"""Replicas over files in memory."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kaa.controller.image import ClusterImage
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.manager import LogManager
from kaa.log.sim_files import SimFiles
from kaa.replication.manager import ReplicaManager
from kaa.replication.partition import Partition
from kaa.wire.messages.metadata_topics import PartitionRecord, TopicRecord
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.replication.leader import IsrProposal
    from kaa.wire.schema import MetadataRecord

NODE = 1
TOPIC_ID = Uuid(b"topic-id-of-test")


class Replicas:
    """A replica manager whose metadata the test writes record by record."""

    def __init__(
        self,
        files: SimFiles | None = None,
        *,
        config: LogConfig | None = None,
        request_flush: Callable[[Partition], None] | None = None,
        paths: tuple[str, ...] = ("/data",),
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        forget_deleted: Callable[[], None] | None = None,
        sync_folders: Callable[[], None] | None = None,
        monotonic_ms: Callable[[], int] = lambda: 0,
        propose: Callable[[Partition, IsrProposal], None] = lambda *_: None,
        assigned: Callable[[Uuid, int, Uuid | None], None] = lambda *_: None,
        node_id: int = NODE,
        broker_epoch: int = -1,
    ) -> None:
        self.files = files or SimFiles()
        self.configs: dict[str, LogConfig] = {}
        self.config = config or LogConfig()
        self.logs = LogManager(
            self.files, paths, LogManagerConfig(), Random(1), self.topic_config, self._offline
        )
        for _ in self.logs.start(now_ms=0):
            pass
        reports: list[str] = []
        self.manager = ReplicaManager(
            node_id,
            self.logs,
            self.topic_config,
            lambda: 1_000,
            request_flush=request_flush,
            call_soon=call_soon,
            forget_deleted=forget_deleted,
            sync_folders=sync_folders,
            monotonic_ms=monotonic_ms,
            propose=propose,
            assigned=assigned,
            report=reports.append,
            broker_epoch=lambda: broker_epoch,
        )
        self.image = ClusterImage()
        self.reports = reports

    def topic_config(self, topic: str) -> LogConfig:
        return self.configs.get(topic, self.config)

    def _offline(self, _: object) -> None:
        self.manager.directory_failed()

    def replay(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.replay(record)
        self.manager.apply(self.image, self.image.take_delta())

    def create(self, *, replicas: tuple[int, ...] = (NODE,), topic: str = "t") -> Partition:
        self.replay(TopicRecord(name=topic, topic_id=TOPIC_ID), partition(replicas))
        found = self.manager.find(topic, 0)
        assert isinstance(found, Partition)
        return found


def partition(
    replicas: tuple[int, ...] = (NODE,),
    *,
    leader: int = NODE,
    epoch: int = 0,
    number: int = 0,
    topic_id: Uuid = TOPIC_ID,
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(replicas),
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=0,
    )
