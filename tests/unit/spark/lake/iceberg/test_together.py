"""Rows and dead letters of a round come together or not at all, in catalogs that can do that."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from kaa.spark.lake.maintenance import plan_orphans, remove_orphans
from kaa.spark.lake.store import Store
from kaa.spark.lake.table import (
    ConflictError,
    StaleRoundError,
    TableCommit,
    UnknownOutcomeError,
)
from tests.support.rest_catalog import RestCatalog
from tests.unit.spark.lake.letters import offsets, open_lake, watched, write_round

ROOT = Path(__file__).parents[5]
KILLED = "import sys; from tests.unit.spark.lake import letters as one; "
KILLED += "one.die_before_the_commit(sys.argv[1])"
AT_ONCE = ["update", "update", "commit"]

Open = Callable[[], Any]


class CrashError(Exception):
    """Stands for the end of the process."""


@pytest.fixture(params=["sql", "rest"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same tables again and again, in both kinds of catalogs."""
    folder = tmp_path / "lake"
    if request.param == "sql":
        yield lambda: open_lake(folder)
        return
    store = Store(str(folder))
    with RestCatalog(tmp_path, store.url, store.iceberg_properties()) as catalog:
        catalog.transactions = "unlisted"
        yield lambda: open_lake(folder, options_of(catalog))


def options_of(catalog: RestCatalog) -> dict[str, str]:
    named = {"type": "rest", "uri": catalog.uri, "token": catalog.token}
    return {f"catalog.{name}": value for name, value in named.items()}


def move(lake: Any, which: str) -> None:
    """Somebody who knows nothing of offsets commits to the table."""
    transaction = getattr(lake, which).handle.transaction()
    with transaction.update_snapshot().fast_append():
        pass
    transaction.commit_transaction()


def staged_files_left(lake: Any) -> list[str]:
    orphans = plan_orphans(lake, older_than_seconds=-1)
    return [one.url for one in orphans if "/metadata/" in one.url]


