"""Rounds and compactions whose first commit was not answered: what is deleted afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kaa.limits import LAKE_ORPHAN_AGE_SECONDS
from kaa.spark.lake import folder, running
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
from kaa.spark.lake.table import ConflictError, LakeError, TableCommit, UnknownOutcomeError
from kaa.spark.lake.table_state import open_existing, plan_read, read_file, table_options
from kaa.testing import Broker, Topic
from tests.spark.lake.kills import SCHEMA, compare
from tests.spark.lake.landing import land

ROUNDS = 3


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LAKE_PAUSE_SECONDS", 0.0)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def settings_of(
    broker: Broker, place: Path, topic: Topic, layout: str, **more: str
) -> LakeSettings:
    return lake_settings(
        {
            "topic": topic.name,
            "layout": layout,
            "warehouse": str(place),
            "valueFormat": "json",
            "valueSchema": SCHEMA,
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            **more,
        }
    )


def send(topic: Topic, number: int) -> None:
    topic.seed([f'{{"n": {number}}}', "no number"])


def filled(broker: Broker, place: Path, layout: str) -> tuple[Topic, LakeSettings]:
    topic = broker.topic(partitions=1)
    settings = settings_of(broker, place, topic, layout)
    for number in range(ROUNDS):
        send(topic, number)
        land(settings_of(broker, place, topic, layout, partitionBy="partition"))
    return topic, settings


def divided_otherwise(settings: LakeSettings) -> None:
    """Another engine divides new files of the table by more than before."""
    table: Any = open_table(settings)
    table.load()
    with table.data.handle.update_spec() as spec:
        spec.add_identity("n")


def test_dead_letters_stay_when_the_partitioning_changes_under_a_round(
    broker: Broker, tmp_path: Path
) -> None:
    """Where tables are committed to one after the other, the letters are there already."""
    topic, settings = filled(broker, tmp_path, "iceberg")
    send(topic, ROUNDS)
    table: Any = open_table(settings)
    table._publisher._way = None
    publish = table._publisher.publish
    published: list[int] = []

    def late(staged: Any) -> None:
        if not published:
            divided_otherwise(settings)
        published.append(len(staged))
        publish(staged)

    table._publisher.publish = late
    LakeDriver(table, LocalRunner(), is_once=True).run()
    assert published[0] == 2
    compare(topic, settings)


class Flying:
    """Commits that get no answer, and are made when somebody says so."""

    def __init__(self, table: Any, count: int) -> None:
        self._commit = table.commit
        self._count = count
        self.flying: list[Callable[[], None]] = []
        table.commit = self

    def __call__(self, version: str, commit: Any) -> None:
        if len(self.flying) < self._count:
            self.flying.append(lambda: self._commit(version, commit))
            raise UnknownOutcomeError("no answer")
        self._commit(version, commit)


@pytest.mark.parametrize("layout", ["iceberg", "parquet"])
@pytest.mark.parametrize("comes", ["never", "before the next", "at the end"])
def test_a_compaction_without_an_answer_is_looked_up(
    broker: Broker, tmp_path: Path, layout: str, comes: str
) -> None:
    topic, settings = filled(broker, tmp_path, layout)
    table: Any = open_table(settings)
    table.load()
    plan = plan_compaction(table)
    commits = Flying(table, 100 if comes == "at the end" else 1)
    load = table.load

    def load_late() -> Any:
        if comes == "before the next" and commits.flying:
            commits.flying.pop()()
            commits._count = 0
        return load()

    table.load = load_late
    if comes == "at the end":
        with pytest.raises((LakeError, UnknownOutcomeError)):
            compact(table, plan)
        commits.flying[0]()
    else:
        assert compact(table, plan) == len(plan)
    compare(topic, settings)
    assert plan_compaction(open_table(settings)) == []


@pytest.mark.parametrize("layout", ["iceberg", "parquet"])
def test_a_compaction_in_doubt_deletes_nothing_when_its_files_are_gone(
    broker: Broker, tmp_path: Path, layout: str
) -> None:
    """The files of the group are gone, maybe because the commit in doubt has replaced them."""
    topic, settings = filled(broker, tmp_path, layout)
    table: Any = open_table(settings)
    table.load()
    commits = Flying(table, 1)
    files = table.files

    def files_late(*given: Any) -> Any:
        if commits.flying:
            commits.flying.pop()()
            commits._count = 0
        return files(*given)

    table.files = files_late
    plan = plan_compaction(table)
    assert compact(table, plan) == len(plan)
    compare(topic, settings)


def test_a_manifest_whose_number_was_forgotten_is_a_conflict(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A committer that slept for longer than versions are kept finds its number free again."""
    monkeypatch.setattr(folder, "LAKE_FULL_MANIFEST_VERSIONS", 2)
    topic, settings = filled(broker, tmp_path, "parquet")
    sleeping: Any = open_table(settings)
    state = sleeping.load()
    number = int(state.version) + 1
    for _ in range(ROUNDS):
        send(topic, 0)
        land(settings)
    table: Any = open_table(settings)
    expire(table, plan_expiry(table, keep=1, older_than_seconds=-1))
    assert number not in table._numbers()
    commit = TableCommit("late", {0: 100}, None, "append")
    with pytest.raises(ConflictError):
        sleeping.commit(state.version, commit)
    compare(topic, settings)
    # One whose committer has gone before it could look leaves the others readable.
    table.store.create(folder._name(number), b"{}")
    assert plan_orphans(table, older_than_seconds=3600) == []
    assert number not in [int(one.version) for one in table.history()]
    send(topic, 1)
    land(settings)
    compare(topic, settings)


