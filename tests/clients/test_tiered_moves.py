"""A tiered topic moves between the directories of its broker: its tail alone is copied, and the
history in the store stays readable, meanwhile, afterwards and after a restart.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from kaa.log.leader_epochs import EpochEntry
from kaa.model.topics import TopicPartition
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from tests.support.broker_thread import BrokerThread, broker_thread
from tests.support.pace import PATIENCE_SECONDS
from tests.support.tiered import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST_TIERED,
    ONE_REPLICA,
    QUICK,
    fill,
    make_topic,
    offset_of,
    read,
    until,
    value,
    wait_until_tiered,
)

COUNT = 1_500
TOPIC = "history"
KEY = TopicPartition(TOPIC, 0)


def settings(folder: Path) -> tuple[str, ...]:
    directories = ",".join(str(folder / name) for name in ("one", "two"))
    return (
        *QUICK,
        *ONE_REPLICA,
        f"log.dirs={directories}",
        f"rsm.config.url={(folder / 'store').as_uri()}",
    )


def partition(node: BrokerThread) -> Partition:
    found = node.broker.services.replicas.find(*KEY)
    assert isinstance(found, Partition), found
    return found


class Facts(NamedTuple):
    """What the disk tells of the records that are not on it."""

    bounds: tuple[int, int, int]
    epochs: list[EpochEntry]
    sequences: dict[int, int]


def facts(node: BrokerThread) -> Facts:
    def look() -> Facts:
        log = partition(node).online_log()
        producers = log.producer_state.producers
        return Facts(
            (log.log_start_offset, log.local_log_start_offset, log.log_end_offset),
            log.leader_epochs.entries,
            {key: entry.last_sequence for key, entry in producers.items()},
        )

    return node.call(look)


def write_as_idempotent_producer(servers: str) -> None:
    """Its records are in the store alone before long, and its state is wherever the log is."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    producer.produce(TOPIC, value=value(0), partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def move(node: BrokerThread) -> str:
    """Begins to move the log to the other directory, and holds the move before its end."""

    def begin() -> str:
        replicas, log = node.broker.services.replicas, partition(node).online_log()
        log.is_cleaning = True
        target = next(each for each in replicas.logs.directories if each is not log.directory)
        assert replicas.moves is not None
        assert replicas.moves.alter(KEY, target.path, partition(node)) is Errors.NONE
        return target.path

    return node.call(begin)


def copied(node: BrokerThread) -> int:
    return node.broker.services.logs.futures.logs[KEY].log_end_offset


def check_history(servers: str, local: int) -> None:
    assert read(servers, TOPIC, 0, 2 * COUNT) == [value(number) for number in range(2 * COUNT)]
    assert offset_of(servers, TOPIC, EARLIEST) == 0
    assert offset_of(servers, TOPIC, EARLIEST_LOCAL) == local
    assert offset_of(servers, TOPIC, LATEST_TIERED) == local - 1


def test_history_is_readable_wherever_its_tail_is(tmp_path: Path) -> None:
    with broker_thread(tmp_path / "node", *settings(tmp_path)) as node:
        make_topic(node.bootstrap_servers, TOPIC)
        write_as_idempotent_producer(node.bootstrap_servers)
        fill(node.bootstrap_servers, TOPIC, COUNT - 1, 1)
    # A second leader epoch, so that the first one is of remote records alone.
    with broker_thread(tmp_path / "node", *settings(tmp_path)) as node:
        servers = node.bootstrap_servers
        fill(servers, TOPIC, COUNT, COUNT)
        local = wait_until_tiered(servers, TOPIC)
        before, source = facts(node), partition(node).online_log()
        assert before.sequences
        assert len(before.epochs) > 1
        target = move(node)
        until(lambda: copied(node) == source.log_end_offset, "all is copied")
        check_history(servers, local)
        node.call(lambda: setattr(source, "is_cleaning", False))
        until(lambda: partition(node).online_log().directory.path == target, "it has moved")
        assert facts(node) == before
        check_history(servers, local)
        assert not list(tmp_path.glob("*/*-future"))
    with broker_thread(tmp_path / "node", *settings(tmp_path)) as node:
        servers = node.bootstrap_servers
        assert partition(node).online_log().directory.path == target
        after = facts(node)
        assert (after.bounds, after.sequences) == (before.bounds, before.sequences)
        assert after.epochs[: len(before.epochs)] == before.epochs
        # The broker reads what it has in remote storage while it serves already.
        until(lambda: offset_of(servers, TOPIC, LATEST_TIERED) == local - 1, "the tier is known")
        check_history(servers, local)
        # The log goes on, and so does its way to the store.
        fill(servers, TOPIC, COUNT, 2 * COUNT)
        until(lambda: offset_of(servers, TOPIC, EARLIEST_LOCAL) > 2 * COUNT, "it is tiered on")
        numbers = range(local - 20, 3 * COUNT)
        assert read(servers, TOPIC, local - 20, 3 * COUNT) == [value(number) for number in numbers]
