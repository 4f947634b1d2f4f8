"""How much of a topic one round takes, and how it is divided among tasks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.model.topics import TopicPartition
from kaa.spark.plan import OffsetRange, limit_rows, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def round_ends(starts: Mapping[int, int], ends: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """The ends of a round of about so many records; never before its starts."""
    named = {TopicPartition("", one): offset for one, offset in starts.items()}
    latest = {TopicPartition("", one): max(end, starts.get(one, 0)) for one, end in ends.items()}
    return {one.partition: end for one, end in limit_rows(named, latest, rows_max).items()}


def round_ranges(
    topic: str, starts: Mapping[int, int], ends: Mapping[int, int], tasks: int, rows_per_task: int
) -> list[OffsetRange]:
    """The ranges of a round, at least `tasks` if there is so much to do."""
    whole = [
        OffsetRange(TopicPartition(topic, partition), start, ends[partition])
        for partition, start in sorted(starts.items())
        if ends[partition] > start
    ]
    return split(whole, _worth(whole, tasks, rows_per_task), None)


def sharing(
    ranges: Sequence[OffsetRange], tasks: int, rows_per_task: int
) -> list[list[OffsetRange]]:
    """The ranges of each task of a round, as many tasks as it is worth.

    Many partitions with few records share a task, and so its files: a topic of a thousand
    partitions does not make a thousand files in each round.
    """
    worth = _worth(ranges, tasks, rows_per_task)
    groups: list[list[OffsetRange]] = [[] for _ in range(worth)]
    sizes = [0] * worth
    for one in sorted(ranges, key=lambda part: -part.size):
        least = sizes.index(min(sizes))
        groups[least].append(one)
        sizes[least] += one.size
    return [sorted(group) for group in groups if group]


def _worth(ranges: Sequence[OffsetRange], tasks: int, rows_per_task: int) -> int:
    return max(1, min(tasks, sum(one.size for one in ranges) // rows_per_task))
