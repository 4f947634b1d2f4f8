"""Transactional producers of every client library against a running node.

Java speaks transaction version 2 (KIP-890), the others the versions before.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from kaa.handlers.registry import Router
from kaa.wire.frames import read_request_header
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from kaa.wire.registry import ApiKey
from tests.clients.kafka_python import KafkaProducer
from tests.clients.librdkafka import create_topic
from tests.oracle import Oracle
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import broker_thread
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient

PARTITIONS = 3
TRANSACTIONS = 6


def values(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[str]:
    """What a reader finds in all partitions, in any order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader of {topic}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found, ended = [], 0
        while ended < PARTITIONS:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None, "the node does not answer"
            error = message.error()
            if error is None:
                found.append((message.value() or b"").decode())
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ended += 1
    finally:
        consumer.close()
    return sorted(found)


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_SECONDS)
    finally:
        consumer.close()
    offset: int = found.offset
    return offset


def expected(transactions: int = TRANSACTIONS) -> list[str]:
    """Every second transaction is aborted."""
    return sorted(f"{n}-{p}" for n in range(0, transactions, 2) for p in range(PARTITIONS))


def librdkafka(bootstrap: str, topic: str, name: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(PATIENCE_SECONDS)
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, f"{number}-{partition}".encode(), partition=partition)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, number)], reader.consumer_group_metadata(), PATIENCE_SECONDS
        )
        if number % 2 == 0:
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.flush(PATIENCE_SECONDS)
            producer.abort_transaction(PATIENCE_SECONDS)
    reader.close()


