"""Spark beside Spark: the data source of Kaa and Spark's own connector, on the same records.

Both read from and write to the same running Kaa broker, each in a Spark of its own, so that what
differs is the connector alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches.driving import DriverFailedError

if TYPE_CHECKING:
    from benches.cells import Cell
    from benches.stage import Run, Stage


def run(_stage: Stage, _cell: Cell, _side: str) -> Run:
    raise DriverFailedError("this installation has no Spark source of Kaa")
