"""The coordinator on a real node in memory; its rules are tested with the machine."""

from __future__ import annotations

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction.machine import Initialisation, ProducerIdAndEpoch
from kaa.wire.errors import Errors
from tests.unit.handlers.support import Node


def test_the_coordinator_of_a_name_is_where_kafka_puts_it() -> None:
    with Node() as node:
        # 50 partitions, as long as the topic does not exist.
        assert node.services.transactions.partition_for("a") == ord("a") % 50
        node.create_topic("__transaction_state", 7)
        assert node.services.transactions.partition_for("a") == ord("a") % 7


def test_ids_come_from_the_controller() -> None:
    with Node() as node:
        node.load_transactions()
        found = [
            node.run(node.services.transactions.init_producer(Initialisation(name, 1_000)))
            for name in ("a", "b", "a")
        ]
        assert found == [
            ProducerIdAndEpoch(0, 0),
            ProducerIdAndEpoch(1, 0),
            ProducerIdAndEpoch(0, 1),
        ]


def test_a_controller_that_gives_no_ids() -> None:
    with Node() as node:
        node.load_transactions()
        node.lifecycle._machine.broker_epoch += 1
        with pytest.raises(CoordinatorError) as refused:
            node.run(node.services.transactions.init_producer(Initialisation("a", 1_000)))
        assert refused.value.error is Errors.COORDINATOR_LOAD_IN_PROGRESS


def test_shards_that_are_not_here() -> None:
    with Node() as node:
        coordinator = node.services.transactions
        assert coordinator.describe("a").error_code == Errors.NOT_COORDINATOR
        names = frozenset({("t", 0)})
        added = node.run(coordinator.add_partitions("a", (1, 0), names, 2))
        assert added is Errors.NOT_COORDINATOR
        verified = node.run(coordinator.verify_partitions("a", (1, 0), names))
        assert verified == {("t", 0): Errors.NOT_COORDINATOR}
