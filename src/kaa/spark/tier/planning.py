"""The ranges of a query as tasks: what the driver asks before it plans, and in which order.

1. How far each partition is tiered (ListOffsets). A stream at the tail of a log goes no further.
2. What the metadata topic says of the rest, and the leader epochs that its segments name.
3. Under `read_committed`, which transactions in those segments were aborted.

With `tier=only` a query ends where the store does, without a gap from the start of the log on, and
under `read_committed` at the first transaction that is open there: its marker is not in the store.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import kaa
from kaa.client.consumer.offsets import READ_UNCOMMITTED, list_offsets
from kaa.client.errors import KafkaError
from kaa.limits import SPARK_CLUSTERS_CONNECTED_MAX, SPARK_TIER_TASK_BYTES
from kaa.spark.brokers import brokers_of
from kaa.spark.errors import SparkSourceError
from kaa.spark.offsets import EARLIEST
from kaa.spark.range_reader import Task
from kaa.spark.tier.aborted import aborted_after_tier, aborted_in_tier, first_undecided, merged
from kaa.spark.tier.chain import leader_chains
from kaa.spark.tier.metadata import RemoteMetadata
from kaa.spark.tier.plan import (
    OFFSET_MAX,
    parts_of,
    pieces_of,
    runs_of,
    split_parts,
    tiered_end,
)
from kaa.spark.tier.stores import store_of
from kaa.tier.metadata.machine import RemoteMetadataError
from kaa.tier.metadata.model import TopicIdPartition
from kaa.tier.store.objects import StoreError
from kaa.tier.store.segments import RemoteSegments
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence

    from kaa.model.topics import TopicPartition
    from kaa.spark.brokers import Brokers
    from kaa.spark.offsets import PartitionOffsets
    from kaa.spark.options import SourceOptions
    from kaa.spark.plan import OffsetRange
    from kaa.spark.tier.aborted import Aborted
    from kaa.spark.tier.plan import ChainEpoch, Piece, PlannedPart
    from kaa.tier.metadata.cache import RemoteLogCache

LATEST_TIERED: Final = -5

Answer = TypeVar("Answer")


class _Log(NamedTuple):
    """What is known of the remote log of one partition."""

    start: int
    cache: RemoteLogCache
    chain: Sequence[ChainEpoch]

    def pieces(self, start: int, end: int) -> list[Piece]:
        return pieces_of(self.cache, self.chain, max(start, self.start), end)


class Planned(NamedTuple):
    """A range with what of it is in the store, and the aborted transactions in that."""

    range: OffsetRange
    pieces: Sequence[Piece]
    aborted: Sequence[Aborted]


class TierPlanner:
    """One cluster and one store; made by `planner_of`."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.tier is not None
        self._options = options
        self._brokers: Brokers = brokers_of(options.settings)
        store = store_of(options.tier.store)
        self.segments = RemoteSegments(store)
        self._metadata = RemoteMetadata(self._brokers, store)

    def plan(self, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str]) -> list[Planned]:
        """What of each range is in the store. ClientError, SparkSourceError."""
        return self._brokers.call(_translated(self._plan(list(ranges), topic_ids)))

    def ends(
        self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, str]
    ) -> PartitionOffsets:
        """Where a query ends that reads the store alone."""
        return self._brokers.call(_translated(self._ends(list(partitions), topic_ids)))

    async def _plan(self, ranges: list[OffsetRange], topic_ids: Mapping[str, str]) -> list[Planned]:
        tiered = await self._offsets((one.partition for one in ranges), LATEST_TIERED)
        wanted = {one.partition for one in ranges if tiered[one.partition] >= one.start}
        logs = await self._logs(wanted, topic_ids)
        return [
            await self._planned(one, logs[one.partition])
            if one.partition in logs
            else Planned(one, (), ())
            for one in ranges
        ]

    async def _planned(self, whole: OffsetRange, log: _Log) -> Planned:
        pieces = log.pieces(whole.start, whole.end)
        aborted: tuple[Aborted, ...] = ()
        if self._options.is_read_committed:
            for run in runs_of(pieces):
                aborted = merged(aborted, await self._aborted(whole, log, run))
        return Planned(whole, pieces, aborted)

    async def _aborted(
        self, whole: OffsetRange, log: _Log, run: Sequence[Piece]
    ) -> Sequence[Aborted]:
        start, end = run[0].start, run[-1].end
        # Markers may lie after the range.
        further = runs_of(log.pieces(start, OFFSET_MAX))[0]
        found, is_complete = await aborted_in_tier(self.segments, further, start, end)
        if is_complete or self._is_only:
            return found
        after = await aborted_after_tier(self._brokers, whole.partition, further[-1].end)
        return merged(found, [one for one in after if one.first < end])

    @property
    def _is_only(self) -> bool:
        return self._options.tier is not None and self._options.tier.is_only

    async def _logs(
        self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, _Log]:
        names = {
            one: TopicIdPartition(Uuid.parse(topic_ids[one.topic]), one.topic, one.partition)
            for one in sorted(partitions)
            if one.topic in topic_ids
        }
        if not names:
            return {}
        try:
            found = await self._metadata.caches(names.values())
        except KafkaError as error:
            if error.error is Errors.TOPIC_AUTHORIZATION_FAILED:
                raise SparkSourceError(
                    "reading tiered ranges takes the right to Read and Describe the topic "
                    "__remote_log_metadata; grant it, or set tier=never"
                ) from error
            raise
        caches = {one: found[name] for one, name in names.items()}
        starts = await self._offsets(names, EARLIEST)
        epochs = {
            one: {start.epoch for segment in cache.segments() for start in segment.leader_epochs}
            for one, cache in caches.items()
        }
        chains = await leader_chains(self._brokers.cluster, epochs, self._brokers.timeout_ms)
        return {one: _Log(starts[one], caches[one], chains[one]) for one in names}

    async def _ends(
        self, partitions: list[TopicPartition], topic_ids: Mapping[str, str]
    ) -> PartitionOffsets:
        tiered = await self._offsets(partitions, LATEST_TIERED)
        ends = await self._offsets(partitions, EARLIEST)
        logs = await self._logs((one for one in partitions if tiered[one] >= 0), topic_ids)
        for one, log in logs.items():
            pieces = log.pieces(log.start, OFFSET_MAX)
            ends[one] = tiered_end(pieces, log.start)
            if self._options.is_read_committed:
                ends[one] = await self._decided_end(pieces, ends[one])
        return ends

    async def _decided_end(self, pieces: Sequence[Piece], end: int) -> int:
        """Up to where all transactions of a contiguous run of pieces are decided in the store."""
        for piece in reversed([one for one in pieces if one.end <= end]):
            # Of a segment whose end the log lost, it is not known what was open where that begins.
            if piece.end > piece.segment.end_offset:
                undecided = await first_undecided(self.segments, piece.segment)
                return piece.end if undecided is None else min(piece.end, undecided)
            end = piece.start
        return end

    async def _offsets(
        self, partitions: Iterable[TopicPartition], time: int
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, time)
        if not wanted:
            return {}
        found = await list_offsets(
            self._brokers.cluster, wanted, self._brokers.timeout_ms, READ_UNCOMMITTED
        )
        return {one: answer.offset for one, answer in found.items()}


