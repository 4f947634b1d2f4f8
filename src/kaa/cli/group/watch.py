"""`kaa group watch`: two looks at a group make rates, time behind and a direction."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kaa.cli.output import print_rows, show
from kaa.cli.progress import duration_text
from kaa.cli.visible import steer
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.client.admin.admin import Admin
    from kaa.client.admin.groups import PartitionLag

COLUMNS: Final = ("topic", "partition", "lag", "written_rate", "read_rate", "behind", "trend")
_HOME_AND_CLEAR: Final = "\x1b[H\x1b[J"


class Look(NamedTuple):
    """What was seen of a group, and when."""

    seconds: float
    partitions: Sequence[PartitionLag]


def movement(before: Look | None, now: Look) -> list[dict[str, Any]]:
    """A row for each partition: what changed between two looks."""
    known = {} if before is None else {one.partition: one for one in before.partitions}
    rows = []
    for one in now.partitions:
        past = known.get(one.partition)
        row: dict[str, Any] = {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "lag": one.lag,
            "written_rate": None,
            "read_rate": None,
            "behind_seconds": None,
            "trend": None,
        }
        if before is not None and past is not None and past.committed is not None:
            seconds = max(1e-9, now.seconds - before.seconds)
            read = ((one.committed or 0) - past.committed) / seconds
            row["written_rate"] = round((one.end_offset - past.end_offset) / seconds, 1)
            row["read_rate"] = round(read, 1)
            row["trend"] = _trend((one.lag or 0) - (past.lag or 0))
            if one.lag is not None and (read > 0 or not one.lag):
                row["behind_seconds"] = round(one.lag / read, 1) if one.lag else 0.0
        rows.append(row)
    return rows


def _trend(change: int) -> str:
    if change == 0:
        return "steady"
    return "growing" if change > 0 else "shrinking"


_ARROWS: Final = {"steady": "→", "growing": "↑", "shrinking": "↓", None: None}


async def watch_group(
    admin: Admin, name: str, output: str, interval_s: float, count: int | None
) -> None:
    """Looks again and again; on a terminal in place, else one table after the other."""
    before: Look | None = None
    looks = 0
    while count is None or looks < count:
        if looks:
            await asyncio.sleep(interval_s)
        now = Look(time.monotonic(), await admin.group_lag(name))
        _print(name, output, movement(before, now))
        before = now
        looks += 1


def _print(name: str, output: str, rows: list[dict[str, Any]]) -> None:
    if output not in {"table", "wide"}:
        columns = [column if column != "behind" else "behind_seconds" for column in COLUMNS]
        show(output, columns, rows, "lag")
        sys.stdout.flush()
        return
    if sys.stdout.isatty():
        steer(sys.stdout, _HOME_AND_CLEAR)
    total = sum(row["lag"] or 0 for row in rows)
    click.echo(f"{name}: {count_text(total, 'record')} behind")
    shown = [
        row
        | {
            "trend": _ARROWS[row["trend"]],
            "behind": None
            if row["behind_seconds"] is None
            else duration_text(row["behind_seconds"]),
        }
        for row in rows
    ]
    print_rows(COLUMNS, shown)
    sys.stdout.flush()
