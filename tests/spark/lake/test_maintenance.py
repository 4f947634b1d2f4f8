"""Compaction, expiry, orphans, reading and status of tables on disk, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest

from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.maintenance import (
    expire,
    plan_expiry,
    plan_orphans,
    remove_orphans,
)
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.status import table_status
from kaa.spark.lake.table import LakeError
from kaa.spark.lake.table_state import (
    offsets_option,
    open_existing,
    plan_read,
    read_file,
    table_options,
)
from kaa.testing import Broker, Topic
from tests.spark.lake.landing import land

ROUNDS = 6


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(params=["iceberg", "parquet"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def filled(
    broker: Broker, tmp_path: Path, layout: str, **options: Any
) -> tuple[Topic, LakeSettings, Any]:
    """A table of six rounds with two records each."""
    topic = broker.topic(partitions=1)
    given = {
        "topic": topic.name,
        "layout": layout,
        "warehouse": str(tmp_path / "lake"),
        "kafka.bootstrap.servers": broker.bootstrap_servers,
    }
    settings = lake_settings({**given, **options})
    for number in range(ROUNDS):
        topic.seed([(f"k{number % 2}", f"v{number}a"), ("same", f"v{number}b")])
        land(settings)
    return topic, settings, open_table(settings)


def values(settings: LakeSettings, below: dict[int, int] | None = None) -> list[bytes]:
    _, table = open_existing(table_options(settings))
    plan = plan_read(settings, table, below)
    rows = [
        row for file in plan.files for batch in read_file(plan, file) for row in batch.to_pylist()
    ]
    return [row["value"] for row in sorted(rows, key=lambda row: row["offset"])]


ALL = [b"v%d%c" % (number, letter) for number in range(ROUNDS) for letter in b"ab"]


def test_compaction_keeps_rows_and_offsets(broker: Broker, tmp_path: Path, layout: str) -> None:
    topic, settings, table = filled(broker, tmp_path, layout)
    before = table.load()
    plan = plan_compaction(table)
    assert [len(one.files) for one in plan] == [ROUNDS]
    assert compact(table, plan) == 1
    after = table.load()
    assert after.version != before.version
    assert (after.offsets, after.commit_id) == (before.offsets, before.commit_id)
    assert len(table.files()) == 1
    assert values(settings) == ALL
    assert plan_compaction(table) == []
    # A plan whose files are gone changes nothing.
    assert compact(table, plan) == 0
    topic.seed([("x", "later")])
    assert land(settings) == 1
    assert values(settings) == [*ALL, b"later"]


def test_a_committer_goes_on_over_a_compaction(broker: Broker, tmp_path: Path, layout: str) -> None:
    topic, settings, table = filled(broker, tmp_path, layout)
    topic.seed([("x", "later")])
    committing: Any = open_table(settings)
    commit = committing.commit

    def after_compaction(version: str, request: Any) -> None:
        committing.commit = commit
        compact(table, plan_compaction(table))
        commit(version, request)

    committing.commit = after_compaction
    LakeDriver(committing, LocalRunner(), is_once=True).run()
    assert values(settings) == [*ALL, b"later"]


def test_expiry_and_orphans(broker: Broker, tmp_path: Path, layout: str) -> None:
    _, settings, table = filled(broker, tmp_path, layout)
    compact(table, plan_compaction(table))
    assert plan_expiry(table, keep=2, older_than_seconds=3600) == []
    versions = plan_expiry(table, keep=2, older_than_seconds=-1)
    assert len(versions) == ROUNDS + 1 - 2
    expire(table, versions)
    table.prepare(table.schema())
    assert plan_orphans(table) == []
    orphans = plan_orphans(table, older_than_seconds=-1)
    if layout == "iceberg":
        assert len(table.history()) == 2
        # The manifests of expired snapshots; the small files belong to the snapshot before.
        assert orphans
        assert all("/metadata/" in one.url for one in orphans)
    stray = tmp_path / "lake" / "stray"
    folder = Path(table.files()[0].url.removeprefix("file://")).parent
    stray = folder / "stray.parquet"
    stray.write_bytes(b"x")
    orphans = plan_orphans(table, older_than_seconds=-1)
    assert str(stray) in {one.url.removeprefix("file://") for one in orphans}
    assert remove_orphans(table, orphans) == len(orphans)
    assert not stray.exists()
    assert plan_orphans(table, older_than_seconds=-1) == []
    assert values(settings) == ALL
    with pytest.raises(LakeError, match="at least one"):
        plan_expiry(table, keep=0, older_than_seconds=0)


def test_state_at_an_offset(broker: Broker, tmp_path: Path, layout: str) -> None:
    _, settings, _ = filled(broker, tmp_path, layout)
    assert values(settings, {0: 5}) == ALL[:5]
    assert values(settings, {0: 0}) == []
    with pytest.raises(LakeError, match="partition 0 is at 12, not 13"):
        values(settings, {0: 13})
    assert offsets_option('{"0": 5}') == {0: 5}
    with pytest.raises(LakeError, match="atOffsets"):
        offsets_option("5")


def test_state_of_an_upsert_table_at_an_offset(broker: Broker, tmp_path: Path, layout: str) -> None:
    _, settings, table = filled(broker, tmp_path, layout, mode="upsert")
    assert sorted(values(settings)) == [b"v4a", b"v5a", b"v5b"]
    plan = plan_read(settings, table, {0: 5})
    assert plan.state.offsets == {0: 4}
    assert sorted(values(settings, {0: 5})) == [b"v0a", b"v1a", b"v1b"]
    with pytest.raises(LakeError, match="every version"):
        values(settings, {0: 1})


def test_status(broker: Broker, tmp_path: Path, layout: str) -> None:
    topic, _, table = filled(broker, tmp_path, layout)
    topic.seed([("x", "later")])
    status = table_status(table)
    assert [(one.offset, one.end_offset, one.lag) for one in status.partitions] == [(12, 13, 1)]
    assert (status.rows, status.files, status.lag) == (12, ROUNDS, 1)
    assert status.seconds_since_commit is not None
    assert 0 <= status.seconds_since_commit < 600


def test_tables_that_are_not_there(tmp_path: Path, layout: str) -> None:
    options = {"table": "none", "layout": layout, "warehouse": str(tmp_path)}
    settings, table = open_existing(options)
    with pytest.raises(LakeError, match=r"no version|no table"):
        plan_read(settings, table)
    with pytest.raises(LakeError, match="name the table"):
        open_existing({})


def test_a_manifest_that_a_client_sends_twice_is_no_conflict(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the answer of a store got lost; the files of the compaction are the table's then."""
    _, settings, table = filled(broker, tmp_path, "parquet")
    typed: Any = obstore
    put = typed.put

    def put_twice(*given: Any, **named: Any) -> Any:
        put(*given, **named)
        return put(*given, **named)

    monkeypatch.setattr(obstore, "put", put_twice)
    assert compact(table, plan_compaction(table)) == 1
    assert values(settings) == ALL
