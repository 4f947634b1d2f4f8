"""`kaa perf`: how fast a cluster takes and gives records, and how long one of them is on its way.

A run of `produce` sends as fast as it can, or at `--rate`; the time of a record runs from its
`send` to the answer of the broker. `e2e` sends one record at a time and waits until it has been
read back. A run that is interrupted, or ends because a record is refused or nothing comes any more,
reports what it has measured up to then. No run waits for one record longer than for any other
answer of the cluster (`--timeout`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from operator import ge
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import bound_delivery, client_options, run, say
from kaa.cli.command import TOPIC, Noun
from kaa.cli.output import show_one
from kaa.cli.progress import Progress, columns_of
from kaa.limits import CLI_PERF_RECORDS_PER_TURN
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kaa.cli.client import Session
    from kaa.client.consumer.consumer import Consumer
    from kaa.client.errors import ClientError
    from kaa.client.producer.producer import Delivery, Producer
    from kaa.model.topics import TopicPartition

_PERCENTILES = (50, 90, 99, 99.9)
_BAR_COLUMNS = 40


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
    """How many took at most that many milliseconds, in steps that double."""
    counts: dict[float, int] = {}
    for latency in latencies_ms:
        edge = 0.125
        while edge < latency:
            edge *= 2
        counts[edge] = counts.get(edge, 0) + 1
    return sorted(counts.items())


class Run:
    """What was measured so far. Who interrupts it sees that much."""

    def __init__(self, session: Session, record_bytes: int = 0) -> None:
        self._session = session
        self.record_bytes = record_bytes
        self.started = time.perf_counter()
        # Records that are done: acknowledged, or read.
        self.count = 0
        self.bytes = 0
        self.latencies_ms: list[float] = []
        # Why the first of the records that were refused was.
        self.failure: ClientError | None = None

    @property
    def patience_ms(self) -> int:
        """How long to wait for one record."""
        return int(self._session.settings["default.api.timeout.ms"])

    def settle(self, delivery: Delivery, sent: float) -> None:
        """A record that was sent then has been acknowledged, or was refused."""
        from kaa.client.errors import ClientError

        try:
            delivery.result()
        except ClientError as error:
            self.failure = self.failure or error
        else:
            self.add((time.perf_counter() - sent) * 1000)

    def check(self) -> None:
        """Raises what refused a record."""
        if self.failure is not None:
            raise self.failure

    def add(self, latency_ms: float) -> None:
        """One more record is done."""
        self.count += 1
        self.bytes += self.record_bytes
        self.latencies_ms.append(latency_ms)

    @asynccontextmanager
    async def measured(self, wanted: int) -> AsyncIterator[None]:
        """Runs the clock over the block, and reports also when the block ends too early."""
        from kaa.client.errors import ClientError

        self.started = time.perf_counter()
        try:
            yield
        except (asyncio.CancelledError, ClientError):
            seconds = time.perf_counter() - self.started
            say(f"stopped after {self.count} of {count_text(wanted, 'record')}")
            if self.count:
                _report(self._session, self.count, self.bytes, seconds, self.latencies_ms)
            raise
        seconds = time.perf_counter() - self.started
        _report(self._session, self.count, self.bytes, seconds, self.latencies_ms)


def histogram_lines(bins: Sequence[tuple[float, int]], columns: int) -> list[str]:
    """A line with a bar for each bin, none of them longer than the terminal is wide."""
    most = max((number for _, number in bins), default=0)
    heads = [f"  <= {edge:>9g} ms {number:>8} " for edge, number in bins]
    room = min([_BAR_COLUMNS, *(columns - len(head) for head in heads)])
    return [
        head + "█" * max(1, number * room // most)
        for head, (_, number) in zip(heads, bins, strict=True)
    ]


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
            f"{count_text(count, 'record')} in {seconds:.2f} s: {count / seconds:.0f} records/s, "
            f"{size / seconds / 1e6:.2f} MB/s"
        )
        if latencies_ms:
            parts = [f"{name} {value:.2f}" for name, value in result["latency_ms"].items()]
            click.echo(f"latency in ms: {', '.join(parts)}")
        for line in histogram_lines(bins, columns_of(sys.stdout)):
            click.echo(line)

    show_one(session.output, result, "records_per_second", text)


@command.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "-n",
    "--count",
    "--records",
    "count",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
)
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
    bound_delivery(session.settings)

    async def work() -> None:
        from kaa.client.producer.producer import Producer

        run_ = Run(session, size)
        async with Producer(session.settings) as producer:
            await producer.partitions_for(topic)
            async with run_.measured(count):
                await _send(producer, topic, count, rate, run_)

    run(session, work)


async def _send(producer: Producer, topic: str, count: int, rate: float | None, run_: Run) -> None:
    value = bytes(run_.record_bytes)
    with Progress("writing", "records", count) as progress:
        for number in range(count):
            if rate is not None:
                pause = run_.started + number / rate - time.perf_counter()
                if pause > 0:
                    await asyncio.sleep(pause)
            delivery = await producer.send(topic, value)
            delivery.add_done_callback(partial(run_.settle, sent=time.perf_counter()))
            progress.advance()
            if number % CLI_PERF_RECORDS_PER_TURN == 0 or rate is not None:
                await asyncio.sleep(0)
                run_.check()
        await producer.flush()
        # The callbacks of the last answer have their turn.
        await asyncio.sleep(0)
        run_.check()


@command.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "-n",
    "--count",
    "--records",
    "count",
    type=click.IntRange(min=1),
    help="Default: all that is there.",
)
@client_options
def consume(session: Session, topic: str, count: int | None) -> None:
    """Measure reading the records of a topic from its start.

    \b
    Examples:
      kaa perf consume orders
      kaa perf consume orders -n 100000 -X max.poll.records=5000
    """

    async def work() -> None:
        from kaa.client.consumer.consumer import Consumer

        async with Consumer(session.settings) as consumer:
            names = await consumer.partitions_for(topic)
            consumer.assign(names)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(names)
            total = sum(ends.values()) - sum([await consumer.position(name) for name in names])
            wanted = total if count is None else count
            run_ = Run(session)
            async with run_.measured(wanted):
                await _read(consumer, ends, wanted, run_)
        if count is not None and run_.count < count:
            held = count_text(run_.count, "record")
            say(f"{topic} has {held}, fewer than the {count} asked for")

    run(session, work)


async def _read(
    consumer: Consumer, ends: dict[TopicPartition, int], wanted: int, run_: Run
) -> None:
    from kaa.client.errors import RequestTimeoutError

    reached: list[int] = []
    moved = time.perf_counter()
    with Progress("reading", "records", wanted) as progress:
        while run_.count < wanted:
            positions = [await consumer.position(name) for name in ends]
            if all(map(ge, positions, ends.values())):
                return
            if positions != reached:
                reached, moved = positions, time.perf_counter()
            elif (time.perf_counter() - moved) * 1000 > run_.patience_ms:
                raise RequestTimeoutError(
                    f"nothing could be read for {run_.patience_ms / 1000:g} s; see whether the "
                    "partitions have leaders (kaa cluster health)"
                )
            for records in (await consumer.poll(timeout_ms=200)).values():
                run_.count += len(records)
                run_.bytes += sum(len(record.value or b"") for record in records)
                progress.advance(len(records))


@command.command()
@click.argument("topic", type=TOPIC)
@click.option(
    "-n",
    "--count",
    "--records",
    "count",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
)
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
    bound_delivery(session.settings)

    async def work() -> None:
        from kaa.client.consumer.consumer import Consumer
        from kaa.client.producer.producer import Producer

        run_ = Run(session, size)
        async with Producer(session.settings) as producer, Consumer(session.settings) as consumer:
            await producer.partitions_for(topic)
            (name, *_) = await consumer.partitions_for(topic)
            consumer.assign([name])
            await consumer.seek_to_end()
            async with run_.measured(count):
                with Progress("measuring", "records", count) as progress:
                    for _ in range(count):
                        await _there_and_back(producer, consumer, name, run_)
                        progress.advance()

    run(session, work)


async def _there_and_back(
    producer: Producer, consumer: Consumer, name: TopicPartition, run_: Run
) -> None:
    """Sends a record and reads on until it has come, past what others write meanwhile."""
    from kaa.client.errors import RequestTimeoutError

    sent = time.perf_counter()
    delivery = await producer.send(name.topic, bytes(run_.record_bytes), partition=name.partition)
    # One that is refused raises here. The consumer fetches meanwhile, so this takes no time away.
    wanted = (await delivery).offset
    deadline = time.perf_counter() + run_.patience_ms / 1000
    reached = -1
    while reached < max(wanted, 0):
        left_ms = int((deadline - time.perf_counter()) * 1000)
        found = (await consumer.poll(timeout_ms=max(left_ms, 0))).get(name)
        if found:
            reached = found[-1].offset
        elif left_ms <= 0:
            raise RequestTimeoutError(
                f"offset {wanted} of {name} was written and could not be read for "
                f"{run_.patience_ms / 1000:g} s; see whether replicas lag (kaa cluster health)"
            )
    run_.add((time.perf_counter() - sent) * 1000)
