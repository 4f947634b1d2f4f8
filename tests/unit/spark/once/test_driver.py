"""The exactly-once sink against running brokers, without Spark: tasks and drivers by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kaa.client import NewTopic
from kaa.client.errors import KafkaError
from kaa.client.sync import Admin, Consumer
from kaa.spark.errors import LostTransactionError, SupersededError
from kaa.spark.once import driver as module
from kaa.spark.once.driver import Driver
from kaa.spark.once.machine import (
    Decide,
    Decision,
    End,
    Entry,
    Protocol,
    abort_batch,
    commit_batch,
)
from kaa.spark.once.tasks import TaskNames, write_transaction
from kaa.spark.options import SinkOptions, sink_options
from tests.oracle.environment import wait_until
from tests.support.both_clusters import bootstrap, kaa_node, topic_name
from tests.support.broker_process import BrokerProcess

__all__ = ["bootstrap", "kaa_node", "topic_name"]


class Query:
    """One query that writes to one topic."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self.topic = topic
        self.options: SinkOptions = sink_options(
            {"kafka.bootstrap.servers": servers, "topic": topic, "exactlyOnce": "true"}
        )
        with Admin({"bootstrap.servers": servers}) as admin:
            admin.run(lambda one: one.create_topics([NewTopic(topic, 2, 1)]))

    def write(self, run: str, batch_id: int, task: int = 0, attempt: int = 0) -> Entry:
        names = TaskNames(self.topic, run, task, attempt, batch_id)
        rows = [f"{batch_id}/{task}/{row}".encode() for row in range(3)]
        batch = pa.RecordBatch.from_pydict({"value": pa.array(rows, pa.binary())})
        count, entry = write_transaction(self.options, names, iter([batch]))
        assert count == 3
        assert entry is not None
        return entry

    def commit(self, batch_id: int, entries: list[Entry]) -> None:
        Driver(self.options, self.topic).run(commit_batch(batch_id, entries))

    def visible(self) -> list[str]:
        from kaa.client import TopicPartition

        settings = {"bootstrap.servers": self.servers, "isolation.level": "read_committed"}
        with Consumer(settings) as consumer:
            partitions = [TopicPartition(self.topic, number) for number in (0, 1)]
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            consumer.seek_to_beginning(partitions)
            found: list[str] = []
            while any(consumer.position(one) < ends[one] for one in partitions):
                for records in consumer.poll(timeout_ms=200).values():
                    found += [bytes(record.value or b"").decode() for record in records]
            return sorted(found)

    def ongoing(self, *more_states: str) -> list[str]:
        with Admin({"bootstrap.servers": self.servers}) as admin:
            found = admin.run(lambda one: one.list_transactions(states=["Ongoing", *more_states]))
        return [
            one.transactional_id
            for one in found
            if self.topic in one.transactional_id and not one.transactional_id.endswith(".commit")
        ]


@pytest.fixture
def query(bootstrap: str, topic_name: str) -> Query:
    return Query(bootstrap, topic_name)


def rows(*batches: int, tasks: int = 1) -> list[str]:
    return sorted(
        f"{batch}/{task}/{row}" for batch in batches for task in range(tasks) for row in range(3)
    )


def stopping(protocol: Protocol, kind: type[Any], *, after: bool) -> Iterator[Any]:
    """The protocol up to an effect of a kind, as if the driver died before or after it."""
    answer: Any = None
    while True:
        effect = protocol.send(answer)
        if isinstance(effect, kind) and not after:
            return
        answer = yield effect
        if isinstance(effect, kind):
            return


def test_batches_become_visible_when_they_are_committed(query: Query) -> None:
    entries = [query.write("run", 0, task) for task in range(2)]
    assert query.visible() == []
    query.commit(0, entries)
    # Brokers write markers after they have answered, and that was waited for.
    assert query.ongoing("PrepareCommit", "PrepareAbort", "PrepareEpochFence") == []
    assert query.visible() == rows(0, tasks=2)
    # The same again is not a change, whether with the same or with new transactions.
    query.commit(0, entries)
    query.commit(0, [query.write("other", 0)])
    assert query.visible() == rows(0, tasks=2)
    query.commit(1, [query.write("other", 1)])
    assert query.visible() == sorted([*rows(0, tasks=2), *rows(1)])
    assert query.ongoing() == []
    query.commit(2, [])


