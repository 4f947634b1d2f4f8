"""The plan of `kaa group seek`: which offset each partition of a group gets."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from kaa.cli.client import say
from kaa.cli.offset_range import Point, parse_range
from kaa.cli.partitions import read_partitions, refuse_absent, refuse_repeated
from kaa.cli.reading import bounds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.client.admin.admin import Admin
    from kaa.model.topics import TopicPartition


class SeekError(Exception):
    """What was asked for cannot be planned."""


class SeekStep(NamedTuple):
    """A partition of the group, where it is and where it is to be."""

    partition: TopicPartition
    committed: int | None
    offset: int
    end_offset: int


class Plan(NamedTuple):
    """What is to be done, and whether that is all that was asked for."""

    steps: list[SeekStep]
    is_whole: bool


def read_topics(texts: Sequence[str]) -> dict[str, list[int] | None]:
    """Topics with their partitions, or None for all of them; raises SeekError."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, separator, numbers = text.partition(":")
        if not topic:
            raise SeekError(f"{text!r} names no topic; write orders or orders:0,1")
        if topic in found and (not separator or found[topic] is None):
            raise SeekError(f"{topic} is named as a whole and by partitions; name it once")
        if not separator:
            found[topic] = None
            continue
        try:
            named = [*(found.get(topic) or []), *read_partitions(numbers)]
            refuse_repeated(named)
        except ValueError as error:
            raise SeekError(f"{text!r}: {error}") from error
        found[topic] = named
    return found


def read_targets(text: str) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition from a CSV; raises SeekError.

    With a line of names as this program prints it, or without one as Kafka's own tool does.
    """
    lines = [line for line in csv.reader(StringIO(text)) if line]
    names = ["topic", "partition", "offset"]
    if lines and not any(part.isdecimal() for part in lines[0]):
        names = lines.pop(0)
    found: dict[tuple[str, int], int] = {}
    for number, line in enumerate(lines, 1):
        row = dict(zip(names, line, strict=False))
        try:
            place = row["topic"].strip('"'), int(row["partition"])
            offset = int(row["offset"])
        except (KeyError, ValueError) as error:
            raise SeekError(
                f"row {number} has no topic, partition and offset: {','.join(line)}"
            ) from error
        if place in found:
            raise SeekError(f"row {number} names a partition again: {','.join(line)}")
        found[place] = offset
    return found


def parse_target(text: str, now_ms: int) -> Point:
    """A point of the offset grammar; raises SeekError."""
    try:
        wanted = parse_range(text, now_ms)
    except ValueError as error:
        raise SeekError(str(error)) from error
    if wanted.stop is not None:
        raise SeekError(f"{text!r} is a range; give one point")
    return wanted.start


async def make_plan(
    admin: Admin,
    group: str,
    topics: Mapping[str, list[int] | None],
    target: str | None,
    shift: int | None,
    targets: Mapping[tuple[str, int], int] | None,
    now_ms: int,
) -> Plan:
    """Where each partition goes that can be asked; raises SeekError, or KafkaError for what does
    not exist.
    """
    from kaa.model.topics import TopicPartition

    point = None if target is None else parse_target(target, now_ms)
    committed = await admin.list_group_offsets(group)
    if targets is not None:
        wanted = [TopicPartition(*one) for one in sorted(targets)]
    else:
        wanted = await _partitions(admin, committed, topics)
    if not wanted:
        raise SeekError(f"group {group} has committed nothing; name topics with -t")
    first, end = await bounds_of(admin, wanted)
    times = {}
    if point is not None and point.kind == "time":
        times = await admin.list_offsets(dict.fromkeys(end, point.value))
    steps = []
    for one in end:
        start_offset, end_offset = first[one], end[one]
        known = committed[one].offset if one in committed else None
        if targets is not None:
            point = Point("offset", targets[one])
        elif shift is not None:
            point = Point("offset", (start_offset if known is None else known) + shift)
        assert point is not None
        if (remark := point.remark(start_offset, end_offset)) is not None:
            say(f"{one}: {remark} is taken instead")
        at_time = times[one].offset if one in times else None
        # A broker answers -1 where no record is so new.
        at_time = None if at_time is not None and at_time < 0 else at_time
        offset = point.offset(start_offset, end_offset, at_time)
        steps.append(SeekStep(one, known, offset, end_offset))
    return Plan(steps, is_whole=len(end) == len(wanted))


async def _partitions(
    admin: Admin,
    committed: Mapping[TopicPartition, object],
    topics: Mapping[str, list[int] | None],
) -> list[TopicPartition]:
    from kaa.model.topics import TopicPartition

    if not topics:
        return sorted(committed)
    found: list[TopicPartition] = []
    for topic, numbers in topics.items():
        count = len((await admin.describe_topic(topic)).partitions)
        refuse_absent(topic, numbers or (), count)
        found += [
            TopicPartition(topic, number)
            for number in (range(count) if numbers is None else numbers)
        ]
    return sorted(found)
