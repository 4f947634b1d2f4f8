"""How much of a topic one round takes, and how it is divided among tasks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.client.metadata import TopicPartition
from kaa.spark.plan import OffsetRange, limit_rows, split

if TYPE_CHECKING:
    from collections.abc import Mapping


def round_ends(starts: Mapping[int, int], ends: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """The ends of a round of about so many records; never before its starts."""
    named = {TopicPartition("", one): offset for one, offset in starts.items()}
    latest = {TopicPartition("", one): max(end, starts.get(one, 0)) for one, end in ends.items()}
    return {one.partition: end for one, end in limit_rows(named, latest, rows_max).items()}


def round_ranges(
    topic: str, starts: Mapping[int, int], ends: Mapping[int, int], tasks: int, rows_per_task: int
) -> list[OffsetRange]:
    """The ranges of the tasks of a round, at least ``tasks`` if there is so much to do."""
    whole = [
        OffsetRange(TopicPartition(topic, partition), start, ends[partition])
        for partition, start in sorted(starts.items())
        if ends[partition] > start
    ]
    worth = max(1, min(tasks, sum(one.size for one in whole) // rows_per_task))
    return split(whole, worth, None)
