"""`kaa offsets`: which offsets partitions have, and which one a time stands for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import EXIT_PARTLY, client_options, run
from kaa.cli.command import TOPIC, Verb
from kaa.cli.offset_range import parse_range
from kaa.cli.output import show
from kaa.cli.partitions import partitions_option

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.cli.offset_range import Point


@click.command(cls=Verb)
@click.argument("topics", nargs=-1, required=True, type=TOPIC, metavar="TOPIC[@TIME]...")
@partitions_option
@client_options
def command(session: Session, topics: tuple[str, ...], partitions: tuple[int, ...]) -> None:
    """Show the offsets of topics: the first, the end, and the first at or after a time.

    TIME is as in kaa consume: 2026-01-31T10:00:00 (UTC), milliseconds since 1970, -10m for ten
    minutes ago, today, yesterday. Where all records are older, the end is shown.

    \b
    Examples:
      kaa offsets orders
      kaa offsets orders@-10m
      kaa offsets orders@2026-01-31T10:00:00 payments@yesterday -o json
    """
    now_ms = time.time_ns() // 1_000_000
    wanted = dict(split(text, now_ms) for text in topics)

    async def work() -> int:
        from kaa.cli.reading import bounds_of, partitions_of
        from kaa.client.consumer.consumer import Consumer

        rows: list[dict[str, Any]] = []
        async with Consumer(session.settings) as consumer:
            names = await partitions_of(consumer, list(wanted), partitions)
            first, end = await bounds_of(consumer, names)
            asked = {name: at.value for name in end if (at := wanted[name.topic]) is not None}
            times = await consumer.offsets_for_times(asked)
        for name in end:
            found = times.get(name)
            row: dict[str, Any] = {"topic": name.topic, "partition": name.partition}
            row |= {"first_offset": first[name], "end_offset": end[name], "offset": None}
            if name in times:
                row["offset"] = end[name] if found is None else found.offset
            row["timestamp_ms"] = None if found is None else found.timestamp_ms
            rows.append(row)
        columns = ["topic", "partition", "first_offset", "end_offset", "offset", "timestamp_ms"]
        show(session.output, columns, rows, "offset")
        return EXIT_PARTLY if len(rows) < len(names) else 0

    run(session, work)


def split(text: str, now_ms: int) -> tuple[str, Point | None]:
    """A topic, and the time that is asked of it."""
    topic, separator, at = text.partition("@")
    if not topic:
        raise click.UsageError(f"{text!r} names no topic; write orders or orders@-10m")
    if not separator:
        return topic, None
    try:
        found = parse_range(f"@{at}", now_ms)
    except ValueError:
        found = None
    if found is None or found.stop is not None:
        raise click.UsageError(
            f"{at!r} is not a time; write 2026-01-31T10:00:00, 1700000000000, -10m or yesterday"
        )
    return topic, found.start
