"""The coordinator on a real node in memory; its rules are tested with the machine."""

from __future__ import annotations

import pytest

from kaa.coordinators.transaction import markers
from kaa.coordinators.transaction.machine import End, Initialisation, ProducerIdAndEpoch
from kaa.handlers.context import response_of
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from tests.unit.handlers.support import Node


def test_the_coordinator_of_a_name_is_where_kafka_puts_it() -> None:
    with Node() as node:
        # 50 partitions, as long as the topic does not exist.
        assert node.services.transactions.partition_for("a") == ord("a") % 50
        node.create_topic("__transaction_state", 7)
        assert node.services.transactions.partition_for("a") == ord("a") % 7


def init(node: Node, name: str) -> ProducerIdAndEpoch | Errors:
    found = node.services.transactions.init_producer(
        Initialisation(name, 1_000), lambda refusal: refusal.error, lambda answer: answer
    )
    outcome: ProducerIdAndEpoch | Errors = node.run(response_of(Pending(found)))
    return outcome


def test_ids_come_from_the_controller() -> None:
    with Node() as node:
        node.load_transactions()
        assert [init(node, name) for name in ("a", "b", "a")] == [
            ProducerIdAndEpoch(0, 0),
            ProducerIdAndEpoch(1, 0),
            ProducerIdAndEpoch(0, 1),
        ]


def test_a_controller_that_gives_no_ids() -> None:
    with Node() as node:
        node.load_transactions()
        node.lifecycle._machine.broker_epoch += 1
        assert init(node, "a") is Errors.COORDINATOR_LOAD_IN_PROGRESS


def test_while_too_many_wait_for_their_markers_no_more_are_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Node() as node:
        node.load_transactions()
        producer = init(node, "a")
        assert isinstance(producer, ProducerIdAndEpoch)
        monkeypatch.setattr(markers, "TRANSACTION_DECISIONS_UNDER_WAY_MAX", 0)
        wish = End("a", producer.producer_id, producer.producer_epoch, is_commit=True, version=2)
        ended = node.services.transactions.end(
            wish, lambda refusal: refusal.error, lambda _: Errors.NONE
        )
        assert node.run(response_of(Pending(ended))) is Errors.COORDINATOR_NOT_AVAILABLE
        assert init(node, "a") is Errors.COORDINATOR_NOT_AVAILABLE


def test_shards_that_are_not_here() -> None:
    with Node() as node:
        coordinator = node.services.transactions
        assert init(node, "a") is Errors.NOT_COORDINATOR
        names = frozenset({("t", 0)})
        added = node.run(
            response_of(
                Pending(coordinator.add_partitions("a", (1, 0), names, 2, lambda error: error))
            )
        )
        assert added is Errors.NOT_COORDINATOR
        verified = node.run(response_of(Pending(coordinator.verify_partitions("a", (1, 0), names))))
        assert verified == {("t", 0): Errors.NOT_COORDINATOR}


def test_a_transaction_without_a_name_is_no_wish() -> None:
    with Node() as node:
        coordinator = node.services.transactions
        names = frozenset({("t", 0)})
        added = node.run(
            response_of(
                Pending(coordinator.add_partitions("", (1, 0), names, 2, lambda error: error))
            )
        )
        assert added is Errors.INVALID_REQUEST
        verified = node.run(response_of(Pending(coordinator.verify_partitions("", (1, 0), names))))
        assert verified == {("t", 0): Errors.INVALID_REQUEST}