def kafka_python(bootstrap: str, topic: str, name: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        sent = [
            producer.send(topic, f"{number}-{partition}".encode(), partition=partition)
            for partition in range(PARTITIONS)
        ]
        for future in sent:
            future.get(PATIENCE_SECONDS)
        if number % 2 == 0:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close(PATIENCE_SECONDS)


def aiokafka(bootstrap: str, topic: str, name: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        try:
            for number in range(TRANSACTIONS):
                await producer.begin_transaction()
                for partition in range(PARTITIONS):
                    value = f"{number}-{partition}".encode()
                    await producer.send_and_wait(topic, value, partition=partition)
                offsets = {AioTopicPartition(topic, 0): number}
                await producer.send_offsets_to_transaction(offsets, name)
                if number % 2 == 0:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


@pytest.mark.parametrize("produce", [librdkafka, kafka_python, aiokafka])
def test_transactions_of_version_1(
    bootstrap: str, topic: str, produce: Callable[[str, str, str], None]
) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    produce(bootstrap, topic, topic)
    assert values(bootstrap, topic) == expected()
    everything = values(bootstrap, topic, "read_uncommitted")
    assert len(everything) == TRANSACTIONS * PARTITIONS
    if produce is not kafka_python:
        assert committed_offset(bootstrap, topic, topic) == TRANSACTIONS - 2


def java(oracle: Oracle, bootstrap: str, name: str, *steps: tuple[Any, ...]) -> list[str]:
    item = {
        "settings": {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": "0"},
        "steps": [list(step) for step in steps],
    }
    answers: list[str] = oracle.jvm.call_one("transactions.run", item)
    return answers


def run_java(oracle: Oracle, bootstrap: str, topic: str) -> None:
    """As the other libraries do it."""
    steps: list[tuple[Any, ...]] = [("p", "init")]
    for number in range(TRANSACTIONS):
        steps.append(("p", "begin"))
        steps += [("p", "send", topic, p, f"{number}-{p}") for p in range(PARTITIONS)]
        steps.append(("p", "offsets", topic, topic, 0, number))
        steps.append(("p", "commit" if number % 2 == 0 else "abort"))
    assert java(oracle, bootstrap, topic, *steps) == ["ok"] * len(steps)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[int, set[int]]:
    """The versions of requests to nodes within this process, by API key."""
    versions: dict[int, set[int]] = defaultdict(set)
    answer = Router.__call__

    def noted(self: Router, connection: Any, frame: memoryview) -> Any:
        header = read_request_header(frame)
        versions[header.api_key].add(header.api_version)
        return answer(self, connection, frame)

    monkeypatch.setattr(Router, "__call__", noted)
    return versions


@pytest.mark.oracle
def test_java_speaks_version_2(
    oracle: Oracle, asked: dict[int, set[int]], tmp_path: Path, topic: str
) -> None:
    with broker_thread(tmp_path / "data") as node:
        create_topic(node.bootstrap_servers, topic, PARTITIONS)
        with RawClient(node.bootstrap_servers) as client:
            asking = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            features = client.ask(asking, 4).finalized_features
        asked.clear()
        run_java(oracle, node.bootstrap_servers, topic)
    levels = {feature.name: feature.max_version_level for feature in features}
    assert levels["transaction.version"] == 2
    assert min(asked[ApiKey.PRODUCE]) >= 12
    assert asked[ApiKey.TXN_OFFSET_COMMIT] == asked[ApiKey.END_TXN] == {5}
    # The leader of a partition and the coordinator of a group add what is written.
    assert ApiKey.ADD_PARTITIONS_TO_TXN not in asked
    assert ApiKey.ADD_OFFSETS_TO_TXN not in asked


def test_librdkafka_speaks_the_version_before(
    asked: dict[int, set[int]], tmp_path: Path, topic: str
) -> None:
    with broker_thread(tmp_path / "data") as node:
        create_topic(node.bootstrap_servers, topic, PARTITIONS)
        asked.clear()
        librdkafka(node.bootstrap_servers, topic, topic)
    assert max(asked[ApiKey.PRODUCE]) < 12
    assert max(asked[ApiKey.END_TXN]) < 5
    assert max(asked[ApiKey.TXN_OFFSET_COMMIT]) < 5
    assert asked[ApiKey.ADD_PARTITIONS_TO_TXN]
    assert asked[ApiKey.ADD_OFFSETS_TO_TXN]


@pytest.mark.oracle
def test_transactions_of_version_2(oracle: Oracle, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    run_java(oracle, bootstrap, topic)
    assert values(bootstrap, topic) == expected()
    assert committed_offset(bootstrap, topic, topic) == TRANSACTIONS - 2
    # What tells the versions apart: every end has raised the epoch.
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(range(PARTITIONS)))]
    )
    with RawClient(bootstrap) as client:
        (found,) = client.ask(request).topics
    epochs = [one.producer_epoch for part in found.partitions for one in part.active_producers]
    assert epochs == [TRANSACTIONS] * PARTITIONS


@pytest.mark.oracle
def test_java_is_fenced_by_the_next_instance(oracle: Oracle, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    answers = java(
        oracle,
        bootstrap,
        topic,
        ("old", "init"),
        ("old", "begin"),
        ("old", "send", topic, 0, "lost"),
        ("new", "init"),
        ("new", "begin"),
        ("new", "send", topic, 0, "kept"),
        ("new", "commit"),
        ("old", "commit"),
    )
    assert answers == ["ok"] * 7 + ["ProducerFencedException"]
    assert values(bootstrap, topic) == ["kept"]


def test_librdkafka_is_fenced_by_the_next_instance(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": topic}
    old, new = Producer(settings), Producer(settings)
    old.init_transactions(PATIENCE_SECONDS)
    old.begin_transaction()
    old.produce(topic, b"lost", partition=0)
    old.flush(PATIENCE_SECONDS)
    new.init_transactions(PATIENCE_SECONDS)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(PATIENCE_SECONDS)
    assert refused.value.args[0].code() in {KafkaError._FENCED, KafkaError.PRODUCER_FENCED}
    new.begin_transaction()
    new.produce(topic, b"kept", partition=0)
    new.commit_transaction(PATIENCE_SECONDS)
    assert values(bootstrap, topic) == ["kept"]


def test_a_transaction_that_runs_out_of_time_is_aborted(own_broker: BrokerProcess) -> None:
    own_broker.kill()
    own_broker.overrides = ("transaction.abort.timed.out.transaction.cleanup.interval.ms=50",)
    own_broker.start()
    bootstrap, topic = own_broker.bootstrap_servers, "late"
    create_topic(bootstrap, topic, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "late",
            "transaction.timeout.ms": 1_000,
        }
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0)
    producer.flush(PATIENCE_SECONDS)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def is_over() -> bool:
        asked = {TopicPartition(topic, 0): OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        (answer,) = admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED
        ).values()
        offset: int = answer.result().offset
        return offset == 2

    assert wait_until(is_over, PATIENCE_SECONDS)
    assert values(bootstrap, topic) == []
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_SECONDS)


def test_version_6_of_init_producer_id_is_for_two_phase_commit(own_broker: BrokerProcess) -> None:
    def advertised() -> tuple[int, int]:
        with RawClient(own_broker.bootstrap_servers) as client:
            keys = client.ask(ApiVersionsRequest(), 0).api_keys
        (found,) = [one for one in keys if one.api_key == ApiKey.INIT_PRODUCER_ID]
        return found.min_version, found.max_version

    assert advertised() == (0, 5)
    own_broker.kill()
    own_broker.overrides = ("transaction.two.phase.commit.enable=true",)
    own_broker.start()
    assert advertised() == (0, 6)
