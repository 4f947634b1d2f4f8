"""Writes the markers that end transactions on partitions of this broker.

Each partition is judged by itself. The offsets topic is left to the group coordinator, whose state
changes with the marker; everywhere else the marker is appended like a batch of a client, and has
done its work when it is replicated: the last stable offset moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.coordinators.group.coordinator import OFFSETS_TOPIC
from kaa.coordinators.group.transactional_offsets import ended
from kaa.coordinators.shard import TransactionalWriter
from kaa.log.errors import LogError
from kaa.log.producer_state import AppendOrigin
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from kaa.serving.delayed import Wait
from kaa.wire.errors import Errors
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.replication.partition import Partition
    from kaa.serving.services import Services
    from kaa.wire.messages.k27_write_txn_markers import (
        WritableTxnMarker,
        WriteTxnMarkersRequest,
    )


async def write_markers(
    services: Services, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    writing = _Writing(services)
    response = WriteTxnMarkersResponse(markers=[writing.marker(one) for one in request.markers])
    await writing.finish()
    return response


class _Writing:
    """One request's way through its partitions."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._now_ms = services.clock.wall_ms()
        # Appended, and not yet replicated.
        self._waiting: list[tuple[Partition, int, WritableTxnMarkerPartitionResult]] = []
        # At the group coordinator.
        self._groups: list[tuple[asyncio.Future[Any], WritableTxnMarkerPartitionResult]] = []

    def marker(self, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
        """A topic that is named twice is answered once."""
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for topic in marker.topics:
            results = topics.setdefault(
                topic.name, WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
            )
            results.partitions += [
                self._partition(marker, topic.name, number) for number in topic.partition_indexes
            ]
        return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=list(topics.values()))

    def _partition(
        self, marker: WritableTxnMarker, topic: str, number: int
    ) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(partition_index=number)
        found = self._services.replicas.find(topic, number)
        if isinstance(found, Errors):
            result.error_code = Errors.UNKNOWN_TOPIC_OR_PARTITION
            return result
        end = EndTransactionMarker(
            ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT,
            marker.coordinator_epoch,
        )
        if topic == OFFSETS_TOPIC:
            producer = TransactionalWriter(marker.producer_id, marker.producer_epoch)
            ending = self._services.groups.runtime.end_transaction(
                number, producer, end, marker.transaction_version
            )
            self._groups.append((ending, result))
            return result
        try:
            offset = self._append(found, marker, end)
        except LogError as error:
            result.error_code = error.error
        else:
            self._waiting.append((found, offset, result))
        return result

    def _append(
        self, partition: Partition, marker: WritableTxnMarker, end: EndTransactionMarker
    ) -> int:
        """The offset after the marker. LogError refuses it."""
        if not partition.is_leader:
            raise LogError(Errors.NOT_LEADER_OR_FOLLOWER, "led by another broker")
        if not self._services.replicas.has_enough_replicas(partition):
            raise LogError(Errors.NOT_ENOUGH_REPLICAS, "too few replicas are in sync")
        batch = build_end_transaction_batch(
            end,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._now_ms,
        )
        info = partition.append(
            batch,
            now_ms=self._now_ms,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )
        return info.last_offset + 1

    async def finish(self) -> None:
        """Waits until every marker is replicated, or never will be, or time is up."""
        waiting = [item for item in self._waiting if not item[0].is_replicated(item[1])]
        if waiting:
            services = self._services

            def is_done() -> bool:
                return all(
                    partition.is_replicated(offset) or not partition.is_leader
                    for partition, offset, _ in waiting
                )

            timeout_ms = services.config.get_int("request.timeout.ms")
            await Wait(services.loop, [item[0] for item in waiting], timeout_ms, is_done).done
            for partition, offset, result in waiting:
                if not partition.is_replicated(offset):
                    result.error_code = (
                        Errors.REQUEST_TIMED_OUT
                        if partition.is_leader
                        else Errors.NOT_LEADER_OR_FOLLOWER
                    )
        for ending, result in self._groups:
            result.error_code = await ended(ending)
