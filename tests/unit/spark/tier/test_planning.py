"""A tiered topic read from the store and through the broker: the same rows, whatever is in it."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kaa.limits import SPARK_TIER_GET_BYTES
from kaa.model.topics import TopicPartition as Partition
from kaa.spark.brokers import brokers_of
from kaa.spark.errors import DataLossError, SparkSourceError
from kaa.spark.lookup import Lookup
from kaa.spark.options import SourceOptions, source_options
from kaa.spark.plan import batch_ranges
from kaa.spark.range_reader import RangeReader, Task
from kaa.spark.schema import COLUMN_TYPES
from kaa.spark.tier import planning, remote_segments
from kaa.spark.tier.aborted import aborted_after_tier
from kaa.spark.tier.planning import planner_of, tiered_tasks
from tests.support.broker_thread import BrokerThread, broker_thread
from tests.support.pace import PATIENCE_SECONDS
from tests.support.tiered import (
    LATEST_TIERED,
    ONE_REPLICA,
    QUICK,
    TIERED,
    make_topic,
    offset_of,
    until,
    wait_until_tiered,
)

COLUMNS = tuple(COLUMN_TYPES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[BrokerThread]:
    store = f"rsm.config.url={(folder / 'store').as_uri()}"
    with broker_thread(folder / "data", *QUICK, *ONE_REPLICA, store) as made:
        yield made


class Topic:
    """A tiered topic and queries over it."""

    def __init__(self, node: BrokerThread, folder: Path, name: str, **config: str) -> None:
        self.servers = node.bootstrap_servers
        self.name = name
        self.partition = Partition(name, 0)
        self.store = folder / "store"
        make_topic(self.servers, name, config=TIERED | config)

    def options(self, **options: Any) -> SourceOptions:
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": self.name}
        given |= {"tierStore": self.store.as_uri()}
        return source_options(given | {k: str(v) for k, v in options.items()}, is_stream=False)

    def tasks(self, options: SourceOptions) -> list[Task]:
        lookup = Lookup(options)
        found = lookup.partitions()
        start = lookup.resolve(options.start, found.partitions)
        end = lookup.tier_bounded(lookup.resolve(options.end, found.partitions), found)
        return tiered_tasks(options, batch_ranges(start, end), found.topic_ids)

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        made = self.options(**options)
        return [row for task in self.tasks(made) for row in rows_of(made, task)]

    def broker_rows(self, **options: Any) -> list[dict[str, Any]]:
        made = self.options(**options)
        return [
            row
            for task in self.tasks(made)
            for row in rows_of(made, replace(task, pieces=(), aborted=()))
        ]

    def logs(self) -> list[Path]:
        return sorted(self.store.glob(f"{self.name}-0-*/*.log"))

    def between(self, start: int, end: int) -> dict[str, str]:
        return {
            "startingOffsets": json.dumps({self.name: {"0": start}}),
            "endingOffsets": json.dumps({self.name: {"0": end}}),
        }


def rows_of(options: SourceOptions, task: Task) -> list[dict[str, Any]]:
    batches = RangeReader(options, task, COLUMNS).batches()
    return [row for batch in batches for row in batch.to_pylist()]


def producer(servers: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": servers, "linger.ms": 20, **settings})


def fill(topic: Topic, count: int, **settings: Any) -> None:
    """Records of a kilobyte with keys, headers and timestamps, some of them null."""
    made = producer(topic.servers, **settings)
    for number in range(count):
        made.produce(
            topic.name,
            key=None if number % 7 == 0 else b"k%d" % number,
            value=None if number % 11 == 0 else b"%08d" % number * 128,
            headers=None if number % 3 else [("n", b"%d" % number), ("e", None)],
            timestamp=1_000 * number + 1,
            partition=0,
        )
        if number % 50 == 49:
            made.flush(PATIENCE_SECONDS)
    assert made.flush(PATIENCE_SECONDS) == 0


@pytest.fixture(scope="module")
def history(node: BrokerThread, folder: Path) -> Topic:
    topic = Topic(node, folder, "history")
    fill(topic, 2_000)
    fill(topic, 2_000, **{"compression.type": "zstd"})
    fill(topic, 1_500)
    wait_until_tiered(topic.servers, topic.name, tail_max=1_500)
    return topic


def test_the_same_rows_from_the_store_and_the_broker(history: Topic) -> None:
    expected = history.broker_rows()
    assert [row["offset"] for row in expected] == list(range(5_500))
    made = history.options()
    tasks = history.tasks(made)
    tiered = offset_of(history.servers, history.name, LATEST_TIERED) + 1
    covered = Counter(bool(task.pieces) for task in tasks for _ in range(task.range.size))
    assert covered == {True: tiered, False: 5_500 - tiered}
    assert [row for task in tasks for row in rows_of(made, task)] == expected
    for start, end in ((0, 1), (17, 18), (333, 2_222), (tiered - 7, tiered + 7), (5_499, 5_500)):
        assert history.rows(**history.between(start, end)) == expected[start:end]
    only = history.rows(tier="only")
    assert only == expected[:tiered]


def test_small_tasks_and_gets_share_no_record(
    history: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = history.broker_rows()
    # Gets that cut batches and their headers anywhere, and batches larger than a get.
    monkeypatch.setattr(remote_segments, "SPARK_TIER_GET_BYTES", 10_007)
    monkeypatch.setattr(planning, "SPARK_TIER_TASK_BYTES", 400_000)
    made = history.options(maxRecordsPerPartition=300)
    tasks = history.tasks(made)
    assert len(tasks) > 18
    assert [row for task in tasks for row in rows_of(made, task)] == expected
    assert SPARK_TIER_GET_BYTES >= 8 << 20


def test_transactions(node: BrokerThread, folder: Path) -> None:
    """Two producers take turns; one transaction begins in the store and is aborted at the tail, and
    one stays open.
    """
    topic = Topic(node, folder, "payments")
    servers = topic.servers
    one, two, three = (
        producer(servers, **{"transactional.id": name}) for name in ("one", "two", "three")
    )
    for each in (one, two, three):
        each.init_transactions(PATIENCE_SECONDS)

    def send(made: Producer, first: int, count: int) -> None:
        for number in range(first, first + count):
            made.produce(topic.name, value=b"%08d" % number * 128, partition=0)
        made.flush(PATIENCE_SECONDS)

    for turn in range(8):
        one.begin_transaction()
        two.begin_transaction()
        for part in range(3):
            send(one, 1_000 * turn + 100 * part, 70)
            send(two, 500_000 + 1_000 * turn + 100 * part, 60)
        (one.abort_transaction if turn % 3 == 0 else one.commit_transaction)(PATIENCE_SECONDS)
        (two.abort_transaction if turn % 2 == 0 else two.commit_transaction)(PATIENCE_SECONDS)
    # The last stable offset stops before the third, after records of the first, whose marker comes
    # after it: the index of a local segment has it.
    one.begin_transaction()
    send(one, 900_000, 1_300)
    three.begin_transaction()
    send(three, 950_000, 10)
    one.abort_transaction(PATIENCE_SECONDS)
    send(three, 960_000, 1_300)
    until(
        lambda: offset_of(servers, topic.name, LATEST_TIERED) > 4_100, "the aborted end is tiered"
    )
    committed = topic.broker_rows(isolationLevel="read_committed")
    made = topic.options(isolationLevel="read_committed")
    tasks = topic.tasks(made)
    assert sum(bool(task.pieces) for task in tasks)
    assert [row for task in tasks for row in rows_of(made, task)] == committed
    assert not any(row["value"].startswith((b"0090", b"0095")) for row in committed)
    assert len(committed) == 5 * 210 + 4 * 180
    assert topic.rows() == topic.broker_rows()
    # Where nothing is committed after the end of the store, the record before it is asked.
    stable = 8 * (3 * 130 + 2) + 1_300
    brokers = brokers_of(made.settings)
    for offset in (stable - 1, stable):
        behind = brokers.call(aborted_after_tier(brokers, topic.partition, offset))
        assert [one.first for one in behind] == [stable - 1_300]
    # From every transaction on, in small tasks.
    for start in range(0, 4_000, 173):
        some = topic.rows(
            isolationLevel="read_committed", maxRecordsPerPartition=500,
            startingOffsets=json.dumps({topic.name: {"0": start}}),
        )  # fmt: skip
        assert some == [row for row in committed if row["offset"] >= start]
    # The store alone cannot tell what became of the one that was open at its end.
    only = topic.rows(isolationLevel="read_committed", tier="only")
    assert only == committed[: len(only)]
    assert len(only) == len(committed)
    three.commit_transaction(PATIENCE_SECONDS)
    later = topic.rows(isolationLevel="read_committed")
    assert later == topic.broker_rows(isolationLevel="read_committed")
    assert len(later) == len(committed) + 1_310


def test_records_that_were_deleted_are_lost_and_the_rest_is_read(
    node: BrokerThread, folder: Path
) -> None:
    topic = Topic(node, folder, "trimmed")
    fill(topic, 3_000)
    wait_until_tiered(topic.servers, topic.name, tail_max=1_100)
    before = topic.tasks(topic.options(startingOffsets=json.dumps({topic.name: {"0": 100}})))
    oldest, *_ = topic.logs()
    admin = AdminClient({"bootstrap.servers": topic.servers})
    for deleted in admin.delete_records([TopicPartition(topic.name, 0, 1_500)]).values():
        deleted.result(PATIENCE_SECONDS)
    rows = topic.rows()
    assert [row["offset"] for row in rows] == list(range(1_500, 3_000))
    # A query that names what is gone.
    late = topic.options(startingOffsets=json.dumps({topic.name: {"0": 100}}))
    first, *rest = topic.tasks(late)
    assert (first.range.start, first.range.end, first.pieces) == (100, 1_500, ())
    with pytest.raises(DataLossError, match="offsets 100 to 1499"):
        rows_of(late, first)
    assert [row for task in rest for row in rows_of(late, task)] == rows
    # One that was planned before, whose objects go meanwhile.
    until(lambda: not oldest.exists(), "what is not needed is deleted in the store")
    with pytest.raises(DataLossError, match="the log begins at 1500"):
        rows_of(topic.options(), before[0])
    lenient = topic.options(failOnDataLoss="false", tier="only")
    with pytest.warns(UserWarning, match="failOnDataLoss is false"):
        found = [row for task in before if task.pieces for row in rows_of(lenient, task)]
    assert found == rows[: len(found)]


def test_an_object_that_is_missing_or_damaged(node: BrokerThread, folder: Path) -> None:
    topic = Topic(node, folder, "damaged", **{"local.retention.bytes": "-2"})
    fill(topic, 3_000)
    until(lambda: len(topic.logs()) >= 2, "two segments are copied")
    expected = topic.broker_rows()
    log = topic.logs()[0]
    away = log.rename(log.with_suffix(".away"))
    # The broker still has it on its disk.
    assert topic.rows() == expected
    with pytest.raises(SparkSourceError, match="is missing in the store; tier=auto"):
        topic.rows(tier="only")
    whole = away.rename(log).read_bytes()
    log.write_bytes(whole[:40_000] + bytes([whole[40_000] ^ 1]) + whole[40_001:])
    with pytest.raises(SparkSourceError, match=r"damaged-0.*cannot be read"):
        topic.rows()
    log.write_bytes(whole[:-10])
    with pytest.raises(SparkSourceError, match="cannot be read from the store at offset 0"):
        topic.rows()
    log.write_bytes(whole)
    assert topic.rows() == expected


def test_the_next_process_reads_on_from_a_snapshot(
    history: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaa.spark.tier.metadata.SPARK_TIER_SNAPSHOT_RECORDS", 1)
    expected = history.rows()
    for _ in range(2):
        # A process that knows nothing yet.
        monkeypatch.setattr(planning, "_planners", OrderedDict())
        assert history.rows() == expected
    snapshots = list(history.store.glob("kaa-spark/*.snapshot"))
    assert snapshots
    for path in snapshots:
        path.write_bytes(path.read_bytes()[:-3])
    monkeypatch.setattr(planning, "_planners", OrderedDict())
    assert history.rows() == expected


def test_a_topic_that_is_not_tiered(node: BrokerThread, folder: Path) -> None:
    topic = Topic(node, folder, "plain", **{"remote.storage.enable": "false"})
    fill(topic, 10)
    made = topic.options()
    (task,) = topic.tasks(made)
    assert task.pieces == ()
    assert len(rows_of(made, task)) == 10
    assert topic.rows(tier="only") == []
    assert planner_of(made) is planner_of(topic.options())
