"""``kaa consume``: records of topics on standard output."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import client_options, run, say
from kaa.cli.offset_range import parse_range
from kaa.cli.record_format import as_json, compile_format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.cli.client import Session
    from kaa.cli.offset_range import Range
    from kaa.client.consumer import Consumer
    from kaa.client.metadata import TopicPartition
    from kaa.records.record import Record

_POLL_MS = 200


@click.command()
@click.argument("topics", nargs=-1, required=True)
@click.option(
    "--from", "start", default="start", show_default=True, help="Where to start; see below."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at what was the end at the start.")
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Default: all.")
@click.option("-f", "--format", "format_", metavar="FORMAT", help="As in kcat: %t %p %o %k %s ...")
@click.option("-Z", "--null", default="NULL", show_default=True, help="How null is printed.")
@client_options
def command(
    session: Session,
    topics: tuple[str, ...],
    start: str,
    count: int | None,
    exit_at_end: bool,
    partitions: tuple[int, ...],
    format_: str | None,
    null: str,
) -> None:
    """Read records of topics.

    Starts at the first record and goes on until it is stopped, unless told otherwise. --from takes
    start, end, an offset (42), +N behind the first, -N before the end, @TIME (2026-01-31T10:00:00,
    milliseconds, -10m for ten minutes ago), and a range of two of them (10:20, @-1h:end).

    \b
    Examples:
      kaa consume orders -e
      kaa consume orders --from -10 -n 10
      kaa consume orders --from @-10m -o jsonl
      kaa consume orders -e -f '%p %o %k=%s\\n'
    """
    try:
        wanted = parse_range(start, time.time_ns() // 1_000_000)
        write = _writer(session.output, format_, null)
    except ValueError as error:
        raise click.UsageError(str(error)) from error

    async def work() -> int:
        from kaa.client.consumer import Consumer

        async with Consumer(session.settings) as consumer:
            names = await _names(consumer, topics, partitions)
            stops = await _seek(consumer, names, wanted, exit_at_end)
            return await _consume(consumer, stops, count, write)

    run(session, work)


def _writer(output: str, format_: str | None, null: str) -> Callable[[str, int, Record], bytes]:
    if format_ is not None:
        return compile_format(format_, null.encode())
    if output in {"json", "jsonl"}:
        return lambda *record: json.dumps(as_json(*record)).encode() + b"\n"
    if output == "name":
        return compile_format("%t-%p@%o\\n")
    if output == "csv":
        raise ValueError("records have no csv form; use -f '%o,%k,%s\\n'")
    return compile_format("%s\\n", null.encode())


async def _names(
    consumer: Consumer, topics: Sequence[str], partitions: Sequence[int]
) -> list[TopicPartition]:
    from kaa.client.errors import KafkaError
    from kaa.wire.errors import Errors

    names: list[TopicPartition] = []
    for topic in topics:
        found = await consumer.partitions_for(topic)
        for partition in partitions:
            if not 0 <= partition < len(found):
                what = f"partition {topic}-{partition}"
                raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, what)
        names += [one for one in found if not partitions or one.partition in partitions]
    return names


async def _seek(
    consumer: Consumer, names: list[TopicPartition], wanted: Range, exit_at_end: bool
) -> dict[TopicPartition, int | None]:
    """Moves to where reading starts; gives where it stops in each partition (None: never)."""
    first = await consumer.beginning_offsets(names)
    end = await consumer.end_offsets(names)
    consumer.assign(names)
    stops: dict[TopicPartition, int | None] = {}
    for point in (wanted.start, wanted.stop):
        times: dict[TopicPartition, Any] = {}
        if point is not None and point.kind == "time":
            times = await consumer.offsets_for_times(dict.fromkeys(names, point.value))
        for name in names:
            at_time = times.get(name)
            if point is None:
                stops[name] = end[name] if exit_at_end else None
                continue
            offset = point.offset(first[name], end[name], at_time and at_time.offset)
            if point is wanted.start:
                consumer.seek(name, offset)
                say(f"{name} from {offset}, end {end[name]}")
            else:
                stops[name] = offset
    return stops


async def _consume(
    consumer: Consumer,
    stops: dict[TopicPartition, int | None],
    count: int | None,
    write: Callable[[str, int, Record], bytes],
) -> int:
    left = sys.maxsize if count is None else count
    open_names = set(stops)
    out = sys.stdout.buffer
    while left > 0 and open_names:
        for name in list(open_names):
            stop = stops[name]
            if stop is not None and await consumer.position(name) >= stop:
                open_names.discard(name)
                consumer.pause([name])
        if not open_names:
            break
        for (topic, partition), records in (await consumer.poll(timeout_ms=_POLL_MS)).items():
            stop = stops[topic, partition]  # type: ignore[index]
            wanted = records if stop is None else [one for one in records if one.offset < stop]
            for record in wanted[:left]:
                out.write(write(topic, partition, record))
            left -= len(wanted[:left])
        out.flush()
    return 0