async def _translated(work: Coroutine[Any, Any, Answer]) -> Answer:
    try:
        return await work
    except RemoteMetadataError as error:
        raise SparkSourceError(f"the metadata of remote segments: {error}") from error
    except StoreError as error:
        raise SparkSourceError(f"the store of remote segments: {error}") from error


_lock = threading.Lock()
_planners: OrderedDict[tuple[object, ...], TierPlanner] = OrderedDict()


def planner_of(options: SourceOptions) -> TierPlanner:
    """The planner of this process, which remembers what it has read of the metadata."""
    key = (os.getpid(), options.tier, *sorted(options.settings.items()))
    with _lock:
        found = _planners.get(key)
        if found is None:
            found = _planners[key] = TierPlanner(options)
            if len(_planners) > SPARK_CLUSTERS_CONNECTED_MAX:
                _planners.popitem(last=False)
        _planners.move_to_end(key)
        return found


def tiered_tasks(
    options: SourceOptions, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str]
) -> list[Task]:
    """The tasks of a query that may read the store."""
    tasks = []
    parts: list[PlannedPart] = []
    aborted: dict[TopicPartition, Sequence[Aborted]] = {}
    for planned in planner_of(options).plan(ranges, topic_ids):
        parts += parts_of(planned.range, planned.pieces, SPARK_TIER_TASK_BYTES)
        known = aborted.get(planned.range.partition, ())
        aborted[planned.range.partition] = merged(known, planned.aborted)
    for part in split_parts(parts, options.min_partitions, options.max_records_per_partition):
        partition, start, end = part.range
        hidden = [
            one
            for one in aborted[partition]
            if part.pieces and one.last >= start and one.first < end
        ]
        tasks.append(
            Task(
                part.range,
                topic_ids.get(partition.topic),
                kaa.__version__,
                part.pieces,
                tuple(hidden),
            )
        )
    return tasks
