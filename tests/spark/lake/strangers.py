"""Random histories of an upserted table that Kaa and other engines change in turns.

The model is a dictionary of keys. After each step the rows are read by Kaa, by pyiceberg and by the
other engines, and all have to have what the model has. What Spark does: deletes as new files and as
position deletes, merges, rewrites of data and of manifests, expiry of snapshots, statistics,
columns added, renamed and moved, and going back to an older snapshot, after which Kaa has to refuse
to go on until it is said where. Sail deletes and inserts.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import open_table
from kaa.spark.lake.maintenance import rewrite_manifests
from kaa.spark.lake.resuming import resume
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import LakeError
from kaa.spark.lake.table_state import open_existing, plan_read, read_file, table_options
from kaa.testing import Broker
from tests.spark.lake.engines import ChDb, Sail, Stranger
from tests.spark.lake.landing import land
from tests.support.rest_catalog import RestCatalog

if TYPE_CHECKING:
    from kaa.spark.lake.settings import LakeSettings

Model = dict[bytes, bytes]
KEYS = 30


@dataclass(frozen=True, slots=True)
class Engines:
    """The other engines; those that are there change or read the table too."""

    spark: Stranger | None = None
    sail: Sail | None = None
    chdb: ChDb | None = None


@contextlib.contextmanager
def engines(place: Path, names: Sequence[str]) -> Iterator[Engines]:
    """Starts engines on the catalog of a folder: spark, sail, chdb."""
    output = place / "output"
    with contextlib.ExitStack() as stack:
        spark = sail = chdb = None
        if "spark" in names:
            spark = stack.enter_context(Stranger(place, place / "catalog.db", output))
        if "sail" in names:
            catalog = RestCatalog(place, place.as_uri(), {}, name="kaa", file="catalog.db")
            stack.enter_context(catalog)
            sail = stack.enter_context(Sail(catalog.uri, catalog.token, output))
        if "chdb" in names:
            chdb = stack.enter_context(ChDb(output))
        yield Engines(spark, sail, chdb)


class History:
    """One table, what was sent to its topic, and what must be in it."""

    def __init__(self, broker: Broker, folder: Path, engines: Engines, seed: int) -> None:
        self._chance = random.Random(seed)
        self._name = f"db.orders_{seed}"
        self._table = f"kaa.{self._name}"
        self._topic = broker.topic(partitions=1)
        self._engines = engines
        self._settings: LakeSettings = lake_settings(
            {
                "topic": self._topic.name,
                "table": self._name,
                "warehouse": str(folder),
                "mode": "upsert",
                "buckets": 2,
                "kafka.bootstrap.servers": broker.bootstrap_servers,
            }
        )
        self._sent: list[tuple[bytes, bytes | None]] = []
        self._model: Model = {}
        # What the table had, and how much of the topic, when it had this snapshot.
        self._known: dict[int, tuple[Model, int]] = {}
        self._columns = 0
        self._value = "value"
        self.counts: dict[str, int] = {}

    # --- what Kaa does

    def round(self) -> None:
        records: list[tuple[str, str | None]] = []
        for _ in range(self._chance.randrange(1, 12)):
            key = f"k{self._chance.randrange(KEYS)}"
            value = None if self._chance.random() < 0.2 else f"{len(self._sent)}"
            records.append((key, value))
            self._note(key.encode(), None if value is None else value.encode())
        self._topic.seed(records)
        land(self._settings)

    def _note(self, key: bytes, value: bytes | None) -> None:
        self._sent.append((key, value))
        self._replay(key, value)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._model.pop(key, None)
        else:
            self._model[key] = value

    def compact(self) -> None:
        table = open_table(self._settings)
        table.load()
        compact(table, plan_compaction(table))

    def manifests(self) -> None:
        rewrite_manifests(open_table(self._settings))

    # --- what Sail does

    def sail_delete(self) -> None:
        gone = self._some_keys()
        found = ", ".join(f"X'{key.hex()}'" for key in gone)
        self._by_sail(f"DELETE FROM {self._name} WHERE key IN ({found})")
        for key in gone:
            self._model.pop(key, None)

    def sail_insert(self) -> None:
        """A key that no round has: its bucket has to be the one where Kaa would look for it."""
        absent = [b"k%d" % one for one in range(KEYS) if b"k%d" % one not in self._model]
        if not absent:
            return
        key = self._chance.choice(absent)
        columns = {
            "partition": "CAST(0 AS INT)",
            "offset": "CAST(0 AS BIGINT)",
            "timestamp": "TIMESTAMP '2026-01-01 00:00:00'",
            "key": f"X'{key.hex()}'",
            self._value: f"X'{b'sailed'.hex()}'",
        }
        table = open_table(self._settings)
        handle = table.data.handle  # type: ignore[attr-defined]  # of Iceberg's tables
        names = [one.name for one in handle.schema().fields]
        values = ", ".join(f"{columns.get(one, 'NULL')} AS {one}" for one in names)
        self._by_sail(f"INSERT INTO {self._name} SELECT {values}")
        self._model[key] = b"sailed"

    def _by_sail(self, statement: str) -> list[dict[str, object]]:
        assert self._engines.sail is not None
        return self._engines.sail.sql(statement)

    # --- what Spark does

    def delete(self) -> None:
        """As new files, or by position."""
        mode = self._chance.choice(["copy-on-write", "merge-on-read"])
        self._sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ('write.delete.mode'='{mode}')")
        gone = self._some_keys()
        found = ", ".join(f"X'{key.hex()}'" for key in gone)
        self._sql(f"DELETE FROM {self._table} WHERE key IN ({found})")
        for key in gone:
            self._model.pop(key, None)

    def merge(self) -> None:
        mode = self._chance.choice(["copy-on-write", "merge-on-read"])
        self._sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ('write.merge.mode'='{mode}')")
        changed = self._some_keys()
        source = " UNION ALL ".join(f"SELECT X'{key.hex()}' AS key" for key in changed)
        self._sql(
            f"MERGE INTO {self._table} t USING ({source}) s ON t.key = s.key "
            f"WHEN MATCHED THEN UPDATE SET t.{self._value} = X'{b'merged'.hex()}'"
        )
        self._model |= {key: b"merged" for key in changed if key in self._model}

    def rewrite(self) -> None:
        self._call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def rewrite_deletes(self) -> None:
        self._call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")

    def rewrite_manifests(self) -> None:
        self._call("rewrite_manifests")

    def expire(self) -> None:
        self._call("expire_snapshots", "older_than => TIMESTAMP '2100-01-01', retain_last => 1")
        self._known.clear()

    def statistics(self) -> None:
        self._call("compute_table_stats")

    def add_column(self) -> None:
        self._columns += 1
        place = self._chance.choice(["", " FIRST"])
        self._sql(f"ALTER TABLE {self._table} ADD COLUMN note_{self._columns} STRING{place}")

    def rename_column(self) -> None:
        after = self._chance.choice([name for name in ("value", "body") if name != self._value])
        self._sql(f"ALTER TABLE {self._table} RENAME COLUMN {self._value} TO {after}")
        self._value = after

    def move_column(self) -> None:
        self._sql(f"ALTER TABLE {self._table} ALTER COLUMN {self._value} FIRST")

    def roll_back(self) -> None:
        """Kaa must not go on as if nothing had happened."""
        current = self._snapshot()
        older = [one for one in self._known if one != current]
        if not older:
            return
        chosen = self._chance.choice(older)
        self._call("rollback_to_snapshot", f"snapshot_id => {chosen}")
        model, reached = self._known[chosen]
        self._known = {one: held for one, held in self._known.items() if held[1] <= reached}
        self._model = dict(model)
        if reached == len(self._sent):
            # What was undone was not ours.
            return
        with pytest.raises(LakeError, match="kaa lake resume"):
            self.round()
        # What that round sent is in the topic all the same.
        self._model = dict(model)
        resume(open_table(self._settings), {0: reached})
        for key, value in self._sent[reached:]:
            self._replay(key, value)
        land(self._settings)

    def _some_keys(self) -> list[bytes]:
        return [b"k%d" % one for one in self._chance.sample(range(KEYS), 3)]

    def _sql(self, statement: str) -> list[dict[str, object]]:
        assert self._engines.spark is not None
        return self._engines.spark.sql(statement)

    def _call(self, name: str, arguments: str = "") -> None:
        more = f", {arguments}" if arguments else ""
        self._sql(f"CALL kaa.system.{name}(table => '{self._name}'{more})")

    # --- what must hold

    def _snapshot(self) -> int:
        table = open_table(self._settings)
        handle = table.data.handle  # type: ignore[attr-defined]  # of Iceberg's tables
        return int(handle.current_snapshot().snapshot_id)

    def check(self, where: str) -> None:
        assert self._by_kaa() == self._model, where
        assert self._by_pyiceberg() == self._model, where
        for name, rows in self._by_others():
            assert len({row["key"] for row in rows}) == len(rows), f"{where}, by {name}"
            found = {str(row["key"]).encode(): str(row["value"]).encode() for row in rows}
            assert found == self._model, f"{where}, by {name}"

    def _by_others(self) -> Iterator[tuple[str, list[dict[str, object]]]]:
        columns = f"key, {self._value} AS value"
        if self._engines.spark is not None:
            yield "spark", self._sql(f"SELECT {columns} FROM {self._table}")
        if self._engines.sail is not None:
            yield "sail", self._by_sail(f"SELECT {columns} FROM {self._name}")
        if self._engines.chdb is not None:
            table = open_table(self._settings)
            handle = table.data.handle  # type: ignore[attr-defined]  # of Iceberg's tables
            place = Path(path_of(handle.metadata_location))
            yield "chdb", self._engines.chdb.rows(place, columns)

    def _by_kaa(self) -> Model:
        plan = plan_read(*open_existing(table_options(self._settings)))
        rows = [row for file in plan.files for one in read_file(plan, file)
                for row in one.to_pylist()]  # fmt: skip
        assert len({row["key"] for row in rows}) == len(rows)
        return {row["key"]: row[self._value] for row in rows}

    def _by_pyiceberg(self) -> Model:
        table = open_table(self._settings)
        handle = table.data.handle  # type: ignore[attr-defined]  # of Iceberg's tables
        rows = handle.scan(selected_fields=("key", self._value)).to_arrow().to_pylist()
        return {row["key"]: row[self._value] for row in rows}

    def run(self, steps: int) -> None:
        ours = [self.round] * 8 + [self.compact, self.manifests]
        others: list[Callable[[], None]] = []
        if self._engines.spark is not None:
            others += [
                self.delete, self.delete, self.merge, self.rewrite, self.rewrite_deletes,
                self.rewrite_manifests, self.expire, self.statistics, self.add_column,
                self.rename_column, self.move_column, self.roll_back,
            ]  # fmt: skip
        if self._engines.sail is not None:
            others += [self.sail_delete, self.sail_delete, self.sail_insert]
        for step in range(steps):
            does = self.round if step < 2 else self._chance.choice([*ours, *others])
            self.counts[does.__name__] = self.counts.get(does.__name__, 0) + 1
            where = f"step {step}, {does.__name__}"
            try:
                does()
            except Exception as error:
                error.add_note(where)
                raise
            self.check(where)
            self._known[self._snapshot()] = (dict(self._model), len(self._sent))
