from __future__ import annotations

from kaa.handlers.k65_describe_transactions import describe
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.unit.coordinators.transaction.bench import FIRST_ID, TransactionBench
from tests.unit.handlers.support import NOW_MS, Node
from tests.unit.handlers.transaction_requests import NAME, TOPIC, TransactionalProducer


def test_states_are_described(node: Node) -> None:
    node.create_topic(TOPIC, 3)
    node.load_transactions()
    producer = TransactionalProducer(node).started()
    producer.produce((TOPIC, 2), (TOPIC, 0))
    request = DescribeTransactionsRequest(transactional_ids=[NAME, "nobody", ""])
    found, missing, unnamed = node.ask(request).transaction_states
    assert (found.error_code, found.transaction_state) == (Errors.NONE, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer.identity
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (60_000, NOW_MS)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [(TOPIC, [0, 2])]
    assert missing.error_code == Errors.TRANSACTIONAL_ID_NOT_FOUND
    assert unnamed.error_code == Errors.INVALID_REQUEST
    producer.finish()
    (found, *_) = node.ask(request).transaction_states
    assert (found.transaction_state, found.topics) == ("CompleteCommit", [])


def test_a_coordinator_that_is_loading(node: Node) -> None:
    node.create_topic("__transaction_state", 1)
    request = DescribeTransactionsRequest(transactional_ids=[NAME])
    (found,) = node.ask(request).transaction_states
    assert found.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS


def test_a_transaction_that_was_taken_over_shows_its_new_producer() -> None:
    bench = TransactionBench(two_phase_enable=True)
    bench.init()
    bench.add((FIRST_ID, 0), 0)
    bench.init(keeps_prepared=True)
    found = finish(describe(NAME, bench.transaction))
    assert (found.producer_id, found.producer_epoch) == (FIRST_ID, 1)
