"""Rounds of one row and one dead letter in Iceberg tables, without a topic."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import event

from kaa.spark.lake.driver import open_table
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import TableCommit, WritePlace, WrittenFile

Act = Callable[[list[str], Any], None]


def open_lake(folder: Path, options: Mapping[str, str] | None = None) -> Any:
    given = {"topic": "t", "warehouse": str(folder), "kafka.bootstrap.servers": "nowhere:1"}
    return open_table(lake_settings({**given, **(options or {})}))


def write_round(lake: Any, number: int, commit_id: str) -> tuple[str, TableCommit]:
    """The version of the table, and the round of offsets 2n (a row) and 2n + 1 (a dead letter)."""
    version = lake.load().version
    place = lake.prepare(lake.schema())
    files = [
        _write(place, place.data_url, place.schema, 2 * number),
        _write(place, place.dead_url, place.dead_schema, 2 * number + 1),
    ]
    return version, TableCommit(commit_id, {0: 2 * number + 2}, None, "append", files)


def _write(place: WritePlace, base: str, schema: Any, offset: int) -> WrittenFile:
    url = f"{base}/{offset}-{uuid4().hex}.parquet"
    filesystem = place.store.filesystem()
    filesystem.create_dir(path_of(base), recursive=True)
    row = {"topic": "t", "partition": 0, "offset": offset, "value": b"v"}
    footers: list[Any] = []
    with pq.ParquetWriter(
        path_of(url), schema, filesystem=filesystem, metadata_collector=footers
    ) as writer:
        writer.write_table(pa.Table.from_pylist([row], schema))
    size = filesystem.get_file_info(path_of(url)).size
    is_dead = base == place.dead_url
    footer = pickle.dumps(footers[0])
    return WrittenFile(url, 1, size, (), is_dead, 0, offset, offset, footer=footer)


def offsets(lake: Any) -> tuple[list[int], list[int]]:
    """The offsets of the rows, and those of the dead letters."""
    rows, letters = (
        sorted(one.handle.scan().to_arrow().column("offset").to_pylist())
        for one in (lake.data, lake.dead)
    )
    return rows, letters


@contextmanager
def watched(lake: Any, act: Act = lambda *_: None) -> Iterator[list[str]]:
    """The steps of commits in the catalog's database; `act` is called before each of them, with
    the steps so far and the connection.
    """
    engine = lake._catalog.engine
    steps: list[str] = []

    def statement(connection: Any, _: Any, text: str, *__: Any) -> None:
        if text.startswith("UPDATE"):
            act(steps, connection)
            steps.append("update")

    def commit(connection: Any) -> None:
        if steps and steps[-1] == "update":
            act(steps, connection)
            steps.append("commit")

    event.listen(engine, "before_cursor_execute", statement)
    event.listen(engine, "commit", commit)
    try:
        yield steps
    finally:
        event.remove(engine, "before_cursor_execute", statement)
        event.remove(engine, "commit", commit)


def die_before_the_commit(folder: str) -> None:
    """Commits a round, and kills this process when both entries are changed."""
    lake = open_lake(Path(folder))
    version, commit = write_round(lake, 1, "killed")

    def die(steps: list[str], _: Any) -> None:
        if steps == ["update", "update"]:
            os.kill(os.getpid(), signal.SIGKILL)

    with watched(lake, die):
        lake.commit(version, commit)
