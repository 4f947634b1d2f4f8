"""``kaa perf``: how fast a cluster takes and gives records, and how long one of them is on its way.

A run of ``produce`` sends as fast as it can, or at ``--rate``; the time of a record runs from its
``send`` to the answer of the broker. ``e2e`` sends one record at a time and waits until it has been
read back.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import client_options, run, say
from kaa.cli.command import TOPIC, Noun
from kaa.cli.output import show_one
from kaa.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.cli.client import Session

_PERCENTILES = (50, 90, 99, 99.9)
_BAR_COLUMNS = 40
# Records sent before the loop gets a turn, so that answers are seen while sending.
_SENT_PER_TURN = 100


@click.group(cls=Noun, name="perf")
def command() -> None:
    """Measure producing, consuming and the time in between.

    \b
    Examples:
      kaa perf produce orders -n 100000 --size 100
      kaa perf e2e orders -n 1000
    """


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that so many percent of the values, in order, do not exceed."""
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def summary(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Mean, percentiles and maximum."""
    ordered = sorted(latencies_ms)
    found = {"mean": sum(ordered) / len(ordered)}
    found |= {f"p{percent:g}": percentile(ordered, percent) for percent in _PERCENTILES}
    return {name: round(value, 3) for name, value in {**found, "max": ordered[-1]}.items()}


def histogram(latencies_ms: Sequence[float]) -> list[tuple[float, int]]:
    """How many took at most so many milliseconds, in steps that double."""
    counts: dict[float, int] = {}
    for latency in latencies_ms:
        edge = 0.125
        while edge < latency:
            edge *= 2
        counts[edge] = counts.get(edge, 0) + 1
    return sorted(counts.items())


def _report(
    session: Session, count: int, size: int, seconds: float, latencies_ms: Sequence[float]
) -> None:
    result: dict[str, Any] = {
        "records": count,
        "seconds": round(seconds, 3),
        "records_per_second": round(count / seconds, 1),
        "megabytes_per_second": round(size / seconds / 1e6, 3),
    }
    bins = histogram(latencies_ms)
    if latencies_ms:
        result["latency_ms"] = summary(latencies_ms)
        result["histogram"] = [{"ms_max": edge, "records": number} for edge, number in bins]

    def text() -> None:
        click.echo(
            f"{count} records in {seconds:.2f} s: {count / seconds:.0f} records/s, "
            f"{size / seconds / 1e6:.2f} MB/s"
        )
        if latencies_ms:
            parts = [f"{name} {value:.2f}" for name, value in result["latency_ms"].items()]
            click.echo(f"latency in ms: {', '.join(parts)}")
        most = max((number for _, number in bins), default=0)
        for edge, number in bins:
            bar = "█" * max(1, number * _BAR_COLUMNS // most)
            click.echo(f"  <= {edge:>9g} ms {number:>8} {bar}")

    show_one(session.output, result, "records_per_second", text)


@command.command()
@click.argument("topic", type=TOPIC)
@click.option("-n", "--count", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--size", type=click.IntRange(min=0), default=100, show_default=True, help="Bytes.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records per second.")
@client_options
def produce(session: Session, topic: str, count: int, size: int, rate: float | None) -> None:
    """Measure writing records to a topic.

    \b
    Examples:
      kaa perf produce orders -n 100000 --size 1024
      kaa perf produce orders --rate 1000 -n 10000 -X linger.ms=0 -o json
    """

    async def work() -> None:
        from kaa.client.producer import Producer

        value = bytes(size)
        latencies_ms: list[float] = []
        async with Producer(session.settings) as producer, asyncio.TaskGroup() as tasks:
            await producer.partitions_for(topic)
            progress = Progress("writing", "records", count)
            started = time.perf_counter()
            waiting: list[tuple[Any, float]] = []
            for number in range(count):
                if rate is not None:
                    pause = started + number / rate - time.perf_counter()
                    if pause > 0:
                        await asyncio.sleep(pause)
                waiting.append((await producer.send(topic, value), time.perf_counter()))
                progress.advance()
                if len(waiting) == _SENT_PER_TURN or rate is not None:
                    tasks.create_task(_measure(waiting, latencies_ms))
                    waiting = []
                    await asyncio.sleep(0)
            tasks.create_task(_measure(waiting, latencies_ms))
            await producer.flush()
            progress.clear()
            seconds = time.perf_counter() - started
        _report(session, count, count * size, seconds, latencies_ms)

    run(session, work)


async def _measure(waiting: list[tuple[Any, float]], latencies_ms: list[float]) -> None:
    for delivery, sent in waiting:
        await delivery
        latencies_ms.append((time.perf_counter() - sent) * 1000)


@command.command()
@click.argument("topic", type=TOPIC)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Default: all that is there.")
@client_options
def consume(session: Session, topic: str, count: int | None) -> None:
    """Measure reading the records of a topic from its start.

    \b
    Examples:
      kaa perf consume orders
      kaa perf consume orders -n 100000 -X max.poll.records=5000
    """

    async def work() -> None:
        from kaa.client.consumer import Consumer

        async with Consumer(session.settings) as consumer:
            names = await consumer.partitions_for(topic)
            consumer.assign(names)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(names)
            total = sum(ends.values()) - sum([await consumer.position(name) for name in names])
            progress = Progress("reading", "records", total if count is None else count)
            started = time.perf_counter()
            read = size = 0
            while count is None or read < count:
                positions = [(await consumer.position(name), ends[name]) for name in names]
                if all(position >= end for position, end in positions):
                    break
                for records in (await consumer.poll(timeout_ms=200)).values():
                    read += len(records)
                    progress.advance(len(records))
                    size += sum(len(record.value or b"") for record in records)
            progress.clear()
            seconds = time.perf_counter() - started
        if count is not None and read < count:
            say(f"{topic} has {read} records, fewer than the {count} asked for")
        _report(session, read, size, seconds, [])

    run(session, work)


@command.command()
@click.argument("topic", type=TOPIC)
@click.option("-n", "--count", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--size", type=click.IntRange(min=0), default=100, show_default=True, help="Bytes.")
@client_options
def e2e(session: Session, topic: str, count: int, size: int) -> None:
    """Measure the time from sending a record to reading it, one record at a time.

    \b
    Examples:
      kaa perf e2e orders
      kaa perf e2e orders -n 100 --size 1024 -o json
    """
    session.settings.setdefault("linger.ms", "0")

    async def work() -> None:
        from kaa.client.consumer import Consumer
        from kaa.client.producer import Producer

        latencies_ms: list[float] = []
        async with Producer(session.settings) as producer, Consumer(session.settings) as consumer:
            await producer.partitions_for(topic)
            (name, *_) = await consumer.partitions_for(topic)
            consumer.assign([name])
            await consumer.seek_to_end()
            started = time.perf_counter()
            progress = Progress("measuring", "records", count)
            for _ in range(count):
                progress.advance()
                sent = time.perf_counter()
                await producer.send(topic, bytes(size), partition=name.partition)
                while not await consumer.poll():
                    pass
                latencies_ms.append((time.perf_counter() - sent) * 1000)
            progress.clear()
            seconds = time.perf_counter() - started
        _report(session, count, count * size, seconds, latencies_ms)

    run(session, work)
