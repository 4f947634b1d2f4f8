"""`kaa tail`: records as they arrive, for people who watch.

A terminal cannot show a million records in a second, and nobody can read them: at most `--rate`
of them are printed per second, the others are counted, and the count is shown. Ctrl-C ends with a
line that says what was seen.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from kaa.cli.client import client_options, run, say
from kaa.cli.command import TOPIC, Verb
from kaa.cli.offset_range import parse_range
from kaa.cli.output import shows_colors
from kaa.cli.reading import partitions_of, record_filter, spans_of, topics_of
from kaa.cli.record_format import RecordWriter, iso_time
from kaa.cli.registry import decoder_of, registry_option
from kaa.cli.visible import visible
from kaa.limits import CLI_TAIL_VALUE_COLUMNS_MAX
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.cli.client import Session
    from kaa.cli.registry import RegistryDecoder
    from kaa.client.consumer.consumer import Consumer
    from kaa.client.consumer.records import ConsumerRecord

_POLL_MS: Final = 200
_COLORS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green")


class Seen(NamedTuple):
    """What went by."""

    printed: int
    left_out: int
    seconds: float

    def text(self) -> str:
        """The line at the end."""
        rate = (self.printed + self.left_out) / self.seconds if self.seconds else 0
        skipped = f", {self.left_out} not shown" if self.left_out else ""
        return (
            f"{count_text(self.printed, 'record')}{skipped} in {self.seconds:.1f} s ({rate:.0f}/s)"
        )


class RateLimit:
    """Lets so many through per second; time is handed in."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = -1
        self._left = 0
        # Kept back since the start.
        self.left_out = 0
        # Kept back since it was last reported.
        self.unreported = 0

    def take(self, now: float) -> bool:
        """Takes one more into account; whether it is shown."""
        if int(now) != self._second:
            self._second, self._left = int(now), self._per_second
        if self._left > 0:
            self._left -= 1
            return True
        self.left_out += 1
        self.unreported += 1
        return False


@click.command(cls=Verb)
@click.argument("topics", nargs=-1, required=True, type=TOPIC)
@click.option("--from", "start_at", default="end", show_default=True, help="As in kaa consume.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("-f", "--format", "format_", metavar="FORMAT", help="As in kcat: %t %p %o %k %s ...")
@click.option(
    "--grep", metavar="PATTERN", help="Only records whose key, value or headers contain it."
)
@click.option("-r", "--regex", is_flag=True, help="The topics are patterns.")
@registry_option
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Print at most this many per second; the rest is counted.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after this long."
)
@client_options
def command(
    session: Session,
    topics: tuple[str, ...],
    start_at: str,
    count: int | None,
    format_: str | None,
    grep: str | None,
    regex: bool,
    registry: str | None,
    rate: int,
    seconds: float | None,
) -> None:
    """Watch records of topics as they arrive.

    \b
    Examples:
      kaa tail orders
      kaa tail orders payments --grep error
      kaa tail --regex '.*' --rate 20
      kaa tail orders --from -10 -o jsonl
      kaa tail orders --registry http://localhost:8081
    """
    try:
        wanted = parse_range(start_at, time.time_ns() // 1_000_000)
        writer = RecordWriter(session.output, format_, "NULL", escapes=sys.stdout.isatty())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    is_plain = session.output == "table" and format_ is None
    write = _colored if is_plain else writer.write
    is_wanted = record_filter(grep)
    decoder = decoder_of(session.registry, registry, session.settings["default.api.timeout.ms"])

    async def work() -> None:
        from kaa.client.consumer.consumer import Consumer

        names = await topics_of(session.settings, topics) if regex else topics
        async with Consumer(session.settings) as consumer:
            found = await partitions_of(consumer, names)
            spans = await spans_of(consumer, found, wanted, stops_at_end=False)
            # One that has no leader yet is read from its end when it has one.
            consumer.assign(found)
            for name, span in spans.items():
                consumer.seek(name, span.start)
            partitions = count_text(len(found), "partition")
            say(f"watching {partitions} of {', '.join(names)}; Ctrl-C ends it")
            await _watch(consumer, write, is_wanted, RateLimit(rate), count, seconds, decoder)

    run(session, work)


async def _watch(
    consumer: Consumer,
    write: Callable[[str, int, ConsumerRecord], bytes],
    is_wanted: Callable[[ConsumerRecord], bool] | None,
    throttle: RateLimit,
    count: int | None,
    seconds: float | None,
    decoder: RegistryDecoder | None,
) -> None:
    out = sys.stdout.buffer
    started = time.monotonic()
    printed = 0
    try:
        async with asyncio.timeout(seconds):
            while count is None or printed < count:
                polled = await consumer.poll(timeout_ms=_POLL_MS)
                now = time.monotonic()
                if throttle.unreported and throttle.take(now):
                    say(f"... {count_text(throttle.unreported, 'record')} not shown")
                    throttle.unreported = 0
                for name, records in polled.items():
                    if decoder is not None:
                        records = await decoder.decode(records)
                    for record in records:
                        if is_wanted is not None and not is_wanted(record):
                            continue
                        if count is not None and printed >= count:
                            break
                        if throttle.take(now):
                            out.write(write(name.topic, name.partition, record))
                            printed += 1
                out.flush()
    except TimeoutError:
        pass
    finally:
        say(Seen(printed, throttle.left_out, time.monotonic() - started).text())


def _colored(topic: str, partition: int, record: ConsumerRecord) -> bytes:
    """A record on one line: when, where, key and value."""
    shown = record.value
    value = "NULL" if shown is None else _in_one_line(shown)
    key = "-" if record.key is None else _in_one_line(record.key)
    when = iso_time(record.timestamp)
    place = f"{topic}-{partition}@{record.offset}"
    if len(value) > CLI_TAIL_VALUE_COLUMNS_MAX:
        value = f"{value[:CLI_TAIL_VALUE_COLUMNS_MAX]}... ({len(value)} characters)"
    if shows_colors(sys.stdout):
        when = click.style(when, dim=True)
        place = click.style(place, fg=_COLORS[sum(topic.encode()) % len(_COLORS)])
        key = click.style(key, bold=True)
    return f"{when}  {place}  {key}  {value}\n".encode()


def _in_one_line(data: bytes) -> str:
    return visible(data.decode(errors="replace"), one_line=True)
