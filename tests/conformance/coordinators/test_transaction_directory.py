"""A transaction that one of Kaa and Apache Kafka begins, and the other ends, on one directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.clients.librdkafka import create_topic
from tests.oracle import Oracle
from tests.oracle.environment import wait_until
from tests.process.test_transaction_kills import committed_offset, producers_of_committed
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.support.real_node import RealNode
from tests.unit.handlers.transaction_requests import (
    NAME,
    TOPIC,
    LiveNode,
    TransactionalProducer,
)

pytestmark = pytest.mark.oracle

GROUP = "g"


def until(attempt: Callable[[], Errors]) -> None:
    """Tries until it succeeds: coordinators have to be found and loaded."""
    assert wait_until(lambda: attempt() is Errors.NONE, PATIENCE_SECONDS)


def wait_for_coordinators(client: RawClient) -> None:
    for key_type in (0, 1):

        def found(key_type: int = key_type) -> Errors:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[NAME])
            return Errors.of(client.ask(request).coordinators[0].error_code)

        until(found)


def begin(
    bootstrap: str, known: TransactionalProducer | None, offset: int
) -> TransactionalProducer:
    """Opens a transaction with a record and an offset; goes on as the producer that is known."""
    with RawClient(bootstrap) as client:
        wait_for_coordinators(client)
        producer = TransactionalProducer(LiveNode(client))
        if known is None:
            until(producer.init)
        else:
            producer.producer_id, producer.epoch = known.identity
        until(lambda: producer.send(TOPIC, 0))
        until(lambda: producer.commit_offset(GROUP, TOPIC, offset))
    return producer


def end(bootstrap: str, known: TransactionalProducer, *, is_commit: bool) -> TransactionalProducer:
    """Ends the transaction that was found, and waits for its markers."""
    with RawClient(bootstrap) as client:
        wait_for_coordinators(client)
        producer = TransactionalProducer(LiveNode(client))
        producer.producer_id, producer.epoch = known.identity
        until(lambda: producer.end(is_commit=is_commit))
        request = DescribeTransactionsRequest(transactional_ids=[NAME])

        def is_complete() -> bool:
            (found,) = client.ask(request).transaction_states
            return bool(found.transaction_state.startswith("Complete"))

        assert wait_until(is_complete, PATIENCE_SECONDS)
    return producer


def test_what_one_begins_the_other_ends(oracle: Oracle, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "node") as ours:
        create_topic(ours.bootstrap_servers, TOPIC)
        producer = begin(ours.bootstrap_servers, None, 5)
        ours.kill()
    with RealNode(tmp_path / "jvm", tmp_path / "node" / "data") as kafka:
        bootstrap = kafka.bootstrap_servers
        producer = end(bootstrap, producer, is_commit=True)
        assert len(producers_of_committed(bootstrap, 0)) == 1
        assert committed_offset(bootstrap, GROUP) == 5
        # Kafka's turn to leave one open.
        producer = begin(bootstrap, producer, 9)
    with ours:
        bootstrap = ours.bootstrap_servers
        producer = end(bootstrap, producer, is_commit=False)
        assert len(producers_of_committed(bootstrap, 0)) == 1
        assert committed_offset(bootstrap, GROUP) == 5
        producer = begin(bootstrap, producer, 11)
        end(bootstrap, producer, is_commit=True)
        assert len(producers_of_committed(bootstrap, 0)) == 2
        assert committed_offset(bootstrap, GROUP) == 11
        ours.stop()
