"""Writes the markers that end transactions on partitions of this broker.

Each partition is judged by itself. The offsets topic is left to the group coordinator, whose state
changes with the marker; everywhere else the marker is appended like a batch of a client, and has
done its work when it is replicated: the last stable offset moves. Where an append would wait for
another write to the same log, the marker is left to the thread that does these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.offsets.transactional import ended
from kaa.coordinators.shard import TransactionalWriter
from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX, TRANSACTION_MARKERS_PER_TURN_MAX
from kaa.log.append import BY_COORDINATOR
from kaa.log.errors import LogError
from kaa.model.topics import CONSUMER_OFFSETS
from kaa.model.turns import Turns, gathered
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from kaa.serving.applied import until_applied
from kaa.serving.delayed import Appended, until_replicated
from kaa.wire.errors import Errors
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.log.append import AppendInfo, AppendSource
    from kaa.replication.manager import ReplicaManager
    from kaa.replication.partition import Partition
    from kaa.serving.transactions.peers import RemoteBrokers
    from kaa.serving.view import NodeView
    from kaa.wire.messages.k27_write_txn_markers import (
        WritableTxnMarker,
        WriteTxnMarkersRequest,
    )


class Markers:
    """Where markers go: to this broker by a call, to others over their connections."""

    def __init__(
        self,
        view: NodeView,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        brokers: RemoteBrokers,
    ) -> None:
        self._view = view
        self._replicas = replicas
        self._groups = groups
        self._brokers = brokers
        self.leader = brokers.leader

    async def send(
        self, broker_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        """ConnectionError if the broker cannot be reached."""
        if broker_id != self._view.node_id:
            return await self._brokers.at(broker_id).ask(request)
        return await self.write(request)

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Writes them on this broker."""
        now_ms = self._view.clock.wall_ms()
        writing = _Writing(self._view, self._replicas, self._groups, now_ms)
        try:
            markers = [await writing.marker(one) for one in request.markers]
        except _ImpossibleProducerError:
            return _failed(request)
        await writing.finish()
        return WriteTxnMarkersResponse(markers=markers)


class _ImpossibleProducerError(Exception):
    """A marker is of a producer that no log can have."""


def _failed(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Kafka fails on such a marker, and with it on the whole request: one result per producer."""
    markers = {}
    for marker in request.markers:
        topics = [
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=number, error_code=Errors.UNKNOWN_SERVER_ERROR
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        markers[marker.producer_id] = WritableTxnMarkerResult(
            producer_id=marker.producer_id, topics=topics
        )
    return WriteTxnMarkersResponse(markers=list(markers.values()))


class _Later(NamedTuple):
    """A marker that is still to be appended."""

    partition: Partition
    batch: bytearray
    source: AppendSource
    result: WritableTxnMarkerPartitionResult


@dataclass(slots=True)
class _Writing:
    """One request's way through its partitions."""

    _view: NodeView
    _replicas: ReplicaManager
    _coordinator: GroupCoordinator
    _now_ms: int
    _turns: Turns = field(default_factory=lambda: Turns(TRANSACTION_MARKERS_PER_TURN_MAX))
    # For markers and topics without a partition.
    _looks: Turns = field(default_factory=lambda: Turns(OFFSETS_LISTED_PER_SLICE_MAX))
    _appended: list[tuple[Appended, WritableTxnMarkerPartitionResult]] = field(default_factory=list)
    # Left to the threads of their directories.
    _later: list[_Later] = field(default_factory=list)
    # At the group coordinator.
    _groups: list[tuple[asyncio.Future[Errors], WritableTxnMarkerPartitionResult]] = field(
        default_factory=list
    )

    async def marker(self, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
        """A topic that is named twice is answered once."""
        await self._looks.next()
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for topic in marker.topics:
            await self._looks.next()
            results = topics.setdefault(
                topic.name, WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
            )
            for number in topic.partition_indexes:
                await self._turns.next()
                await until_applied(self._replicas, [(topic.name, number)])
                results.partitions.append(self._partition(marker, topic.name, number))
        return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=list(topics.values()))

    def _partition(
        self, marker: WritableTxnMarker, topic: str, number: int
    ) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(partition_index=number)
        found = self._replicas.find(topic, number)
        if isinstance(found, Errors):
            result.error_code = Errors.UNKNOWN_TOPIC_OR_PARTITION
            return result
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise _ImpossibleProducerError
        end = EndTransactionMarker(
            ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT,
            marker.coordinator_epoch,
        )
        if topic == CONSUMER_OFFSETS:
            producer = TransactionalWriter(marker.producer_id, marker.producer_epoch)
            ending = self._coordinator.runtime.end_transaction(
                number, producer, end, marker.transaction_version
            )
            self._groups.append((ending, result))
            return result
        source = BY_COORDINATOR._replace(transaction_version=marker.transaction_version)
        batch = build_end_transaction_batch(
            end,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._now_ms,
        )
        try:
            if found.is_append_long:
                self._later.append(_Later(found, batch, source, result))
                return result
            info = found.append(batch, now_ms=self._now_ms, source=source)
        except LogError as error:
            result.error_code = error.error
        else:
            self._note(found, info, result)
        return result

    async def _append_later(self, later: _Later) -> None:
        partition, batch, source, result = later
        try:
            info = await partition.append_later(batch, now_ms=self._now_ms, source=source)
        except LogError as error:
            result.error_code = error.error
        else:
            self._note(partition, info, result)

    def _note(
        self, partition: Partition, info: AppendInfo, result: WritableTxnMarkerPartitionResult
    ) -> None:
        appended = Appended(partition, info.last_offset + 1, info.last_leader_epoch)
        self._appended.append((appended, result))

    async def finish(self) -> None:
        """Waits until every marker is replicated, or never will be, or time is up."""
        await gathered(self._append_later, self._later)
        appended = [one for one, _ in self._appended]
        timeout_ms = self._view.config.get_int("request.timeout.ms")
        outcomes = until_replicated(self._view.loop, appended, timeout_ms, list)
        if not isinstance(outcomes, list):
            outcomes = await outcomes
        for (_, result), error in zip(self._appended, outcomes, strict=True):
            result.error_code = error
        for ending, result in self._groups:
            result.error_code = await ended(ending)
