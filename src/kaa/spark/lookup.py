"""What the driver asks brokers before a batch: partitions, offsets, sizes.

Every question is asked as often as `fetchOffset.numRetries` says, with
`fetchOffset.retryIntervalMs` between attempts; within each, the client itself tries again what
may pass. Under `read_committed` the latest offset is the last stable one.

Each streaming query has a Python process of its own for this, which starts with the query. So what
few queries ask for is imported when they do.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaa.client.consumer.offsets import READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from kaa.client.errors import ClientError, KafkaError, check
from kaa.client.metadata import NO_NODE
from kaa.limits import SPARK_SAMPLE_BYTES, SPARK_SAMPLED_PARTITIONS_MAX
from kaa.model.topics import KAA_PREFIX, TopicPartition
from kaa.spark.brokers import brokers_of
from kaa.spark.errors import OptionError
from kaa.spark.offsets import EARLIEST, LATEST, nested
from kaa.spark.plan import Density
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from kaa.client.consumer.offsets import OffsetAndTimestamp
    from kaa.client.metadata import Metadata, Topic
    from kaa.spark.offsets import PartitionOffsets
    from kaa.spark.options import Bound, SourceOptions


@dataclass(frozen=True, slots=True)
class Found:
    """The partitions of a query and the ids of their topics, as they are now."""

    partitions: list[TopicPartition]
    topic_ids: dict[str, str]


class Lookup:
    """The questions of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._brokers = brokers_of(options.settings)
        self._found: Found | None = None
        self._found_at = 0.0

    def _ask(self, question: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async def attempts() -> Any:
            left = self._options.offset_retries
            while True:
                try:
                    return await question()
                except ClientError as error:
                    if not left or not (error.retriable or _may_appear(error)):
                        raise
                left -= 1
                await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)

        return self._brokers.call(attempts())

    # --- partitions

    def partitions(self) -> Found:
        """What the query reads, asked again unless the cache of metadata is on."""
        now = time.monotonic()
        if (
            self._found is not None
            and (now - self._found_at) * 1000 < self._options.metadata_ttl_ms
        ):
            return self._found
        self._found = self._ask(self._find)
        self._found_at = now
        assert self._found is not None
        return self._found

    async def _find(self) -> Found:
        wanted = self._options.topics
        topics: list[Topic] = []
        if wanted.pattern is not None:
            metadata = await self._metadata(None)
            pattern = re.compile(wanted.pattern)
            topics = [
                topic
                for name, topic in metadata.topics.items()
                if not (topic.is_internal or name.startswith(KAA_PREFIX))
                and pattern.fullmatch(name)
            ]
        else:
            names = wanted.names or sorted({one.topic for one in wanted.assigned or ()})
            metadata = await self._metadata(names)
            for name in names:
                topic = metadata.topics.get(name)
                if topic is None:
                    error = metadata.topic_errors.get(name, Errors.UNKNOWN_TOPIC_OR_PARTITION)
                    raise KafkaError(error, f"topic {name!r}")
                topics.append(topic)
        partitions = list(wanted.assigned or ()) or [
            TopicPartition(topic.name, one.partition)
            for topic in topics
            for one in topic.partitions
        ]
        return Found(sorted(partitions), {topic.name: str(topic.topic_id) for topic in topics})

    async def _metadata(self, names: Iterable[str] | None) -> Metadata:
        cluster = self._brokers.cluster
        if not cluster.metadata.brokers:
            # It was never reached: the address may be wrong, which nobody wants to wait for.
            return await cluster.fetch_metadata(names)
        # Brokers that were there before come back, after a restart for instance.
        found: Metadata = await cluster.repeat(
            lambda: cluster.fetch_metadata(names), "metadata of topics", self._brokers.timeout_ms
        )
        return found

    def cluster_id(self) -> str | None:
        """The id of the cluster that is read."""
        return self._brokers.cluster_id()

    # --- offsets

    def offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets by time, or EARLIEST or LATEST; -1 where no record is that late."""
        isolation = READ_COMMITTED if self._options.is_read_committed else READ_UNCOMMITTED

        async def question() -> dict[TopicPartition, OffsetAndTimestamp]:
            return await list_offsets(
                self._brokers.cluster, times, self._brokers.timeout_ms, isolation
            )

        if not times:
            return {}
        found: dict[TopicPartition, OffsetAndTimestamp] = self._ask(question)
        return {partition: answer.offset for partition, answer in found.items()}

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        """Where partitions end now."""
        return self.offsets(dict.fromkeys(partitions, LATEST))

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        """Where partitions start now."""
        return self.offsets(dict.fromkeys(partitions, EARLIEST))

    def resolve(self, bound: Bound, partitions: list[TopicPartition]) -> PartitionOffsets:
        """The offset of each partition at which a query begins or ends."""
        if bound.offset is not None:
            return self.offsets(dict.fromkeys(partitions, bound.offset))
        if bound.group is not None:
            return self._of_group(bound.group, partitions)
        given = bound.offsets if bound.offsets is not None else bound.timestamps_ms
        if given is not None and set(given) != set(partitions):
            raise OptionError(
                f"option {bound.option} must name every partition, with -1 for the latest and -2 "
                f"for the earliest offset; it names {nested(given)}, the query reads "
                f"{nested(dict.fromkeys(partitions, 0))}"
            )
        if bound.offsets is not None:
            asked = {one: offset for one, offset in bound.offsets.items() if offset < 0}
            return bound.offsets | self.offsets(asked)
        times = bound.timestamps_ms or dict.fromkeys(partitions, bound.timestamp_ms or 0)
        return self._of_times(bound, times)

    def tier_bounded(self, ends: PartitionOffsets, found: Found) -> PartitionOffsets:
        """The same, no further than the store reaches where nothing else is to be read."""
        tier = self._options.tier
        if tier is None or not tier.is_only:
            return ends
        from kaa.spark.tier.planning import planner_of

        stored = planner_of(self._options).ends(ends, found.topic_ids)
        return {partition: min(end, stored[partition]) for partition, end in ends.items()}

    def _of_times(self, bound: Bound, times: PartitionOffsets) -> PartitionOffsets:
        found = self.offsets(times)
        late = sorted(partition for partition, offset in found.items() if offset < 0)
        is_start = bound.option.startswith("starting")
        if late and is_start and self._options.timestamp_strategy == "error":
            raise OptionError(
                f"option {bound.option}: no record of {', '.join(map(str, late))} is at or "
                "after the time; startingOffsetsByTimestampStrategy=latest begins at the end"
            )
        return found | self.latest(late)

    def _of_group(self, group: str, partitions: list[TopicPartition]) -> PartitionOffsets:
        from kaa.client.group.offsets import fetch_offsets

        async def question() -> PartitionOffsets:
            found = await fetch_offsets(
                self._brokers.cluster, group, partitions, self._brokers.timeout_ms
            )
            return {partition: committed.offset for partition, committed in found.items()}

        offsets: PartitionOffsets = self._ask(question)
        missing = [partition for partition in partitions if partition not in offsets]
        if missing and self._options.group_fallback == "error":
            raise OptionError(
                f"group {group!r} has no offset of {', '.join(map(str, missing))}; "
                "set groupFallback to earliest or latest"
            )
        fallback = EARLIEST if self._options.group_fallback == "earliest" else LATEST
        return offsets | self.offsets(dict.fromkeys(missing, fallback))

    # --- sizes

    def densities(
        self, start: PartitionOffsets, latest: PartitionOffsets
    ) -> dict[TopicPartition, Density]:
        """Estimates of the bytes per row of partitions that have something waiting.

        The first waiting batches say it best, and are looked at; where there are too many
        partitions for that, the size of the log over its offsets has to do.
        """
        waiting = [one for one, end in latest.items() if end > start.get(one, 0)]
        sizes: dict[TopicPartition, int] = self._ask(lambda: self._sizes(waiting))
        earliest = self.earliest(waiting)
        densities: dict[TopicPartition, Density] = {}
        for number, partition in enumerate(waiting):
            span = max(1, latest[partition] - earliest[partition])
            whole = sizes.get(partition, 0) / span
            first = max(start.get(partition, 0), earliest[partition])
            sampled = None
            if number < SPARK_SAMPLED_PARTITIONS_MAX and first < latest[partition]:
                sampled = self._sample(partition, first)
            densities[partition] = sampled or Density(whole, 0)
        return densities

    def mean_record_bytes(self) -> float:
        """The stored bytes per record of all that the query's topics hold; 0 if they are empty."""
        partitions = self.partitions().partitions
        sizes: dict[TopicPartition, int] = self._ask(lambda: self._sizes(partitions))
        earliest, latest = self.earliest(partitions), self.latest(partitions)
        records = sum(latest[one] - earliest[one] for one in partitions)
        return sum(sizes.values()) / records if records else 0.0

    def _sample(self, partition: TopicPartition, offset: int) -> Density | None:
        from kaa.records.legacy import iter_any_batches

        fetched = self._ask(
            lambda: self._brokers.fetch_batches(partition, offset, SPARK_SAMPLE_BYTES)
        )
        size = 0
        first_end = end = 0
        for batch in iter_any_batches(fetched.data):
            size += batch.size_in_bytes
            end = batch.next_offset
            first_end = first_end or end
        return Density(size / max(1, end - offset), first_end) if size else None

    async def _sizes(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        from kaa.wire.messages.k35_describe_log_dirs import (
            DescribableLogDirTopic,
            DescribeLogDirsRequest,
        )

        cluster = self._brokers.cluster
        by_leader: dict[int, dict[str, list[int]]] = {}
        for name, number in partitions:
            leader = cluster.metadata.leader_of(name, number)
            if leader != NO_NODE:
                by_leader.setdefault(leader, {}).setdefault(name, []).append(number)
        sizes: dict[TopicPartition, int] = {}
        for leader, topics in by_leader.items():
            request = DescribeLogDirsRequest(
                topics=[
                    DescribableLogDirTopic(topic=name, partitions=numbers)
                    for name, numbers in topics.items()
                ]
            )
            what = "sizes of partitions"
            response = await cluster.call(request, what, self._brokers.timeout_ms, node_id=leader)
            check(response.error_code, what)
            for result in response.results:
                for topic in result.topics:
                    for replica in topic.partitions:
                        if not replica.is_future_key:
                            one = TopicPartition(topic.name, replica.partition_index)
                            sizes[one] = replica.partition_size
        return sizes


def _may_appear(error: ClientError) -> bool:
    return isinstance(error, KafkaError) and error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