@pytest.mark.parametrize("layout", ["iceberg", "parquet"])
def test_files_that_were_removed_as_orphans_are_not_committed(
    broker: Broker, tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that takes longer than orphans are kept is written again."""
    topic, settings = filled(broker, tmp_path, layout)
    send(topic, ROUNDS)
    table: Any = open_table(settings)
    commit = table.commit
    rounds: list[int] = []

    def commit_late(version: str, given: TableCommit) -> None:
        rounds.append(len(given.added))
        if len(rounds) == 1:
            cleaning = open_table(settings)
            remove_orphans(cleaning, plan_orphans(cleaning, older_than_seconds=-1))
            age = LAKE_ORPHAN_AGE_SECONDS
            old = [replace(one, written_at=one.written_at - age) for one in given.added]
            given = replace(given, added=old)
        commit(version, given)

    table.commit = commit_late
    LakeDriver(table, LocalRunner(), is_once=True).run()
    assert len(rounds) == 2
    compare(topic, settings)


def newest(topic: Topic) -> dict[bytes, int]:
    """The last value of each key, without those that were deleted."""
    found: dict[bytes, int] = {}
    for one in topic.records():
        if one.value is None:
            found.pop(one.key, None)
        else:
            found[one.key] = int(one.value)
    return found


@pytest.mark.parametrize("layout", ["iceberg", "parquet"])
@pytest.mark.parametrize("comes", ["never", "at the next look", "before the next", "at the end"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_round_without_an_answer_loses_no_rows(
    broker: Broker, tmp_path: Path, layout: str, comes: str, mode: str
) -> None:
    topic = broker.topic(partitions=1)
    settings = lake_settings(
        {
            "topic": topic.name,
            "layout": layout,
            "mode": mode,
            "warehouse": str(tmp_path),
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            **({"buckets": 2} if mode == "upsert" else {}),
        }
    )
    for number in range(ROUNDS):
        first = 4 * number
        records = [(f"k{one % 7}", str(one)) for one in range(first, first + 4)]
        topic.seed([*records, (f"k{number}", None)])
        if number < ROUNDS - 1:
            land(settings)
    table: Any = open_table(settings)
    commits = Flying(table, 100 if comes == "at the end" else 1)
    load, commit = table.load, table.commit

    def arrive() -> None:
        commits.flying.pop()()
        commits._count = 0

    def load_late() -> Any:
        if comes == "at the next look" and commits.flying:
            arrive()
        return load()

    def commit_late(*given: Any) -> None:
        if comes == "before the next" and commits.flying:
            arrive()
        commit(*given)

    table.load, table.commit = load_late, commit_late
    driver = LakeDriver(table, LocalRunner(), is_once=True)
    if comes == "at the end":
        with pytest.raises(LakeError, match="not known"):
            driver.run()
        commits.flying[0]()
    else:
        driver.run()
    land(settings)
    plan = plan_read(*open_existing(table_options(settings)))
    rows = [row for file in plan.files for one in read_file(plan, file) for row in one.to_pylist()]
    if mode == "upsert":
        assert sorted((row["key"], int(row["value"])) for row in rows) == sorted(
            newest(topic).items()
        )
    else:
        assert sorted(row["offset"] for row in rows) == list(range(5 * ROUNDS))