@pytest.mark.parametrize(
    ("kind", "after"), [(Decide, False), (Decide, True), (End, False), (End, True)]
)
def test_a_driver_that_dies_on_the_way(query: Query, kind: type[Any], after: bool) -> None:
    entries = [query.write("run", 0, task) for task in range(2)]
    died = stopping(commit_batch(0, entries), kind, after=after)
    Driver(query.options, query.topic).run(died)  # type: ignore[arg-type]  # It has the methods.
    # Spark replays the batch: new transactions, the same rows.
    query.commit(0, [query.write("replay", 0, task) for task in range(2)])
    assert query.visible() == rows(0, tasks=2)
    assert query.ongoing() == []


def test_an_abort_takes_back_what_is_not_decided(query: Query) -> None:
    entries = [query.write("run", 0)]
    Driver(query.options, query.topic).run(abort_batch(0, entries))
    assert query.ongoing() == []
    with pytest.raises(LostTransactionError, match="is no longer open"):
        query.commit(0, entries)
    query.commit(0, [query.write("again", 0)])
    Driver(query.options, query.topic).run(abort_batch(0, entries))
    assert query.visible() == rows(0)


def test_a_name_that_is_in_use_is_passed_over(query: Query) -> None:
    first = query.write("run", 0)
    second = query.write("run", 0)
    assert first.transactional_id.endswith(".run.0.0.0")
    assert second.transactional_id.endswith(".run.0.1.0")
    query.commit(0, [second])
    assert query.visible() == rows(0)
    assert query.ongoing() == []


def test_a_driver_that_was_fenced_cannot_decide(query: Query) -> None:
    old = Driver(query.options, query.topic)
    protocol = commit_batch(0, [query.write("old", 0)])
    paused = stopping(protocol, Decide, after=False)
    old.run(paused)  # type: ignore[arg-type]  # It has the methods.
    query.commit(0, [query.write("new", 0)])

    def late() -> Iterator[Any]:
        yield Decide(Decision(0, ()))

    with pytest.raises(SupersededError, match="another run"):
        old.run(late())  # type: ignore[arg-type]  # It has the methods.
    assert query.visible() == rows(0)


def test_what_an_older_driver_is_about_to_abort_is_not_decided(query: Query) -> None:
    older = Driver(query.options, query.topic)
    newer = query.write("newer", 0)
    protocol = stopping(commit_batch(0, []), End, after=False)
    older.run(protocol)  # type: ignore[arg-type]  # It has the methods.
    with pytest.raises(LostTransactionError, match="another run of the query aborts it"):
        query.commit(0, [newer])

    def late() -> Iterator[Any]:
        yield End((newer,), is_commit=False)

    older.run(late())  # type: ignore[arg-type]  # It has the methods.
    assert query.ongoing() == []
    # Spark replays the batch in a run that the older driver knows nothing of.
    again = query.write("again", 0)
    older.run(late())  # type: ignore[arg-type]  # It has the methods.
    query.commit(0, [again])
    assert query.visible() == rows(0)


def test_a_late_abort_does_not_meet_a_newer_transaction_of_the_name(query: Query) -> None:
    first = query.write("run", 0)

    def late() -> Iterator[Any]:
        yield End((first,), is_commit=False)

    driver = Driver(query.options, query.topic)
    driver.run(late())  # type: ignore[arg-type]  # It has the methods.
    again = query.write("run", 4)
    assert again.transactional_id == first.transactional_id
    driver.run(late())  # type: ignore[arg-type]  # It has the methods.
    query.commit(4, [again])
    assert query.visible() == rows(4)