def test_one_transaction_for_both_tables(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    for number in range(2):
        version, commit = write_round(lake, number, f"round {number}")
        with watched(lake) as steps:
            lake.commit(version, commit)
        assert steps == AT_ONCE
    assert offsets(open_lake(tmp_path)) == ([0, 2], [1, 3])
    assert [one.commit_id for one in lake.history()] == ["round 0", "round 1"]
    assert [one.commit_id for one in lake.dead.history()] == ["round 0", "round 1"]
    assert staged_files_left(lake) == []


def test_a_round_without_dead_letters_changes_one_entry(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    version, commit = write_round(lake, 0, "round 0")
    rows = [one for one in commit.added if not one.is_dead_letters]
    with watched(lake) as steps:
        lake.commit(version, TableCommit("round 0", {0: 2}, None, "append", rows))
    assert steps == ["update", "commit"]
    assert lake.dead.history() == []


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_crash_between_staging_and_the_commit_leaves_neither(tmp_path: Path, done: int) -> None:
    lake = open_lake(tmp_path)
    lake.commit(*write_round(lake, 0, "round 0"))

    def crash(steps: list[str], _: Any) -> None:
        if len(steps) == done:
            raise CrashError

    version, commit = write_round(lake, 1, "crashed")
    with watched(lake, crash), pytest.raises(CrashError):
        lake.commit(version, commit)
    again = open_lake(tmp_path)
    assert offsets(again) == ([0], [1])
    assert again.load().version == version
    again.commit(*write_round(again, 1, "round 1"))
    assert offsets(again) == ([0, 2], [1, 3])
    # What was staged is for the removal of orphans, and nothing else.
    orphans = plan_orphans(again, older_than_seconds=-1)
    assert sum(one.url.endswith(".metadata.json") for one in orphans) == 2
    remove_orphans(again, orphans)
    assert offsets(open_lake(tmp_path)) == ([0, 2], [1, 3])


def test_a_process_that_is_killed_before_the_commit_leaves_neither(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    lake.commit(*write_round(lake, 0, "round 0"))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = open_lake(tmp_path)
    assert offsets(again) == ([0], [1])
    again.commit(*write_round(again, 1, "round 1"))
    assert offsets(again) == ([0, 2], [1, 3])


@pytest.mark.parametrize("which", ["data", "dead"])
def test_a_table_that_moved_refuses_both(opens: Open, which: str) -> None:
    lake = opens()
    lake.commit(*write_round(lake, 0, "round 0"))
    version, commit = write_round(lake, 1, "round 1")
    publish = lake._publisher.publish

    def late(staged: Any) -> None:
        move(opens(), which)
        publish(staged)

    lake._publisher.publish = late
    with pytest.raises(ConflictError):
        lake.commit(version, commit)
    lake._publisher.publish = publish
    assert offsets(opens()) == ([0], [1])
    assert staged_files_left(lake) == []
    lake.commit(lake.load().version, commit)
    assert offsets(opens()) == ([0, 2], [1, 3])


@pytest.mark.parametrize("which", ["data", "dead"])
def test_an_entry_that_moved_after_the_look_refuses_both(tmp_path: Path, which: str) -> None:
    lake = open_lake(tmp_path)
    lake.commit(*write_round(lake, 0, "round 0"))
    version, commit = write_round(lake, 1, "round 1")
    write = lake._catalog._write_metadata

    def late(*arguments: Any) -> None:
        lake._catalog._write_metadata = write
        move(open_lake(tmp_path), which)
        write(*arguments)

    lake._catalog._write_metadata = late
    with watched(lake) as steps, pytest.raises(ConflictError):
        lake.commit(version, commit)
    assert steps == (["update"] if which == "dead" else ["update", "update"])
    assert offsets(open_lake(tmp_path)) == ([0], [1])
    assert staged_files_left(lake) == []
    lake.commit(lake.load().version, commit)
    assert offsets(open_lake(tmp_path)) == ([0, 2], [1, 3])


@pytest.mark.parametrize("is_made", [False, True])
def test_a_commit_without_an_answer_is_looked_up(tmp_path: Path, is_made: bool) -> None:
    lake = open_lake(tmp_path)
    version, commit = write_round(lake, 0, "round 0")

    def lose(steps: list[str], connection: Any) -> None:
        if steps == ["update", "update"]:
            if is_made:
                connection.connection.dbapi_connection.commit()
            raise OperationalError("COMMIT", {}, sqlite3.OperationalError("gone"))

    with watched(lake, lose), pytest.raises(UnknownOutcomeError):
        lake.commit(version, commit)
    state = lake.load()
    assert (state.commit_id == "round 0") is is_made
    assert offsets(open_lake(tmp_path)) == (([0], [1]) if is_made else ([], []))
    if not is_made:
        lake.commit(state.version, commit)
        assert offsets(open_lake(tmp_path)) == ([0], [1])


def test_a_conflict_with_itself_is_a_success(tmp_path: Path) -> None:
    """Clients of catalogs may repeat a request whose answer was lost."""
    lake = open_lake(tmp_path)
    version, commit = write_round(lake, 0, "round 0")
    at_once = lake._publisher._way

    def twice(*arguments: Any) -> None:
        at_once(*arguments)
        at_once(*arguments)

    lake._publisher._way = twice
    lake.commit(version, commit)
    assert offsets(open_lake(tmp_path)) == ([0], [1])


def test_a_conflict_counts_though_the_commit_id_is_known(opens: Open) -> None:
    """Maintenance repeats the id of the newest commit."""
    lake = opens()
    lake.commit(*write_round(lake, 0, "round 0"))
    state = lake.load()
    publish = lake._publisher.publish

    def late(staged: Any) -> None:
        move(opens(), "data")
        publish(staged)

    lake._publisher.publish = late
    with pytest.raises(ConflictError):
        lake.commit(state.version, TableCommit(state.commit_id, state.offsets, None, "append"))


def test_catalogs_of_one_table_at_a_time_take_the_dead_letters_first(tmp_path: Path) -> None:
    lake = open_lake(tmp_path)
    lake._publisher._way = None
    version, commit = write_round(lake, 0, "round 0")

    def crash(steps: list[str], _: Any) -> None:
        if steps == ["update", "commit"]:
            raise CrashError

    with watched(lake, crash), pytest.raises(CrashError):
        lake.commit(version, commit)
    assert offsets(open_lake(tmp_path)) == ([], [1])
    # The same committer knows its letters; they are not committed again.
    with watched(lake) as steps:
        lake.commit(lake.load().version, commit)
    assert steps == ["update", "commit"]
    assert offsets(open_lake(tmp_path)) == ([0], [1])
    # Another one has to write its round anew.
    version, commit = write_round(lake, 0, "another")
    with pytest.raises(StaleRoundError):
        lake.commit(version, commit)


def test_a_server_that_leaves_the_endpoint_out_is_not_asked(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "lake"))
    with RestCatalog(tmp_path, store.url, store.iceberg_properties()) as catalog:
        catalog.transactions = "left out"
        lake = open_lake(tmp_path / "lake", options_of(catalog))
        lake.commit(*write_round(lake, 0, "round 0"))
        assert catalog.transactions_asked == 0
        assert catalog.made[-2:] == [("t_dead_letters",), ("t",)]


def test_files_of_the_first_table_stay_when_the_second_refuses(tmp_path: Path) -> None:
    """A conflict would let the committer delete files that the dead letters name by now."""
    lake = open_lake(tmp_path)
    lake._publisher._way = None
    version, commit = write_round(lake, 0, "round 0")
    publish = lake._publisher.publish

    def late(staged: Any) -> None:
        move(open_lake(tmp_path), "data")
        publish(staged)

    lake._publisher.publish = late
    with pytest.raises(UnknownOutcomeError):
        lake.commit(version, commit)
    lake._publisher.publish = publish
    assert offsets(open_lake(tmp_path)) == ([], [1])
    assert staged_files_left(lake) == []
    lake.commit(lake.load().version, commit)
    assert offsets(open_lake(tmp_path)) == ([0], [1])


@pytest.mark.parametrize("is_made", [False, True])
def test_a_refusal_that_nothing_explains_is_no_conflict(tmp_path: Path, is_made: bool) -> None:
    """Glue refuses a request that its client repeats while the first one is still under way."""
    lake = open_lake(tmp_path)
    lake._publisher._way = None
    version, commit = write_round(lake, 0, "round 0")
    rows = [one for one in commit.added if not one.is_dead_letters]
    commit_table, flying = lake._catalog.commit_table, []

    def refuse(*given: Any) -> None:
        flying.append(given)
        raise CommitFailedException("two processes are trying to modify a resource")

    lake._catalog.commit_table = refuse
    with pytest.raises(UnknownOutcomeError, match="two processes"):
        lake.commit(version, TableCommit("round 0", {0: 2}, None, "append", rows))
    lake._catalog.commit_table = commit_table
    if is_made:
        commit_table(*flying[0])
        assert lake.load().commit_id == "round 0"
    else:
        lake.commit(lake.load().version, TableCommit("round 0", {0: 2}, None, "append", rows))
    assert offsets(open_lake(tmp_path)) == ([0], [])


@pytest.mark.parametrize("is_made", [False, True])
def test_dead_letters_that_may_still_come_are_kept(tmp_path: Path, is_made: bool) -> None:
    """The rows were not sent yet, and their table moved: that says nothing of the letters."""
    lake = open_lake(tmp_path)
    lake._publisher._way = None
    version, commit = write_round(lake, 0, "round 0")
    commit_table, flying = lake._catalog.commit_table, []

    def refuse(*given: Any) -> None:
        flying.append(given)
        lake._catalog.commit_table = commit_table
        move(open_lake(tmp_path), "data")
        raise CommitFailedException("two processes are trying to modify a resource")

    lake._catalog.commit_table = refuse
    with pytest.raises(UnknownOutcomeError, match="two processes"):
        lake.commit(version, commit)
    if is_made:
        commit_table(*flying[0])
        assert offsets(open_lake(tmp_path)) == ([], [1])
    lake.commit(lake.load().version, commit)
    assert offsets(open_lake(tmp_path)) == ([0], [1])
