"""Topics to tables without Spark: both layouts, on disk and in an object store."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo

from kaa.spark.lake.driver import LakeDriver, RoundReport, open_table
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.store import Store, path_of
from kaa.spark.lake.table import (
    ConflictError,
    LakeError,
    TableCommit,
    UnknownOutcomeError,
)
from kaa.testing import Broker, Registry
from tests.support.object_store import emulated_s3

Make = Callable[..., LakeSettings]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(params=["iceberg", "parquet"])
def make(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Make:
    """Makes settings of tables on disk."""
    return maker(request, broker, tmp_path, request.param, "disk")


@pytest.fixture(params=["iceberg-disk", "parquet-disk", "iceberg-s3", "parquet-s3"])
def make_anywhere(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Make:
    """Makes settings of tables on disk and in an object store."""
    layout, _, place = request.param.partition("-")
    return maker(request, broker, tmp_path, layout, place)


def maker(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path, layout: str, place: str
) -> Make:
    store = Store(str(tmp_path / "lake")) if place == "disk" else emulated_s3(request)

    def settings(topic: str, **options: Any) -> LakeSettings:
        given = {
            "topic": topic,
            "layout": layout,
            "warehouse": store.url,
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            **{f"store.{name}": value for name, value in store.options.items()},
        }
        if place == "s3" and layout == "iceberg":
            given |= {"catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
        return lake_settings({**given, **options})

    return settings


def run(settings: LakeSettings, **options: Any) -> list[RoundReport]:
    reports: list[RoundReport] = []
    table = options.pop("table", None) or open_table(settings)
    LakeDriver(table, LocalRunner(), is_once=True, report=reports.append, **options).run()
    return reports


def rows(settings: LakeSettings) -> list[dict[str, Any]]:
    """The rows of the table, by its list of files."""
    table = open_table(settings)
    reader, schema = table.reader(), table.schema()
    found: list[dict[str, Any]] = []
    for file in table.files():
        batches = list(reader.batches(file, schema))
        assert file.deletes or sum(one.num_rows for one in batches) == file.rows
        found += [row for one in batches for row in one.to_pylist()]
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def dead_letters(settings: LakeSettings) -> list[dict[str, Any]]:
    table: Any = open_table(settings)
    if settings.layout == "iceberg":
        return list(table.dead.handle.scan().to_arrow().to_pylist())
    filesystem = settings.store.filesystem()
    return [
        row
        for file in table.dead_letters()
        for row in pq.read_table(
            path_of(file.url), filesystem=filesystem, partitioning=None
        ).to_pylist()
    ]


def test_every_record_once_and_new_ones_later(make_anywhere: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=3)
    topic.seed([(f"k{number % 7}", f"v{number}") for number in range(200)])
    settings = make_anywhere(topic.name, partitionBy="day(timestamp), bucket(4, key)")
    assert sum(one.rows for one in run(settings)) == 200
    assert run(settings) == []
    topic.seed([{"key": None, "value": None, "headers": [("h", b"x")]}])
    report = run(settings)[0]
    assert (report.rows, report.lag) == (1, 0)
    found = rows(settings)
    expected = {(one.partition, one.offset): (one.key, one.value) for one in topic.records()}
    assert {(one["partition"], one["offset"]): (one["key"], one["value"]) for one in found} == (
        expected
    )
    assert len(found) == 201
    assert [one["headers"] for one in found if one["headers"]] == [[{"key": "h", "value": b"x"}]]
    state = open_table(settings).load()
    assert state.offsets == topic.offsets()
    assert state.topic_id is not None


def test_a_second_reader_sees_the_parts(make: Make, broker: Broker) -> None:
    """Pyiceberg finds rows by their parts, so the values in the files are right."""
    topic = broker.topic(partitions=1)
    topic.seed([(f"k{number}", "v") for number in range(50)])
    settings = make(topic.name, partitionBy="bucket(8, key)")
    run(settings)
    table: Any = open_table(settings)
    assert len(table.files()) == 8
    if settings.layout == "iceberg":
        scan = table.data.handle.scan(row_filter=key_is(b"k7"))
        assert scan.to_arrow().num_rows == 1
        assert len(list(scan.plan_files())) == 1


def test_rounds_are_limited(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    topic.seed([{"value": str(number), "partition": number % 2} for number in range(40)])
    reports = run(make(topic.name, maxRecordsPerRound=10))
    assert [one.rows for one in reports] == [10, 10, 10, 10]
    assert [one.lag for one in reports] == [30, 20, 10, 0]


def test_many_partitions_with_few_records_are_few_files(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=100)
    topic.seed([{"value": str(number), "partition": number % 100} for number in range(500)])
    settings = make(topic.name)
    assert [one.files for one in run(settings)] == [1]
    assert [one["value"] for one in rows(settings)] == [
        b"%d" % number for number in sorted(range(500), key=lambda one: (one % 100, one))
    ]


def test_starting_at_the_end_is_remembered(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=1)
    topic.seed(["before"])
    settings = make(topic.name, startingOffsets="latest")
    assert [one.rows for one in run(settings)] == [0]
    topic.seed(["after"])
    assert [one.rows for one in run(settings)] == [1]
    assert [one["value"] for one in rows(settings)] == [b"after"]


def test_a_lost_answer_and_a_faster_committer(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=1)
    topic.seed(["a", "b"])
    settings = make(topic.name)
    table: Any = open_table(settings)
    commit = table.commit
    outcomes = ["answer lost", "conflict", "lost"]

    def faulty(version: str, request: TableCommit) -> None:
        outcome = outcomes.pop(0) if outcomes else ""
        if outcome == "lost":
            raise UnknownOutcomeError
        if outcome == "conflict":
            run(settings)  # Another committer is faster.
        commit(version, request)
        if outcome == "answer lost":
            raise UnknownOutcomeError

    table.commit = faulty
    assert [one.rows for one in run(settings, table=table)] == [2]
    topic.seed(["c"])
    assert run(settings, table=table) == []
    topic.seed(["d"])
    assert [one.rows for one in run(settings, table=table)] == [1]
    assert outcomes == []
    assert [one["value"] for one in rows(settings)] == [b"a", b"b", b"c", b"d"]


def test_a_version_is_committed_to_once(make_anywhere: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=1)
    settings = make_anywhere(topic.name)
    first, second = open_table(settings), open_table(settings)
    version = first.load().version
    assert second.load().version == version
    request = TableCommit("a", {0: 0}, "id", "append")
    first.commit(version, request)
    with pytest.raises(ConflictError):
        second.commit(version, TableCommit("b", {0: 0}, "id", "append"))
    assert second.load().commit_id == "a"


def test_columns_out_of_values_and_dead_letters(make: Make, broker: Broker) -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    second = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
    }
    third = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    with Registry() as registry:
        topic = broker.topic(partitions=1)
        options = {"valueFormat": "avro", "schemaRegistry.url": registry.url}
        subject = f"{topic.name}-value"
        one = registry.register(subject, json.dumps(first))
        topic.seed([registry.frame(one, b"\x02"), b"bad"])
        settings = make(topic.name, **options)
        report = run(settings)[0]
        assert (report.rows, report.dead_letters) == (1, 1)
        two = registry.register(subject, json.dumps(second))
        forget_latest(registry.url)
        topic.seed([registry.frame(two, b"\x04\x02\x02x"), registry.frame(one, b"\x06")])
        run(settings)
        assert [(row["a"], row.get("b")) for row in rows(settings)] == [
            (1, None),
            (2, "x"),
            (3, None),
        ]
        three = registry.register(subject, json.dumps(third))
        forget_latest(registry.url)
        topic.seed([registry.frame(three, b"\x02z"), registry.frame(two, b"\x0a\x00")])
        report = run(settings)[0]
        assert (report.rows, report.dead_letters) == (1, 1)
        assert [row["a"] for row in rows(settings)] == [1, 2, 3, 5]
        letters = sorted(dead_letters(settings), key=lambda row: row["offset"])
        assert [row["offset"] for row in letters] == [1, 4]
        assert letters[0]["value"] == b"bad"
        assert "no schema id" in letters[0]["kaa_error"]


def key_is(key: bytes) -> Any:
    equal: Any = EqualTo
    return equal("key", key)


def forget_latest(url: str) -> None:
    """As if a minute had passed since the registry was asked."""
    from kaa.spark.formats.registry import RegistrySettings, client

    client(RegistrySettings((url,)))._latest.clear()


def test_one_row_per_key(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    topic.seed([(f"k{number % 10}", f"v{number}") for number in range(50)])
    settings = make(topic.name, mode="upsert", buckets=4)
    run(settings)
    assert {row["key"]: row["value"] for row in rows(settings)} == {
        b"k%d" % number: b"v%d" % (40 + number) for number in range(10)
    }
    topic.seed([("k1", None), ("k2", "new"), (None, "no key"), ("k3", None), ("k3", "back")])
    run(settings)
    found = {row["key"]: row["value"] for row in rows(settings)}
    assert len(rows(settings)) == len(found) == 9
    assert b"k1" not in found
    assert (found[b"k2"], found[b"k3"]) == (b"new", b"back")
    assert [row["kaa_error"] for row in dead_letters(settings)] == ["the record has no key"]
    with pytest.raises(LakeError, match="mode=upsert, and append is asked for"):
        run(make(topic.name, mode="append"))
    with pytest.raises(LakeError, match="buckets=4, and 8 is asked for"):
        run(make(topic.name, mode="upsert", buckets=8))
    topic.seed([("k4", "by its name alone")])
    run(make(topic.name))
    assert len(rows(settings)) == 9


def test_rows_and_dead_letters_come_together_or_not_at_all(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=1)
    topic.seed([("k", "v"), (None, "no key")])
    settings = make(topic.name, mode="upsert")
    table: Any = open_table(settings)

    class CrashError(Exception):
        pass

    def crash(*_: Any) -> None:
        raise CrashError

    if settings.layout == "iceberg":
        table._publisher.publish = crash
    else:
        table.commit = crash
    with pytest.raises(CrashError):
        run(settings, table=table)
    assert (rows(settings), dead_letters(settings)) == ([], [])
    run(settings)
    assert len(rows(settings)) == 1
    assert len(dead_letters(settings)) == 1


@pytest.mark.parametrize("make", ["iceberg"], indirect=True)
@pytest.mark.parametrize("mover", ["another committer", "a stranger"])
def test_a_round_goes_on_though_one_of_its_tables_moved(
    make: Make, broker: Broker, mover: str
) -> None:
    topic = broker.topic(partitions=1)
    topic.seed([("k", "v"), (None, "no key")])
    settings = make(topic.name, mode="upsert")
    run(settings)
    topic.seed([("other", "v"), (None, "no key")])
    table: Any = open_table(settings)
    publish = table._publisher.publish

    def late(staged: Any) -> None:
        table._publisher.publish = publish
        other: Any = open_table(settings)
        if mover == "another committer":
            run(settings)
        else:
            transaction = other.dead.handle.transaction()
            with transaction.update_snapshot().fast_append():
                pass
            transaction.commit_transaction()
        publish(staged)

    table._publisher.publish = late
    reports = run(settings, table=table)
    assert [one.dead_letters for one in reports] == ([] if mover == "another committer" else [1])
    assert [row["key"] for row in rows(settings)] == [b"k", b"other"]
    assert sorted(row["offset"] for row in dead_letters(settings)) == [1, 3]


def test_a_topic_that_was_made_anew_is_noticed(make: Make, broker: Broker) -> None:
    topic = broker.topic("anew", partitions=1)
    topic.seed(["a"])
    settings = make(topic.name)
    run(settings)
    broker.delete_topics(["anew"])
    broker.topic("anew", partitions=1)
    with pytest.raises(LakeError, match="created again"):
        run(settings)
    broker.delete_topics(["anew"])


def test_a_round_that_writes_nothing_takes_its_own_time_alone(make: Make, broker: Broker) -> None:
    """The first commit of a topic without records says where the table starts."""
    settings = make(broker.topic(partitions=1).name)
    reports: list[RoundReport] = []
    LakeDriver(open_table(settings), LocalRunner(), is_once=True, report=reports.append).run()
    assert [one.rows for one in reports] == [0]
    assert reports[0].seconds < 60


def test_it_keeps_running_and_stops_when_told(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=1)
    topic.seed(["a"])
    settings = make(topic.name, intervalSeconds="0.01")
    stop, seen = threading.Event(), threading.Event()
    total = 0

    def report(one: RoundReport) -> None:
        nonlocal total
        total += one.rows
        if total == 1:
            topic.seed(["b"])
        else:
            seen.set()

    keeper = LakeDriver(
        open_table(settings),
        LocalRunner(),
        is_once=False,
        report=report,
        stop=stop,
    )
    thread = threading.Thread(target=keeper.run)
    thread.start()
    assert seen.wait(30)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert total == 2
