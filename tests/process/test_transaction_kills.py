"""A running node is killed while many transactions end; the next one finishes what was decided."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.clients.librdkafka import create_topic
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient, request_frame
from tests.unit.handlers.transaction_requests import (
    TOPIC,
    LiveNode,
    TransactionalProducer,
)

PARTITIONS = 3
TRANSACTIONS = 24
# How long all the ends together take.
END_SECONDS_MAX = 0.03
END_VERSION = 5


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "node") as running:
        yield running


def wait_for_coordinators(client: RawClient) -> None:
    for key_type in (0, 1):

        def is_there(key_type: int = key_type) -> bool:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            return bool(client.ask(request).coordinators[0].error_code == Errors.NONE)

        assert wait_until(is_there, PATIENCE_SECONDS)


def states(client: RawClient, names: list[str]) -> dict[str, str]:
    found = client.ask(DescribeTransactionsRequest(transactional_ids=names)).transaction_states
    return {one.transactional_id: one.transaction_state for one in found}


def open_transaction(client: RawClient, name: str) -> TransactionalProducer:
    producer = TransactionalProducer(LiveNode(client), name)

    def is_started() -> bool:
        return producer.init() is Errors.NONE

    assert wait_until(is_started, PATIENCE_SECONDS)
    for number in range(PARTITIONS):
        assert producer.send(TOPIC, number) is Errors.NONE
    assert producer.commit_offset(f"group of {name}", TOPIC, 7) is Errors.NONE
    return producer


def end_all(
    node: BrokerProcess, producers: list[TransactionalProducer], random: Random
) -> tuple[dict[str, bool], set[str]]:
    """Asks for all the ends at once and kills the node; what was asked for, and answered."""
    wishes = {producer.name: random.random() < 0.5 for producer in producers}
    told = set()
    with ExitStack() as stack:
        clients = {}
        for producer in producers:
            client = stack.enter_context(RawClient(node.bootstrap_servers))
            clients[producer.name] = client
        for producer in producers:
            request = EndTxnRequest(
                transactional_id=producer.name,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=wishes[producer.name],
            )
            clients[producer.name].send(request_frame(request, END_VERSION))
        time.sleep(random.random() * END_SECONDS_MAX)  # noqa: TID251  When is up to chance.
        node.kill()
        for name, client in clients.items():
            try:
                frame = client.receive_frame()
            except (EOFError, ConnectionResetError):
                continue
            # After the correlation id and the tagged fields of the header.
            if EndTxnResponse.decode(frame[5:], END_VERSION).error_code == Errors.NONE:
                told.add(name)
    return wishes, told


def producers_of_committed(bootstrap: str, number: int) -> list[bytes | None]:
    """Read as a client reads committed data."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, number, 0)])
        found: list[bytes | None] = []
        while True:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return found
            found.append(message.value())
    finally:
        consumer.close()


def committed_offset(bootstrap: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=PATIENCE_SECONDS)
    finally:
        consumer.close()
    offset: int = found.offset
    return offset


@pytest.mark.parametrize("seed", range(3))
def test_what_was_decided_holds_everywhere(node: BrokerProcess, seed: int) -> None:
    random = Random(seed)
    create_topic(node.bootstrap_servers, TOPIC, PARTITIONS)
    names = [f"transaction-{number}" for number in range(TRANSACTIONS)]
    with RawClient(node.bootstrap_servers) as client:
        wait_for_coordinators(client)
        producers = [open_transaction(client, name) for name in names]
    wishes, told = end_all(node, producers, random)
    node.start()
    with RawClient(node.bootstrap_servers) as client:
        wait_for_coordinators(client)

        def are_settled() -> bool:
            found = set(states(client, names).values())
            return found <= {"Ongoing", "CompleteCommit", "CompleteAbort"}

        assert wait_until(are_settled, PATIENCE_SECONDS)
        found = states(client, names)
        for name, state in found.items():
            if state == "Ongoing":
                assert name not in told, f"seed {seed}: {name} was told and forgotten"
                assert wait_until(
                    lambda name=name: (
                        TransactionalProducer(LiveNode(client), name).init()  # type: ignore[misc]
                        is Errors.NONE
                    ),
                    PATIENCE_SECONDS,
                )
            else:
                assert state == ("CompleteCommit" if wishes[name] else "CompleteAbort")
    committed = [name for name, state in found.items() if state == "CompleteCommit"]
    for number in range(PARTITIONS):
        assert len(producers_of_committed(node.bootstrap_servers, number)) == len(committed)
    for name in names:
        offset = committed_offset(node.bootstrap_servers, f"group of {name}")
        assert offset == (7 if name in committed else -1001)
    node.check_health()
