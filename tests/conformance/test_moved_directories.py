"""Replicas that move between directories of a node that is Kaa and Apache Kafka by turns.

Either one finishes what the other has begun, and serves what the other has moved.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer

from kaa.client import NewTopic
from kaa.client.admin.configs import ConfigChange, ConfigOperation
from kaa.client.sync import Admin
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition
from tests.clients.librdkafka import assign_from_the_start, consumer, produce
from tests.clients.samples import SAMPLES
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.real_node import RealNode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle import Oracle

pytestmark = pytest.mark.oracle
KEY = TopicPartition("moved", 0)
# Logs of every kind move along with it.
COMPACTED = TopicPartition("compacted", 0)
TRIMMED = TopicPartition("trimmed", 0)
TRANSACTIONAL = TopicPartition("transactional", 0)
EMPTY = TopicPartition("empty", 0)
KEYS = (KEY, COMPACTED, TRIMMED, TRANSACTIONAL, EMPTY)
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
SECONDS_MAX = 120
BATCHES = 40
QUICK = "log.cleaner.backoff.ms=200"
TRANSACTIONS = {"transactional.id": "open", "transaction.timeout.ms": 900_000}

Places = dict[TopicPartition, str]
Contents = dict[TopicPartition, list[tuple[int, bytes | None, bytes | None]]]


def places(admin: Admin) -> dict[tuple[TopicPartition, bool], str]:
    """The directory of each replica, and of the one that is to take its place (by True)."""
    return {
        (replica.partition, replica.is_future): found.path
        for found in admin.describe_log_dirs()
        for replica in found.replicas
        if replica.partition in KEYS
    }


def begin_moves(bootstrap: str, paths: list[str]) -> Places:
    """Begins moves that do not end by themselves; the targets."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        throttle(admin, "1")
        sources = places(admin)
        targets = {key: next(path for path in paths if path != sources[key, False]) for key in KEYS}
        begun = admin.alter_replica_log_dirs({(1, key): path for key, path in targets.items()})
        assert begun == dict.fromkeys(((1, key) for key in KEYS), None)
        assert places(admin)[KEY, True] == targets[KEY]
    return targets


def throttle(admin: Admin, rate: str | None) -> None:
    operation = ConfigOperation.DELETE if rate is None else ConfigOperation.SET
    admin.alter_configs(ResourceType.BROKER, "1", [ConfigChange(THROTTLE, rate, operation)])


def finish_moves(bootstrap: str, targets: Places, expected: Contents) -> None:
    """The moves go on by themselves, and what was written is there."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        throttle(admin, None)
        wanted = {(key, False): path for key, path in targets.items()}
        assert wait_until(lambda: places(admin) == wanted, SECONDS_MAX), places(admin)
    found = contents(bootstrap)
    # Either cleaner may go on meanwhile.
    for one in (found, expected):
        one[COMPACTED] = list({record[1]: record for record in one[COMPACTED]}.values())
    assert found == expected


def contents(bootstrap: str) -> Contents:
    """What readers of committed records see: offsets, keys and values."""
    found: Contents = {}
    for key in KEYS:
        settings = {"isolation.level": "read_committed", "enable.partition.eof": True}
        with consumer(bootstrap, **settings) as reader:
            assign_from_the_start(reader, [key])
            records = found[key] = []
            while (message := reader.poll(SECONDS_MAX)) is not None and not message.error():
                records.append((message.offset(), message.key(), message.value()))
            assert message is not None, key
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
    return found


def fill(bootstrap: str) -> Any:
    """Writes all kinds; the producer of a transaction that stays open."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        quick = {"min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"}
        admin.create_topics(
            [
                NewTopic(KEY.topic, 1),
                NewTopic(COMPACTED.topic, 1, configs={"cleanup.policy": "compact", **quick}),
                *(NewTopic(key.topic, 1) for key in (TRIMMED, TRANSACTIONAL, EMPTY)),
            ]
        )
        for _ in range(BATCHES):
            produce(bootstrap, KEY.topic, SAMPLES)
            produce(bootstrap, TRIMMED.topic, SAMPLES)
        # In the middle of a batch.
        assert admin.delete_records({TRIMMED: 5 * len(SAMPLES) + 1})
        overwritten = Producer({"bootstrap.servers": bootstrap})
        for number in range(3 * 1024):
            overwritten.produce(COMPACTED.topic, os.urandom(1024), key=b"%d" % (number % 10))
        overwritten.flush()
        producer = Producer({"bootstrap.servers": bootstrap, **TRANSACTIONS})
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction, producer.flush):
            producer.begin_transaction()
            producer.produce(TRANSACTIONAL.topic, end.__name__.encode())
            producer.flush()
            end()
    assert wait_until(lambda: len(contents(bootstrap)[COMPACTED]) < 3 * 1024, SECONDS_MAX)
    return producer


def test_moves_are_finished_by_the_other_one(oracle: Oracle, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    dirs = ",".join(paths)
    with BrokerProcess(tmp_path / "node", f"log.dirs={dirs}", QUICK) as ours:
        open_transaction = fill(ours.bootstrap_servers)
        targets = begin_moves(ours.bootstrap_servers, paths)
        expected = contents(ours.bootstrap_servers)
        assert [value for _, _, value in expected[TRANSACTIONAL]] == [b"commit_transaction"]
        assert expected[TRIMMED][0][0] == 5 * len(SAMPLES) + 1
        ours.stop()
    with RealNode(tmp_path / "jvm", tmp_path / "one", log_dirs=dirs) as kafka:
        finish_moves(kafka.bootstrap_servers, targets, expected)
        produce(kafka.bootstrap_servers, KEY.topic, SAMPLES)
        targets = begin_moves(kafka.bootstrap_servers, paths)
        expected = contents(kafka.bootstrap_servers)
    with ours:
        finish_moves(ours.bootstrap_servers, targets, expected)
        ours.stop()
    del open_transaction
    folders = {name.name for path in paths for name in (tmp_path / path).glob("*-0*")}
    kept = {name for name in folders if not name.endswith("-delete") and not name.startswith("__")}
    assert kept == {str(key) for key in KEYS}
