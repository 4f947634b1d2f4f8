"""What `consume`, `tail` and others share: which partitions, from where, up to where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kaa.cli.client import admin_settings, say, tell
from kaa.cli.partitions import refuse_absent
from kaa.cli.topic.names import matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaa.cli.offset_range import ReadRange
    from kaa.client.admin.admin import Admin
    from kaa.client.consumer.consumer import Consumer
    from kaa.client.consumer.records import ConsumerRecord
    from kaa.model.topics import TopicPartition


_JOIN_POLL_MS: Final = 100


class ReadSpan(NamedTuple):
    """What is read of a partition; without `stop`, for ever."""

    start: int
    stop: int | None
    end: int


async def topics_of(settings: dict[str, str], patterns: Sequence[str]) -> list[str]:
    """The topics whose whole names match one of the patterns."""
    from kaa.client.admin.admin import Admin

    is_meant = matcher(patterns, is_regex=True)
    async with Admin(admin_settings(settings)) as admin:
        names = [topic.name for topic in await admin.list_topics(internal=True)]
    found = [name for name in names if is_meant(name)]
    if not found:
        raise click.UsageError(f"no topic matches {' or '.join(patterns)}")
    return found


async def partitions_of(
    consumer: Consumer, topics: Sequence[str], partitions: Sequence[int] = ()
) -> list[TopicPartition]:
    """The partitions of topics, all or those asked for; raises KafkaError."""
    names: list[TopicPartition] = []
    for topic in topics:
        found = await consumer.partitions_for(topic)
        refuse_absent(topic, partitions, len(found))
        names += [one for one in found if not partitions or one.partition in partitions]
    return names


class LogBounds(NamedTuple):
    """The first offsets and the ends of those partitions that could be asked."""

    first: dict[TopicPartition, int]
    end: dict[TopicPartition, int]


async def bounds_of(client: Consumer | Admin, names: Iterable[TopicPartition]) -> LogBounds:
    """Of the partitions that can be asked; as `offsets_at`."""
    from kaa.client.consumer.offsets import EARLIEST, LATEST

    return LogBounds(*await offsets_at(client, names, (EARLIEST, LATEST)))


async def offsets_at(
    client: Consumer | Admin, names: Iterable[TopicPartition], times: Iterable[int]
) -> list[dict[TopicPartition, int]]:
    """The offsets of each time, all of the same partitions.

    Tells of those that cannot be asked, such as those without a leader, and leaves them out;
    raises a ClientError if nothing is left.
    """
    from kaa.client.consumer.consumer import Consumer
    from kaa.client.consumer.offsets import READ_COMMITTED, READ_UNCOMMITTED, find_offsets

    values, level = client.values, READ_UNCOMMITTED
    if isinstance(client, Consumer):
        is_committed = values.get_string("isolation.level").lower() == "read_committed"
        level = READ_COMMITTED if is_committed else level
    found: list[dict[TopicPartition, int]] = []
    left = list(names)
    for time in times:
        timeout_ms = values.get_int("default.api.timeout.ms")
        wanted = dict.fromkeys(left, time)
        offsets, failures = await find_offsets(client.cluster, wanted, timeout_ms, level)
        for error in failures.values():
            tell(error)
        left = [name for name in left if name in offsets]
        found.append({name: offsets[name].offset for name in left})
    return [{name: offsets[name] for name in left} for offsets in found]


async def spans_of(
    consumer: Consumer, names: Sequence[TopicPartition], wanted: ReadRange, *, stops_at_end: bool
) -> dict[TopicPartition, ReadSpan]:
    """Which offsets a range stands for in each partition that can be asked."""
    first, end = await bounds_of(consumer, names)
    times: dict[Any, dict[TopicPartition, Any]] = {}
    for point in wanted:
        if point is not None and point.kind == "time":
            times[point] = await consumer.offsets_for_times(dict.fromkeys(end, point.value))

    def offset(point: Any, name: TopicPartition) -> int:
        at_time = times.get(point, {}).get(name)
        found: int = point.offset(first[name], end[name], at_time and at_time.offset)
        return found

    spans = {}
    for name in end:
        if (remark := wanted.start.remark(first[name], end[name])) is not None:
            say(f"{name}: {remark} is taken instead")
        stop = end[name] if stops_at_end else None
        if wanted.stop is not None:
            stop = offset(wanted.stop, name)
        spans[name] = ReadSpan(offset(wanted.start, name), stop, end[name])
    return spans


def start(consumer: Consumer, spans: dict[TopicPartition, ReadSpan]) -> None:
    """Lets a consumer read from where the spans start, and says where that is."""
    consumer.assign(list(spans))
    for name, span in spans.items():
        consumer.seek(name, span.start)
        until = "" if span.stop is None else f" up to {span.stop},"
        say(f"{name} from {span.start},{until} end {span.end}")


async def join_group(
    consumer: Consumer, topics: Sequence[str], group: str, *, stops_at_end: bool
) -> dict[TopicPartition, ReadSpan]:
    """Waits for what the group gives this member; reading starts where the group was."""
    consumer.subscribe(topics)
    say(f"joining group {group}")
    while not consumer.assignment:
        for name, records in (await consumer.poll(timeout_ms=_JOIN_POLL_MS)).items():
            # These came with the assignment; they are read again below.
            consumer.seek(name, records[0].offset)
    _, ends = await bounds_of(consumer, consumer.assignment)
    spans = {}
    for name in ends:
        position = await consumer.position(name)
        spans[name] = ReadSpan(position, ends[name] if stops_at_end else None, ends[name])
        say(f"{name} from {position}, end {ends[name]}")
    return spans


def record_filter(text: str | None) -> Callable[[ConsumerRecord], bool] | None:
    """Whether a pattern is found in key, value or a header of a record."""
    if text is None:
        return None
    try:
        pattern = re.compile(text.encode())
    except re.error as error:
        raise click.UsageError(f"{text!r} is not a pattern: {error}") from error

    def matches(record: ConsumerRecord) -> bool:
        return any(
            data is not None and pattern.search(data) is not None
            for data in (record.key, record.value)
        ) or any(
            pattern.search(name.encode() + b"=" + (value or b"")) for name, value in record.headers
        )

    return matches
