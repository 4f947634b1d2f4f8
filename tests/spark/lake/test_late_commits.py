"""Commits of the format `kaa_table` that come through after nobody believed in them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from kaa.limits import LAKE_ATTEMPTS_MAX
from kaa.spark.formats.untyped import pa
from kaa.spark.lake import running
from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import open_known
from kaa.spark.lake.kaa_table.sink import TableRows, WrittenFiles
from kaa.spark.lake.maintenance import plan_orphans, remove_orphans
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import ConflictError, LakeError, TableAwayError, UnknownOutcomeError
from kaa.spark.lake.table_state import open_existing, plan_read, read_file

SCHEMA = StructType([StructField("n", LongType())])
NAMES = pytest.mark.parametrize("query", ["query", ""])
LAYOUTS = pytest.mark.parametrize("layout", ["iceberg", "parquet"])


class LateTable:
    """The table, whose first commits are on their way until somebody lets them come."""

    def __init__(self, table: Any, late: int = 1, *, comes_by_itself: bool = True) -> None:
        self._table = table
        self._flying: list[Callable[[], None]] = []
        self._late = late
        self._comes_by_itself = comes_by_itself

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, version: str, commit: Any) -> None:
        if self._late:
            self._late -= 1
            self._flying.append(lambda: self._table.commit(version, commit))
            raise UnknownOutcomeError("no answer")
        if self._comes_by_itself:
            self.arrive()
        self._table.commit(version, commit)

    def arrive(self) -> None:
        """The first of them is taken, and the others come too late for their version."""
        for number, one in enumerate(self._flying):
            if number == 0:
                one()
            else:
                # A folder may take a second one for the first, if both are of one millisecond.
                with contextlib.suppress(ConflictError):
                    one()
        self._flying.clear()


class World:
    """A table, and rows on their way into it."""

    def __init__(
        self, folder: Path, layout: str, query: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(running, "LAKE_PAUSE_SECONDS", 0.0)
        self._patch = monkeypatch
        self.folder = folder
        self.options = {"table": "db.numbers", "warehouse": str(folder), "layout": layout}
        self.query = query
        self.writer = self.new_writer()

    def new_writer(self, *, is_overwrite: bool = False) -> TableRows:
        return TableRows(self.options, SCHEMA, is_overwrite=is_overwrite)

    def write(self, *numbers: int, batch: int = 0) -> WrittenFiles:
        rows = pa.RecordBatch.from_pydict({"n": list(numbers)})
        return self.writer.write(iter([rows]), self.query, batch)

    def late(self, count: int, *, comes_by_itself: bool = True) -> LateTable:
        """What the writer finds in place of the table from now on."""
        late = LateTable(self.writer._open(), count, comes_by_itself=comes_by_itself)
        self._patch.setattr(self.writer, "_open", lambda: late)
        return late

    def rows(self, version: str | None = None) -> list[int]:
        plan = plan_read(*open_existing(self.options), version=version)
        rows = [row["n"] for file in plan.files for one in read_file(plan, file)
                for row in one.to_pylist()]  # fmt: skip
        return sorted(rows)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], World]:
    return lambda layout, query: World(tmp_path, layout, query, monkeypatch)


Opened = Callable[[str, str], World]


def is_there(written: WrittenFiles) -> bool:
    return all(Path(path_of(one.url)).exists() for one in written.files)


@LAYOUTS
@NAMES
@pytest.mark.parametrize("is_overwrite", [False, True])
def test_a_commit_that_comes_late_is_taken_once(
    opened: Opened, layout: str, query: str, is_overwrite: bool
) -> None:
    world = opened(layout, query)
    world.writer = world.new_writer(is_overwrite=is_overwrite)
    written = world.write(1, 2, 3)
    world.late(1)
    world.writer.commit([written], 0)
    assert world.rows() == [1, 2, 3]


@LAYOUTS
@NAMES
def test_files_whose_commit_comes_after_the_abort_are_kept(
    opened: Opened, layout: str, query: str
) -> None:
    world = opened(layout, query)
    written = world.write(1, 2, 3)
    late = world.late(LAKE_ATTEMPTS_MAX)
    with pytest.raises(LakeError, match="not known"):
        world.writer.commit([written], 0)
    # Spark aborts what failed to commit, on a writer that has not seen the commit.
    world.new_writer().abort([written])
    late.arrive()
    assert world.rows() == [1, 2, 3]


@LAYOUTS
@NAMES
def test_a_refusal_after_a_commit_in_doubt_keeps_the_files(
    opened: Opened, layout: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = opened(layout, query)
    written = world.write(1, 2, 3)
    late = world.late(1)
    looks: list[int] = []

    def load_once() -> Any:
        looks.append(1)
        if len(looks) > 1:
            raise LakeError("the table has format version 3 by now")
        return late._table.load()

    monkeypatch.setattr(late, "load", load_once, raising=False)
    with pytest.raises(LakeError, match="format version"):
        world.writer.commit([written], 0)
    world.new_writer().abort([written])
    late.arrive()
    assert world.rows() == [1, 2, 3]


def test_the_abort_of_a_commit_that_was_taken_leaves_older_versions_whole(opened: Opened) -> None:
    world = opened("iceberg", "query")
    written = world.write(1, 2, 3)
    world.writer.commit([written], 0)
    version = world.writer._open().load().version
    more = world.write(4, batch=1)
    world.writer.commit([more], 1)
    table = world.writer._open()
    table.load()
    assert compact(table, plan_compaction(table)) == 1
    # The answer of the first commit got lost in Spark, and another version has the rows by now.
    world.new_writer().abort([written])
    assert world.rows(version) == [1, 2, 3]
    assert world.rows() == [1, 2, 3, 4]


@LAYOUTS
def test_what_other_tasks_have_written_is_deleted_when_a_task_fails(
    opened: Opened, layout: str
) -> None:
    world = opened(layout, "query")
    written = world.write(1, 2, 3)
    world.new_writer().abort([written, None])
    assert not is_there(written)


@LAYOUTS
def test_what_is_left_is_found_by_the_removal_of_orphans(opened: Opened, layout: str) -> None:
    world = opened(layout, "query")
    world.writer.commit([world.write(1, 2, 3)], 0)
    left = world.write(4, batch=1)
    world.new_writer().abort([left])
    asked = {**world.options, "topic": "numbers", "kafka.bootstrap.servers": "nowhere:1"}
    table = open_known(lake_settings(asked))
    orphans = plan_orphans(table, older_than_seconds=-1)
    assert [one.url for one in left.files] == [one.url for one in orphans if "/data/" in one.url]
    assert remove_orphans(table, orphans) == len(orphans)
    assert not is_there(left)
    assert world.rows() == [1, 2, 3]
    # The table of a query has no dead letters.
    assert not list(world.folder.rglob("*dead_letters*"))


@LAYOUTS
@NAMES
def test_what_was_refused_for_certain_is_deleted(
    opened: Opened, layout: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = opened(layout, query)
    written = world.write(1, 2, 3)
    table = world.writer._open()

    def refuse(*_: Any) -> None:
        raise ConflictError("somebody else")

    monkeypatch.setattr(table, "commit", refuse)
    monkeypatch.setattr(world.writer, "_open", lambda: table)
    with pytest.raises(LakeError, match="again and again"):
        world.writer.commit([written], 0)
    assert not is_there(written)


@LAYOUTS
@NAMES
def test_a_table_that_is_away_for_a_moment_is_looked_at_again(
    opened: Opened, layout: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = opened(layout, query)
    written = world.write(1, 2, 3)
    table = world.writer._open()
    load, looks = table.load, []

    def load_later() -> Any:
        looks.append(1)
        if len(looks) < LAKE_ATTEMPTS_MAX:
            raise TableAwayError("the catalog is away")
        return load()

    monkeypatch.setattr(table, "load", load_later)
    monkeypatch.setattr(world.writer, "_open", lambda: table)
    world.writer.commit([written], 0)
    assert world.rows() == [1, 2, 3]
