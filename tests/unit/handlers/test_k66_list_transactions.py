from __future__ import annotations

from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import TOPIC, TransactionalProducer


@pytest.fixture
def coordinator(node: Node) -> Node:
    """`a` is open, `b` is done, `c` did nothing."""
    node.create_topic(TOPIC, 1)
    node.load_transactions()
    TransactionalProducer(node, "a").started().produce()
    done = TransactionalProducer(node, "b").started()
    done.produce()
    done.finish()
    TransactionalProducer(node, "c").started()
    return node


def listed(node: Node, version: int = 2, **fields: Any) -> dict[str, str]:
    answer = node.ask(ListTransactionsRequest(**fields), version)
    assert answer.error_code == Errors.NONE
    assert answer.unknown_state_filters == []
    return {one.transactional_id: one.transaction_state for one in answer.transaction_states}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_everything(coordinator: Node, version: int) -> None:
    assert listed(coordinator, version) == {"a": "Ongoing", "b": "CompleteCommit", "c": "Empty"}


def test_filters(coordinator: Node) -> None:
    assert set(listed(coordinator, state_filters=["Ongoing", "Empty"])) == {"a", "c"}
    assert set(listed(coordinator, producer_id_filters=[1])) == {"b"}
    assert set(listed(coordinator, transactional_id_pattern="[ab]")) == {"a", "b"}
    assert set(listed(coordinator, transactional_id_pattern="")) == {"a", "b", "c"}
    # Those that never began are older than anything, as with Kafka.
    assert set(listed(coordinator, duration_filter=0)) == {"c"}
    assert set(listed(coordinator, state_filters=["Ongoing"], producer_id_filters=[1])) == set()


def test_a_state_that_there_is_not(coordinator: Node) -> None:
    answer = coordinator.ask(ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"]))
    assert answer.unknown_state_filters == ["Sleeping"]
    assert [one.transactional_id for one in answer.transaction_states] == ["a"]


def test_a_pattern_that_is_none(coordinator: Node) -> None:
    answer = coordinator.ask(ListTransactionsRequest(transactional_id_pattern="("))
    assert answer.error_code == Errors.INVALID_REGULAR_EXPRESSION


def test_a_coordinator_that_is_loading(node: Node) -> None:
    node.create_topic("__transaction_state", 1)
    answer = node.ask(ListTransactionsRequest())
    assert answer.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS
