"""Upserts by position deletes, compaction and manifests, with a model and with other engines."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.snapshots import Operation

import kaa.spark.lake
from kaa.spark.lake.altering import alter, plan_alter
from kaa.spark.lake.caring import Caretaker
from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.iceberg import snapshots, together
from kaa.spark.lake.iceberg.deletes import write_deletes
from kaa.spark.lake.iceberg.files import delete_file
from kaa.spark.lake.maintenance import count_manifests, plan_orphans, rewrite_manifests
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import LakeError, TableCommit
from kaa.spark.lake.table_state import open_existing, plan_read, read_file, table_options
from kaa.spark.lake.upsert import worth_rewriting
from kaa.testing import Broker, Topic
from tests.spark.lake.landing import land

SEED = 2_107
KEYS = 20_000
CHANGED = 100
STEPS = 16
DELETES_MAX = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def settings_of(broker: Broker, topic: Topic, folder: Path, **options: Any) -> LakeSettings:
    given = {"topic": topic.name, "warehouse": str(folder), "mode": "upsert"}
    return lake_settings({**given, "kafka.bootstrap.servers": broker.bootstrap_servers, **options})


def by_us(settings: LakeSettings) -> dict[bytes, bytes]:
    """What `kaa_table` reads."""
    plan = plan_read(*open_existing(table_options(settings)))
    rows = [row for file in plan.files for one in read_file(plan, file) for row in one.to_pylist()]
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: row["value"] for row in rows}


def by_pyiceberg(settings: LakeSettings) -> dict[bytes, bytes]:
    rows = handle(settings).scan(selected_fields=("key", "value")).to_arrow().to_pylist()
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: row["value"] for row in rows}


def handle(settings: LakeSettings) -> Any:
    table: Any = open_table(settings)
    return table.data.handle


def merged(settings: LakeSettings, runner: Any = None) -> Any:
    """Lands what is there in one round; what its merge did."""
    found = []
    table = open_table(settings)
    driver: Any = LakeDriver(table, runner or LocalRunner(), is_once=True)
    merge = driver._merge

    def watched(effect: Any) -> Any:
        found.append(merge(effect))
        return found[-1]

    driver._merge = watched
    driver.run()
    return found[-1]


def delete_as_a_stranger(settings: LakeSettings, keys: set[bytes]) -> None:
    """Deletes rows by position, as another engine would."""
    lake: Any = open_table(settings)
    lake.load()
    table, place = lake.data.handle, lake.prepare(lake.schema())
    deletes = []
    for file in lake.files():
        filesystem = settings.store.filesystem()
        rows = pq.read_table(path_of(file.url), filesystem=filesystem, partitioning=None)
        at = [number for number, one in enumerate(rows.column("key").to_pylist()) if one in keys]
        if at:
            positions: Any = {file.handle.file_path: pa.array(at, pa.int64())}
            deletes.append(write_deletes(positions, file.part, lake.terms, place, "stranger"))
    files = [delete_file(table, one) for one in deletes]
    staged = snapshots.stage(table, snapshots.SnapshotChange("delete", added_deletes=files))
    lake._publisher.publish([staged])


def test_a_few_changed_keys_do_not_rewrite_the_table(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read and written follows the keys that changed."""
    monkeypatch.setattr("kaa.spark.lake.writing.LAKE_KEYED_ROW_GROUP_ROWS", 1_000)
    topic = broker.topic(partitions=2)
    for first in range(0, KEYS, 5_000):
        topic.seed([(f"k{one:08}", f"{one:0100}") for one in range(first, first + 5_000)])
    settings = settings_of(broker, topic, tmp_path, buckets=2, compression="none")
    land(settings)
    table = open_table(settings)
    whole = sum(one.size_bytes for one in table.files())
    footers: Any = [pq.read_metadata(path_of(one.url)) for one in table.files()]
    chunk = footers[0].row_group(0).column(footers[0].schema.names.index("key"))
    assert (chunk.has_column_index, chunk.bloom_filter_offset is not None) == (True, True)
    # Neighbours, which lie in few row groups: one of two in each of the two buckets.
    changed = {f"k{one:08}".encode(): b"new" for one in range(5_000, 5_000 + CHANGED)}
    topic.seed(list(changed.items()))
    topic.seed([("k00000001", None)])
    done = merged(settings)
    assert done.removed == []
    written = sum(one.size_bytes for one in (*done.added, *done.deletes))
    assert (written < whole / 100, done.read_bytes < whole / 5) == (True, True)
    assert sum(one.rows for one in done.deletes) == CHANGED + 1
    expected = {f"k{one:08}".encode(): b"%0100d" % one for one in range(KEYS)} | changed
    del expected[b"k00000001"]
    assert by_pyiceberg(settings) == expected
    assert by_us(settings) == expected
    # A key that is nowhere costs the footers alone.
    topic.seed([("z", "far away")])
    assert merged(settings).read_bytes == 0


