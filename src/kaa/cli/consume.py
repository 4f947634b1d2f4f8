"""`kaa consume`: records of topics on standard output."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import click

from kaa.cli.client import EXIT_PARTLY, client_options, run, say
from kaa.cli.command import GROUP, TOPIC, Verb
from kaa.cli.consume_share import consume_share
from kaa.cli.offset_range import parse_range
from kaa.cli.partitions import partitions_option
from kaa.cli.progress import Progress
from kaa.cli.reading import (
    join_group,
    partitions_of,
    record_filter,
    spans_of,
    start,
    topics_of,
)
from kaa.cli.record_format import RecordWriter
from kaa.cli.registry import decoder_of, registry_option
from kaa.limits import CLI_POLLED_RECORDS_MAX
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaa.cli.client import Session
    from kaa.cli.reading import ReadSpan
    from kaa.cli.registry import RegistryDecoder
    from kaa.client.consumer.consumer import Consumer
    from kaa.client.consumer.records import ConsumerRecord
    from kaa.model.topics import TopicPartition

_POLL_MS = 200
# Stands for the position in a partition that a rebalance took away.
_ELSEWHERE = -1


@click.command(cls=Verb)
@click.argument("topics", nargs=-1, required=True, type=TOPIC)
@click.option(
    "--from", "start_at", default="start", show_default=True, help="Where to start; see above."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at the end as it is now.")
@partitions_option
@click.option("-f", "--format", "format_", metavar="FORMAT", help="As in kcat: %t %p %o %k %s ...")
@click.option("-Z", "--null", default="NULL", show_default=True, help="How null is printed.")
@click.option(
    "--grep", metavar="PATTERN", help="Only records whose key, value or headers contain it."
)
@click.option("-r", "--regex", is_flag=True, help="The topics are patterns.")
@registry_option
@click.option("-g", "--group", type=GROUP, help="Read as a member of this group, and commit.")
@click.option("--share", type=GROUP, metavar="GROUP", help="Read as a member of this share group.")
@client_options
def command(
    session: Session,
    topics: tuple[str, ...],
    start_at: str,
    count: int | None,
    exit_at_end: bool,
    partitions: tuple[int, ...],
    format_: str | None,
    null: str,
    grep: str | None,
    regex: bool,
    registry: str | None,
    group: str | None,
    share: str | None,
) -> None:
    """Read records of topics.

    Starts at the first record and goes on until it is stopped, unless told otherwise. --from takes
    start, end, an offset (42), +N after the first, -N before the end, @TIME (2026-01-31T10:00:00,
    milliseconds, yesterday, -10m for ten minutes ago), or a range of two of them (10:20, @-1h:end).

    \b
    Examples:
      kaa consume orders -e
      kaa consume orders --from -10 -n 10
      kaa consume orders --from @-10m -p 0,1 -o jsonl
      kaa consume orders -e --grep 'customer-7'
      kaa consume orders -e -f '%p %o %T{iso} %k=%s\\n'
      kaa consume --regex 'orders-.*' -e -o wide
      kaa consume orders -g billing
      kaa consume jobs --share workers -n 10
      kaa consume orders -e -o jsonl --registry http://localhost:8081
    """
    others = bool(group or exit_at_end or regex or registry or grep)
    _check_groups(group, share, bool(partitions or start_at != "start"), others)
    try:
        wanted = parse_range(start_at, time.time_ns() // 1_000_000)
        writer = RecordWriter(session.output, format_, null, escapes=sys.stdout.isatty())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    is_wanted = record_filter(grep)
    decoder = decoder_of(session.registry, registry, session.settings["default.api.timeout.ms"])

    async def work() -> int:
        from kaa.client.consumer.consumer import Consumer

        if share is not None:
            await consume_share(session.settings, topics, share, count, writer)
            return 0
        names = await topics_of(session.settings, topics) if regex else topics
        async with Consumer(_settings(session, group)) as consumer:
            if group is None:
                found = await partitions_of(consumer, names, partitions)
                spans = await spans_of(consumer, found, wanted, stops_at_end=exit_at_end)
                start(consumer, spans)
            else:
                spans = await join_group(consumer, names, group, stops_at_end=exit_at_end)
                found = list(consumer.assignment)
            sys.stdout.buffer.write(writer.head(session.output) if format_ is None else b"")
            try:
                is_whole = await _consume(consumer, spans, count, is_wanted, writer, decoder)
            except asyncio.CancelledError:
                await _say_how_to_go_on(consumer, spans, writer.written, group)
                raise
            finally:
                _finish(writer, decoder)
        return 0 if is_whole and len(spans) == len(found) else EXIT_PARTLY

    run(session, work)


def _finish(writer: RecordWriter, decoder: RegistryDecoder | None) -> None:
    sys.stdout.buffer.write(writer.end())
    sys.stdout.buffer.flush()
    if decoder is not None and (summary := decoder.summary()):
        say(summary)


def _check_groups(group: str | None, share: str | None, has_start: bool, has_others: bool) -> None:
    if (group or share) and has_start:
        raise click.UsageError("a group knows where to start; leave out --from and --partition")
    if share and has_others:
        raise click.UsageError("--share goes only with topics, --count and --format")


def _settings(session: Session, group: str | None) -> Mapping[str, object]:
    if group is None:
        return session.settings
    # A new group starts at the first record, as this command does without one.
    return {"auto.offset.reset": "earliest", **session.settings, "group.id": group}


async def _consume(
    consumer: Consumer,
    spans: dict[TopicPartition, ReadSpan],
    count: int | None,
    is_wanted: Callable[[ConsumerRecord], bool] | None,
    writer: RecordWriter,
    decoder: RegistryDecoder | None,
) -> bool:
    """Writes records until all are there. False if the end is known and was not reached, since for
    the time that a command waits for an answer nothing came of any partition.
    """
    left = sys.maxsize if count is None else count
    open_names = set(spans)
    out = sys.stdout.buffer
    patience = consumer.values.get_int("default.api.timeout.ms") / 1000
    heard = time.monotonic()
    reached: dict[TopicPartition, int] = {}
    with Progress("reading", "records", _total(spans, count, is_wanted)) as progress:
        # Records on a terminal are progress enough.
        progress.is_shown &= not sys.stdout.isatty()
        while left > 0:
            before, reached = reached, await _close_finished(consumer, spans, open_names)
            if _is_done(consumer, open_names):
                break
            # Offsets without a record to show are progress too.
            if reached != before:
                heard = time.monotonic()
            elif time.monotonic() > heard + patience and open_names == reached.keys():
                await _say_what_is_unread(consumer, spans, open_names)
                return False
            # What a group has read is what was polled, so no more than is wanted.
            polled = await consumer.poll(
                timeout_ms=_POLL_MS, max_records=min(left, CLI_POLLED_RECORDS_MAX)
            )
            try:
                for name, records in polled.items():
                    # A group may hand over partitions on the way.
                    stop = spans[name].stop if name in spans else None
                    chosen = _before(consumer, name, records, stop)
                    progress.advance(len(chosen))
                    if decoder is not None:
                        chosen = await decoder.decode(chosen)
                    if is_wanted is not None:
                        chosen = [one for one in chosen if is_wanted(one)]
                    for record in chosen[:left]:
                        out.write(writer.write(name.topic, name.partition, record))
                    left -= len(chosen[:left])
                out.flush()
            except BaseException:
                _take_back(consumer, polled)
                raise
    return True


def _is_done(consumer: Consumer, open_names: set[TopicPartition]) -> bool:
    """Whether the rest, if any, is for other members of the group to read. One without partitions
    may be in the middle of a rebalance, which gives them back.
    """
    assigned = consumer.assignment
    return not open_names or (bool(assigned) and open_names.isdisjoint(assigned))


def _before(
    consumer: Consumer, name: TopicPartition, records: Sequence[ConsumerRecord], stop: int | None
) -> Sequence[ConsumerRecord]:
    """The records before `stop`; a group has not read the others, which came after the command."""
    chosen = records if stop is None else [one for one in records if one.offset < stop]
    if len(chosen) < len(records):
        consumer.seek(name, records[len(chosen)].offset)
        consumer.pause([name])
    return chosen


def _take_back(
    consumer: Consumer, polled: Mapping[TopicPartition, Sequence[ConsumerRecord]]
) -> None:
    """The output does not have these records for sure: the group gets them again."""
    for name, records in polled.items():
        consumer.seek(name, records[0].offset)


async def _say_what_is_unread(
    consumer: Consumer, spans: dict[TopicPartition, ReadSpan], names: set[TopicPartition]
) -> None:
    assigned = consumer.assignment
    for name in sorted(names):
        if name not in assigned:
            say(f"{name} is no longer with this member of the group")
            continue
        position = await consumer.position(name)
        say(f"{name} was read up to {position}, and ends at {spans[name].stop}: nothing came of it")
    say("next: kaa topic describe shows whether they have a leader; --timeout waits longer")


async def _say_how_to_go_on(
    consumer: Consumer, spans: dict[TopicPartition, ReadSpan], written: int, group: str | None
) -> None:
    say(f"stopped after {count_text(written, 'record')}")
    if group is not None:
        say(f"group {group} goes on where it was")
        return
    for name in spans:
        position = await consumer.position(name)
        say(f"{name} goes on with --from {position} -p {name.partition}")


def _total(
    spans: dict[TopicPartition, ReadSpan],
    count: int | None,
    is_wanted: Callable[[ConsumerRecord], bool] | None,
) -> int | None:
    """How many records there are to read, if that is known."""
    if any(span.stop is None for span in spans.values()):
        return None if is_wanted is not None else count
    total = sum(max(0, (span.stop or 0) - span.start) for span in spans.values())
    return total if count is None or is_wanted is not None else min(count, total)


async def _close_finished(
    consumer: Consumer, spans: dict[TopicPartition, ReadSpan], open_names: set[TopicPartition]
) -> dict[TopicPartition, int]:
    """Pauses the partitions whose end is reached; where the others are of which it is known."""
    reached = {}
    assigned = consumer.assignment
    for name in list(open_names):
        stop = spans[name].stop
        if stop is None:
            continue
        position = await consumer.position(name) if name in assigned else _ELSEWHERE
        if position >= stop:
            open_names.discard(name)
            consumer.pause([name])
        else:
            reached[name] = position
    return reached