def test_a_task_whose_transaction_was_aborted_meanwhile_fails(query: Query) -> None:
    """Its other half would be a transaction of the same producer and epoch."""

    def swept_between() -> Iterator[pa.RecordBatch]:
        for partition in (0, 1):
            columns: dict[str, Any] = {
                "value": pa.array([b"half"], pa.binary()),
                "partition": pa.array([partition], pa.int32()),
            }
            yield pa.RecordBatch.from_pydict(columns)
            if partition == 0:
                assert wait_until(lambda: query.ongoing() != [], 30)
                query.commit(0, [])

    names = TaskNames(query.topic, "run", 0, 0, 0)
    with pytest.raises((LostTransactionError, KafkaError)):
        write_transaction(query.options, names, swept_between())
    assert query.ongoing() == []
    assert query.visible() == []


def test_an_abort_without_messages_ends_what_tasks_left_open(query: Query) -> None:
    query.write("run", 0)
    Driver(query.options, query.topic).run(abort_batch(0, [], has_lost_tasks=True))
    assert query.ongoing() == []
    query.commit(0, [query.write("again", 0)])
    assert query.visible() == rows(0)


def test_a_task_that_fails_leaves_nothing_open(query: Query) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array([b"x"], pa.binary())})
        raise RuntimeError("no more")

    names = TaskNames(query.topic, "run", 0, 0, 0)
    with pytest.raises(RuntimeError, match="no more"):
        write_transaction(query.options, names, failing())
    assert query.ongoing() == []
    assert write_transaction(query.options, names, iter([])) == (0, None)


def test_markers_that_take_too_long_are_told_and_the_batch_is_committed(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker is that slow on demand: transactions that are complete count as not yet so."""
    monkeypatch.setattr(module, "_ENDING", frozenset({"CompleteCommit", "PrepareCommit"}))
    monkeypatch.setattr(module, "SPARK_MARKERS_WAIT_MS", 50)
    entry = query.write("run", 0)
    told = rf"markers of 1 transaction \({re.escape(entry.transactional_id)}, .* after 50 ms"
    with pytest.warns(UserWarning, match=told):
        query.commit(0, [entry])
    # The decision stands, only the wait for the readers' sake was given up.
    assert wait_until(lambda: query.visible() == rows(0), 30)
    assert query.ongoing() == []
    monkeypatch.undo()
    query.commit(1, [query.write("run", 1)])
    assert query.visible() == rows(0, 1)


def test_a_broker_that_is_killed_before_a_batch_is_committed(
    tmp_path: Path, topic_name: str
) -> None:
    with BrokerProcess(tmp_path) as node, ThreadPoolExecutor(1) as pool:
        query = Query(node.bootstrap_servers, topic_name)
        query.commit(0, [query.write("run", 0)])
        entries = [query.write("run", 1), query.write("run", 1, task=1)]
        node.kill()
        committed = pool.submit(query.commit, 1, entries)
        node.start()
        committed.result(90)
        assert query.visible() == sorted([*rows(0), *rows(1, tasks=2)])
        assert query.ongoing() == []


def test_two_phase_transactions_have_no_timeout(tmp_path: Path, topic_name: str) -> None:
    override = "transaction.two.phase.commit.enable=true"
    with BrokerProcess(tmp_path, override) as node:
        query = Query(node.bootstrap_servers, topic_name)
        entries = [query.write("run", 0), query.write("run", 0, task=1)]
        with Admin({"bootstrap.servers": query.servers}) as admin:
            name = entries[0].transactional_id
            found = admin.run(lambda one: one.describe_transaction(name))
        assert found.timeout_ms == 2**31 - 1
        query.commit(0, entries)
        assert query.visible() == rows(0, tasks=2)
        # One that was left open is swept away as any other.
        query.write("killed", 1)
        query.commit(1, [query.write("run", 1)])
        assert query.visible() == sorted([*rows(0, tasks=2), *rows(1)])
        assert query.ongoing() == []