@pytest.mark.parametrize("seed", [SEED])
def test_random_histories_beside_a_model(broker: Broker, tmp_path: Path, seed: int) -> None:
    run_history(broker, tmp_path, seed, STEPS)


def run_history(broker: Broker, tmp_path: Path, seed: int, steps: int) -> None:
    """Rounds, tombstones, strangers' deletes, compactions and manifests, in any order."""
    chance = random.Random(seed)
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, buckets=2)
    model: dict[bytes, bytes] = {}
    for step in range(steps):
        what = chance.choice(["round"] * 5 + ["compact", "stranger", "manifests"])
        if what == "round" or step == 0:
            records: list[tuple[str, str | None]] = []
            for number in range(chance.randrange(1, 12)):
                key = f"k{chance.randrange(30)}"
                value = None if chance.random() < 0.2 else f"{step}-{number}"
                records.append((key, value))
                if value is None:
                    model.pop(key.encode(), None)
                else:
                    model[key.encode()] = value.encode()
            topic.seed(records)
            land(settings)
        elif what == "compact":
            table = open_table(settings)
            table.load()
            compact(table, plan_compaction(table))
            assert not any(one.deletes for one in table.files())
        elif what == "manifests":
            rewrite_manifests(open_table(settings))
        elif model:
            gone = set(chance.sample(sorted(model), min(3, len(model))))
            delete_as_a_stranger(settings, gone)
            model = {key: value for key, value in model.items() if key not in gone}
        assert by_us(settings) == by_pyiceberg(settings) == model, f"seed {seed}, step {step}"
    table = open_table(settings)
    assert max(len(some) for some in buckets_of(table).values()) <= 10


def buckets_of(table: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for one in table.files():
        found.setdefault(one.part, []).append(one)
    return found


def test_a_bucket_with_many_deleted_rows_is_written_anew(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, buckets=1)
    topic.seed([(f"k{one}", "a") for one in range(100)])
    land(settings)
    for value in ("b", "c", "d"):
        topic.seed([(f"k{one}", value) for one in range(15)])
        assert merged(settings).removed == []
    # 45 of 145 rows are deleted by now.
    topic.seed([("k99", "e")])
    done = merged(settings)
    assert len(done.removed) == 3
    assert not any(one.deletes for one in open_table(settings).files())
    summary = handle(settings).current_snapshot().summary
    assert summary["total-delete-files"] == "0"
    expected = {f"k{one}".encode(): b"d" if one < 15 else b"a" for one in range(100)}
    assert by_pyiceberg(settings) == by_us(settings) == expected | {b"k99": b"e"}


def test_small_files_are_packed_by_size() -> None:
    class File:
        def __init__(self, size_bytes: int, rows: int = 100) -> None:
            self.size_bytes, self.rows, self.deletes = size_bytes, rows, ()

    few: Any = [File(1_000_000), File(10)]
    assert worth_rewriting(few) == []
    many: Any = [File(1_000_000), *(File(10 + one) for one in range(9))]
    assert [one.size_bytes for one in worth_rewriting(many)] == [10 + one for one in range(9)]


@pytest.mark.parametrize("mover", ["append", "delete"])
def test_compaction_over_the_commits_of_others(broker: Broker, tmp_path: Path, mover: str) -> None:
    """An append is committed under; a delete of a rewritten file ends the compaction."""
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, mode="append")
    for one in range(3):
        topic.seed([(f"k{one}", "v")])
        land(settings)
    table: Any = open_table(settings)
    table.load()
    commit, writes = table.commit, []

    def late(version: str, request: TableCommit) -> None:
        writes.append([one.url for one in request.added])
        if len(writes) == 1 and mover == "append":
            topic.seed([("k9", "v")])
            land(settings)
        elif len(writes) == 1:
            delete_as_a_stranger(settings, {b"k1"})
        commit(version, request)

    table.commit = late
    assert compact(table, plan_compaction(table)) == (1 if mover == "append" else 0)
    keys = {b"k0", b"k1", b"k2", b"k9"} if mover == "append" else {b"k0", b"k2"}
    assert set(by_us(settings)) == keys
    operations = [one.summary.operation for one in handle(settings).metadata.snapshots]
    if mover == "append":
        assert operations[-2:] == [Operation.APPEND, Operation.REPLACE]
        # The second attempt commits what the first has written.
        assert writes == [writes[0], writes[0]]
    else:
        assert Operation.REPLACE not in operations
        # What was written in vain is gone.
        assert not any(Path(path_of(url)).exists() for some in writes for url in some)


