"""``kaa consume``: records of topics on standard output."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import click

from kaa.cli.client import client_options, run, say
from kaa.cli.command import GROUP, TOPIC, Verb
from kaa.cli.offset_range import parse_range
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.cli.client import Session
    from kaa.cli.reading import Span
    from kaa.client.consumer import Consumer
    from kaa.client.metadata import TopicPartition
    from kaa.records.record import Record

_POLL_MS = 200
_POLLED_MAX = 1000


@click.command(cls=Verb)
@click.argument("topics", nargs=-1, required=True, type=TOPIC)
@click.option(
    "--from", "start_at", default="start", show_default=True, help="Where to start; see above."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at what was the end at the start.")
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Default: all.")
@click.option("-f", "--format", "format_", metavar="FORMAT", help="As in kcat: %t %p %o %k %s ...")
@click.option("-Z", "--null", default="NULL", show_default=True, help="How null is printed.")
@click.option("--grep", metavar="PATTERN", help="Only records in whose key, value or header it is.")
@click.option("-r", "--regex", is_flag=True, help="The topics are patterns.")
@click.option("-g", "--group", type=GROUP, help="As a member of this group, which remembers.")
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
    group: str | None,
) -> None:
    """Read records of topics.

    Starts at the first record and goes on until it is stopped, unless told otherwise. --from takes
    start, end, an offset (42), +N behind the first, -N before the end, @TIME (2026-01-31T10:00:00,
    milliseconds, yesterday, -10m for ten minutes ago), or a range of two of them (10:20, @-1h:end).

    \b
    Examples:
      kaa consume orders -e
      kaa consume orders --from -10 -n 10
      kaa consume orders --from @-10m -o jsonl
      kaa consume orders -e --grep 'customer-7'
      kaa consume orders -e -f '%p %o %T{iso} %k=%s\\n'
      kaa consume --regex 'orders-.*' -e -o wide
      kaa consume orders -g billing
    """
    if group is not None and (partitions or start_at != "start"):
        raise click.UsageError("a group knows where to start; leave out --from and --partition")
    try:
        wanted = parse_range(start_at, time.time_ns() // 1_000_000)
        writer = RecordWriter(session.output, format_, null)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    is_wanted = record_filter(grep)

    async def work() -> None:
        from kaa.client.consumer import Consumer

        settings = session.settings
        if group is not None:
            # A new group starts at the first record, as this command does without one.
            settings = {"auto.offset.reset": "earliest", **settings, "group.id": group}
        names = await topics_of(session.settings, topics) if regex else topics
        async with Consumer(settings) as consumer:
            if group is None:
                found = await partitions_of(consumer, names, partitions)
                spans = await spans_of(consumer, found, wanted, stops_at_end=exit_at_end)
                start(consumer, spans)
            else:
                spans = await join_group(consumer, names, group, stops_at_end=exit_at_end)
            out = sys.stdout.buffer
            out.write(writer.head(session.output) if format_ is None else b"")
            try:
                await _consume(consumer, spans, count, is_wanted, writer)
            except asyncio.CancelledError:
                await _say_how_to_go_on(consumer, spans, writer.written, group)
                raise
            finally:
                out.write(writer.end())
                out.flush()

    run(session, work)


async def _consume(
    consumer: Consumer,
    spans: dict[TopicPartition, Span],
    count: int | None,
    is_wanted: Callable[[Record], bool] | None,
    writer: RecordWriter,
) -> None:
    left = sys.maxsize if count is None else count
    open_names = set(spans)
    out = sys.stdout.buffer
    with Progress("reading", "records", _total(spans, count, is_wanted)) as progress:
        # Records on a terminal are progress enough.
        progress.is_shown &= not sys.stdout.isatty()
        while left > 0:
            await _close_finished(consumer, spans, open_names)
            if not open_names:
                break
            # What a group has read is what was polled, so no more than is wanted.
            polled = await consumer.poll(timeout_ms=_POLL_MS, max_records=min(left, _POLLED_MAX))
            for name, records in polled.items():
                # A group may hand over partitions on the way.
                stop = spans[name].stop if name in spans else None
                chosen: Sequence[Record] = records
                if stop is not None:
                    chosen = [one for one in records if one.offset < stop]
                progress.advance(len(chosen))
                if is_wanted is not None:
                    chosen = [one for one in chosen if is_wanted(one)]
                for record in chosen[:left]:
                    out.write(writer.write(name.topic, name.partition, record))
                left -= len(chosen[:left])
            out.flush()


async def _say_how_to_go_on(
    consumer: Consumer, spans: dict[TopicPartition, Span], written: int, group: str | None
) -> None:
    say(f"stopped after {written} records")
    if group is not None:
        say(f"group {group} goes on where it was")
        return
    for name in spans:
        position = await consumer.position(name)
        say(f"{name} goes on with --from {position} -p {name.partition}")


def _total(
    spans: dict[TopicPartition, Span],
    count: int | None,
    is_wanted: Callable[[Record], bool] | None,
) -> int | None:
    """How many records there are to read, if that is known."""
    if any(span.stop is None for span in spans.values()):
        return None if is_wanted is not None else count
    total = sum(max(0, (span.stop or 0) - span.start) for span in spans.values())
    return total if count is None or is_wanted is not None else min(count, total)


async def _close_finished(
    consumer: Consumer, spans: dict[TopicPartition, Span], open_names: set[TopicPartition]
) -> None:
    for name in list(open_names):
        stop = spans[name].stop
        if stop is not None and await consumer.position(name) >= stop:
            open_names.discard(name)
            consumer.pause([name])
