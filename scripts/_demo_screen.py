"""What the demo of scripts/up shows on a terminal: the pipeline, its windows and its table, moving.

The pipeline itself runs as a child that writes to a log. What it does is read where everyone can
read it: the status file of its storage, and the topic that it writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kaa.cli.pipeline import progress_table
from kaa.spark.pipeline.progress import PartStatus, read_status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import RenderableType

WINDOWS_SHOWN = 5


class DemoScreen:
    """The display, which is redrawn in place until it is left."""

    def __init__(self, storage: Path, pipeline_pid: int) -> None:
        self._storage = storage
        self._pid = pipeline_pid
        # Rows that the table had when the pipeline began.
        self.rows_before = 0
        self._spinner = Spinner("dots", "Spark starts: some ten seconds on a quiet machine")
        self._live = Live(self._spinner, console=Console(stderr=True), refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def show(self, sent: int, windows: Mapping[str, tuple[int, int]]) -> None:
        """Draws what is known now."""
        status = read_status(self._storage)
        shown: list[RenderableType] = [Text(f"{sent:,} clicks sent to the topic clicks")]
        if status is None or status["pid"] != self._pid:
            # The file is still that of an earlier run.
            shown.append(self._spinner)
        else:
            parts = [PartStatus(**one) for one in status["sinks"]]
            landed = self.rows_before + sum(one.rows for one in parts if one.kind == "table")
            shown += [Text(), progress_table(parts)]
            shown.append(Text("\nlast values in the topic clicks-per-minute"))
            shown += [windows_table(windows)] if windows else []
            shown.append(Text(f"\n{landed:,} rows in the Iceberg table demo.clicks"))
        self._live.update(Group(*shown))


def windows_table(windows: Mapping[str, tuple[int, int]]) -> Table:
    """The newest windows, of which the last is still being filled."""
    table = Table(box=None, pad_edge=False)
    table.add_column("minute")
    table.add_column("clicks", justify="right")
    table.add_column("amount", justify="right")
    for minute in sorted(windows)[-WINDOWS_SHOWN:]:
        clicks, amount = windows[minute]
        table.add_row(minute, f"{clicks:,}", f"{amount:,}")
    return table