def test_a_committer_looks_after_its_table(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaa.spark.lake.caring.LAKE_CARE_FILES_MAX", 2)
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, mode="append", maintenance="off")
    for one in range(3):
        topic.seed([(f"k{one}", "v")])
        land(settings)
    table = open_table(settings)
    table.load()
    assert (len(table.files()), Caretaker(table, LocalRunner()).look(is_last=True)) == (3, [])
    changes = plan_alter(table, {"maintenance": "auto"})
    assert [(one.before, one.after) for one in changes] == [("off", "auto")]
    alter(table, changes)
    settings = settings_of(broker, topic, tmp_path, mode="append")
    # With the last round of its work.
    land(settings)
    table = open_table(settings)
    table.load()
    assert len(table.files()) == 1
    assert set(by_us(settings)) == {b"k0", b"k1", b"k2"}
    now = 0.0
    care = Caretaker(table, LocalRunner(), lambda: now)
    assert care.look() == []
    now = 90_000.0
    (Path(path_of(table.files()[0].url)).parent / "young.parquet").write_bytes(b"x")
    assert care.look() == []


def test_many_small_rounds_rewrite_deletes_and_not_the_table(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither merging nor care touches the rows of a table for the sake of a few deleted ones."""
    monkeypatch.setattr("kaa.spark.lake.caring.LAKE_CARE_FILES_MAX", 2)
    monkeypatch.setattr("kaa.spark.lake.upsert.LAKE_BUCKET_DELETES_MAX", DELETES_MAX)
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, buckets=1)
    # Values that make the first file large beside those of later rounds.
    chance = random.Random(SEED)
    expected = {b"k%05d" % one: chance.randbytes(50) for one in range(KEYS)}
    records = list(expected.items())
    for at in range(0, KEYS, 5_000):
        topic.seed(records[at : at + 5_000])
    land(settings)
    (first,) = open_table(settings).files()
    counts = []
    for number in range(2 * DELETES_MAX + 3):
        changed = {f"k{7 * one + number:05}": f"new {number}" for one in range(3)}
        topic.seed(list(changed.items()))
        land(settings)
        expected |= {key.encode(): value.encode() for key, value in changed.items()}
        files = {one.url: one for one in open_table(settings).files()}
        assert first.url in files
        counts.append(len(files[first.url].deletes))
    assert max(counts) == DELETES_MAX + 1
    assert counts[-1] <= DELETES_MAX
    assert by_us(settings) == by_pyiceberg(settings) == expected
    # Deletes of a stranger are among those that are written together.
    delete_as_a_stranger(settings, {b"k19999"})
    del expected[b"k19999"]
    for number in range(DELETES_MAX + 1):
        topic.seed([("k00000", f"last {number}")])
        land(settings)
    expected[b"k00000"] = b"last %d" % number
    assert by_us(settings) == by_pyiceberg(settings) == expected
    assert first.url in {one.url for one in open_table(settings).files()}


def test_manifests_are_written_together(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, mode="append", partitionBy="key")
    for one in range(6):
        topic.seed([(f"k{one}", "v"), (f"j{one}", "v")])
        land(settings)
    table = open_table(settings)
    state = table.load()
    assert count_manifests(table) == 6
    assert rewrite_manifests(table)
    assert not rewrite_manifests(table)
    assert count_manifests(table) == 1
    assert handle(settings).current_snapshot().summary.operation is Operation.REPLACE
    assert len(by_pyiceberg(settings)) == 12
    equal: Any = EqualTo
    assert handle(settings).scan(row_filter=equal("key", b"k3")).to_arrow().num_rows == 1
    assert table.load().offsets == state.offsets
    topic.seed([("later", "v")])
    land(settings)
    assert len(by_us(settings)) == 13
    orphans = plan_orphans(table, older_than_seconds=-1)
    assert not any("/data/" in one.url for one in orphans)


def test_equality_deletes_are_refused_by_name(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, buckets=1)
    topic.seed([("k", "v")])
    land(settings)
    lake: Any = open_table(settings)
    lake.load()
    table, place = lake.data.handle, lake.prepare(lake.schema())
    positions: Any = {lake.files()[0].handle.file_path: pa.array([0], pa.int64())}
    written = write_deletes(positions, (0,), lake.terms, place, "stranger")
    file = delete_file(table, written)
    file[0] = DataFileContent.EQUALITY_DELETES
    change = snapshots.SnapshotChange("delete", added_deletes=[file])
    lake._publisher.publish([snapshots.stage(table, change)])
    topic.seed([("k", "w")])
    for work in (lambda: land(settings), lambda: by_us(settings)):
        with pytest.raises(LakeError, match="has equality deletes, which another engine wrote"):
            work()
    with pytest.raises(LakeError, match="has equality deletes"):
        plan_compaction(lake)


def test_format_3_is_refused_by_name(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, topic, tmp_path, mode="append")
    topic.seed([("k", "v")])
    land(settings)
    path = Path(path_of(handle(settings).metadata_location))
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 1}))
    for work in (lambda: land(settings), lambda: by_us(settings)):
        with pytest.raises(LakeError, match="has format version 3, which another engine made"):
            work()


# --- what is private in pyiceberg

PINNED = {"0.12.0"}


def test_what_is_private_in_pyiceberg_is_touched_in_one_place() -> None:
    folder = Path(kaa.spark.lake.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text())
        private = [
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyiceberg")
            for name in node.names
            if name.name.startswith("_")
        ]
        is_the_place = path.name == "together.py"
        assert is_the_place or not private, path
        assert is_the_place or "SLF001" not in path.read_text(), path


def test_the_private_parts_are_those_of_known_versions() -> None:
    """A new pyiceberg is tried here first; then its version is added above."""
    assert pyiceberg.__version__ in PINNED, "look at together.py, then add the version"
    from pyiceberg.catalog import Catalog, MetastoreCatalog
    from pyiceberg.catalog.rest import RestCatalog, response
    from pyiceberg.manifest import ManifestWriterV2

    used = set(re.findall(r"\b(?:catalog|self\._catalog|super\(\))\.(_[a-z]\w*)",
                          Path(together.__file__).read_text()))  # fmt: skip
    assert used == {
        "_delete_old_metadata", "_meta", "_session", "_supported_endpoints",
        "_update_and_stage_table", "_write_metadata",
    }  # fmt: skip
    for name in ("_update_and_stage_table", "_write_metadata"):
        assert hasattr(MetastoreCatalog, name), name
    assert hasattr(Catalog, "_delete_old_metadata")
    assert isinstance(vars(ManifestWriterV2)["_meta"], property)
    assert callable(response._handle_non_200_response)
    assert {"_session", "_supported_endpoints"} <= set(RestCatalog.__annotations__)
