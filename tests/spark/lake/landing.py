"""Topics into tables and back, as tests of several catalogs want it."""

from __future__ import annotations

from typing import Any

from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import LakeSettings
from kaa.spark.lake.table_state import open_existing, plan_read, read_file, table_options


def land(settings: LakeSettings) -> int:
    """Lands all that there is; how many rounds that took."""
    return LakeDriver(open_table(settings), LocalRunner(), is_once=True).run()


def places(settings: LakeSettings) -> list[tuple[int, int, bytes]]:
    """What a reader with no more than the options of the table sees."""
    options: dict[str, Any] = table_options(settings)
    plan = plan_read(*open_existing(options))
    rows = [row for file in plan.files for one in read_file(plan, file) for row in one.to_pylist()]
    return sorted((row["partition"], row["offset"], row["value"]) for row in rows)
