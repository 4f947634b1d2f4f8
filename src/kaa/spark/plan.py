"""Which offsets a batch reads: admission, loss of data, and splits into tasks. Pure.

A *range* is a piece of one partition, from an offset up to, but not with, another. All decisions
are made by the driver before a task runs, so that a task that is repeated reads the same.

Admission. A limit of rows is shared among partitions in proportion to what each has waiting, at
least one row each. A limit of bytes is shared in the same way: the bytes of a partition are its
waiting rows times its bytes per row, which is an estimate (`Density`), and at least the first
batch of each partition is taken, since less than a batch is never fetched. With both, the smaller
of the two ends counts.

Splits. `minPartitions` is shared in proportion to sizes, and no task gets more than
`maxRecordsPerPartition`; of two counts the larger is used.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.model.topics import TopicPartition
    from kaa.spark.offsets import PartitionOffsets, StreamOffset


class OffsetRange(NamedTuple):
    """Offsets `start` up to, but not with, `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Density(NamedTuple):
    """How large the rows of a partition are, and where its first waiting batch ends."""

    bytes_per_offset: float
    first_batch_end: int


@dataclass(frozen=True, slots=True)
class Ranges:
    """What a batch reads, and what it should have read and cannot."""

    ranges: list[OffsetRange]
    losses: list[str] = field(default_factory=list)


# --- admission


def limit_rows(
    start: PartitionOffsets, latest: PartitionOffsets, rows_max: int
) -> PartitionOffsets:
    """The end of a batch of about so many rows."""
    waiting = _waiting(start, latest)
    total = sum(waiting.values())
    if total <= rows_max:
        return dict(latest)
    return {
        partition: min(end, start.get(partition, 0) + _share(waiting[partition], total, rows_max))
        if waiting[partition]
        else end
        for partition, end in latest.items()
    }


def _share(size: int, total: int, limit: int) -> int:
    exact = limit * (size / total)
    return ceil(exact) if exact < 1 else floor(exact)


def limit_bytes(
    start: PartitionOffsets,
    latest: PartitionOffsets,
    densities: Mapping[TopicPartition, Density],
    bytes_max: int,
) -> PartitionOffsets:
    """The end of a batch of about so many stored bytes."""
    waiting = _waiting(start, latest)
    sizes = {
        partition: count * densities[partition].bytes_per_offset
        for partition, count in waiting.items()
        if count
    }
    total = sum(sizes.values())
    if total <= bytes_max:
        return dict(latest)
    ends = dict(latest)
    for partition, size in sizes.items():
        density = densities[partition]
        share = bytes_max * (size / total)
        rows = int(share / density.bytes_per_offset) if density.bytes_per_offset > 0 else 0
        end = max(start.get(partition, 0) + max(1, rows), density.first_batch_end)
        ends[partition] = min(end, latest[partition])
    return ends


def least(one: PartitionOffsets, other: PartitionOffsets) -> PartitionOffsets:
    """For each partition the smaller offset."""
    return {partition: min(offset, other[partition]) for partition, offset in one.items()}


def waiting_rows(start: PartitionOffsets, latest: PartitionOffsets) -> int:
    """How many offsets lie between two points, over all partitions."""
    return sum(_waiting(start, latest).values())


def _waiting(start: PartitionOffsets, latest: PartitionOffsets) -> dict[TopicPartition, int]:
    return {partition: max(0, end - start.get(partition, 0)) for partition, end in latest.items()}


# --- from two points of a query to ranges


def ranges_between(start: StreamOffset | None, end: StreamOffset) -> Ranges:
    """What lies between two points of a streaming query.

    A partition that is new begins at 0. One whose topic was created again begins there too, and
    what was not read of the old one is lost.
    """
    before = start.offsets if start is not None else end.start or {}
    old_ids = start.topic_ids if start is not None else {}
    losses: list[str] = []
    recreated = {
        topic
        for topic, topic_id in end.topic_ids.items()
        if old_ids.get(topic, topic_id) != topic_id
    }
    losses += [f"topic {topic!r} was deleted and created again" for topic in sorted(recreated)]
    gone = sorted(partition for partition in before if partition not in end.offsets)
    if gone:
        losses.append(f"partitions are gone: {', '.join(map(str, gone))}")
    ranges: list[OffsetRange] = []
    for partition, last in sorted(end.offsets.items()):
        first = 0 if partition.topic in recreated else before.get(partition, 0)
        if last < first:
            losses.append(f"{partition} ends at offset {last}, and {first} was reached before")
        elif last > first:
            ranges.append(OffsetRange(partition, first, last))
    return Ranges(ranges, losses)


def batch_ranges(start: PartitionOffsets, end: PartitionOffsets) -> list[OffsetRange]:
    """What a batch query reads."""
    return [
        OffsetRange(partition, first, end[partition])
        for partition, first in sorted(start.items())
        if end[partition] > first
    ]


# --- splits


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Ranges cut into pieces for tasks, in order."""
    whole = [one for one in ranges if one.size > 0]
    total = sum(one.size for one in whole)
    pieces: list[OffsetRange] = []
    for one in whole:
        count = 1
        if min_partitions is not None and min_partitions > len(whole):
            count = max(count, round(min_partitions * (one.size / total)))
        if max_records is not None:
            count = max(count, ceil(one.size / max_records))
        pieces += _cut(one, min(count, one.size))
    return pieces


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    marks = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [OffsetRange(whole.partition, first, last) for first, last in itertools.pairwise(marks)]
