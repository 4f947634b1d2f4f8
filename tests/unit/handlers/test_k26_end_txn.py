from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import (
    NAME,
    TOPIC,
    TransactionalProducer,
    fetch_committed,
)


@pytest.fixture
def coordinator(node: Node) -> Node:
    node.create_topic(TOPIC, 2)
    node.load_transactions()
    return node


def state(node: Node) -> str:
    (found,) = node.ask(DescribeTransactionsRequest(transactional_ids=[NAME])).transaction_states
    assert found.error_code == Errors.NONE
    name: str = found.transaction_state
    return name


@pytest.mark.parametrize("version", [0, 2])
def test_readers_see_what_was_committed(coordinator: Node, version: int) -> None:
    producer = TransactionalProducer(coordinator, version=version).started()
    assert producer.produce((TOPIC, 0), (TOPIC, 1)) is Errors.NONE
    assert state(coordinator) == "Ongoing"
    before = fetch_committed(coordinator)
    assert (before.last_stable_offset, before.high_watermark) == (0, 1)
    producer.finish()
    after = fetch_committed(coordinator)
    assert (after.last_stable_offset, after.high_watermark) == (2, 2)
    assert after.aborted_transactions == []
    assert state(coordinator) == "CompleteCommit"


@pytest.mark.parametrize("version", [0, 2])
def test_readers_are_told_of_aborts(coordinator: Node, version: int) -> None:
    producer = TransactionalProducer(coordinator, version=version).started()
    producer.produce()
    producer_id = producer.producer_id
    producer.finish(is_commit=False)
    found = fetch_committed(coordinator)
    (aborted,) = found.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (producer_id, 0)
    assert (found.last_stable_offset, state(coordinator)) == (2, "CompleteAbort")


def test_version_2_raises_the_epoch_with_every_end(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    for number in range(3):
        assert producer.epoch == number
        assert producer.produce() is Errors.NONE
        producer.finish(is_commit=number != 1)
    entry = coordinator.partition(TOPIC).online_log().producer_state.producers
    assert [(one.producer_id, one.epoch) for one in entry.values()] == [(producer.producer_id, 3)]


def test_older_versions_keep_the_epoch(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator, version=0).started()
    for _ in range(3):
        assert producer.produce() is Errors.NONE
        producer.finish()
    assert producer.epoch == 0


def test_a_retry_is_answered_as_the_first_attempt(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    producer.produce()
    request = EndTxnRequest(
        transactional_id=NAME,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    first = coordinator.ask(request)
    # The markers are not written yet.
    assert coordinator.ask(request).error_code in {
        Errors.NONE,
        Errors.CONCURRENT_TRANSACTIONS,
    }
    coordinator.run(coordinator.markers_written())
    again = coordinator.ask(request)
    assert (again.error_code, again.producer_epoch) == (Errors.NONE, first.producer_epoch) == (0, 1)
    request.committed = False
    assert coordinator.ask(request).error_code == Errors.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("version", "error"),
    [(0, Errors.INVALID_PRODUCER_EPOCH), (1, Errors.INVALID_PRODUCER_EPOCH)]
    + [(version, Errors.PRODUCER_FENCED) for version in (2, 3, 4, 5)],
)
def test_a_replaced_producer_is_told_as_its_version_knows_it(
    coordinator: Node, version: int, error: Errors
) -> None:
    old = TransactionalProducer(coordinator).started()
    old.produce()
    new = TransactionalProducer(coordinator).started()
    assert old.end(version=version) is error
    assert new.produce() is Errors.NONE
    new.finish()


@pytest.mark.parametrize("version", [0, 4, 5])
@pytest.mark.parametrize(
    ("name", "error"),
    [("", Errors.INVALID_REQUEST), ("nobody", Errors.INVALID_PRODUCER_ID_MAPPING)],
)
def test_unknown_transactions_are_refused(
    coordinator: Node, version: int, name: str, error: Errors
) -> None:
    request = EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=True)
    assert coordinator.ask(request, version).error_code == error


def test_without_a_transaction_only_version_2_aborts(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    assert producer.end(version=4) is Errors.INVALID_TXN_STATE
    assert producer.end(version=5) is Errors.INVALID_TXN_STATE
    assert producer.end(is_commit=False, version=5) is Errors.NONE
    coordinator.run(coordinator.markers_written())
    assert (producer.epoch, state(coordinator)) == (1, "CompleteAbort")


def test_a_coordinator_that_is_loading_says_so(node: Node) -> None:
    node.create_topic("__transaction_state", 1)
    request = EndTxnRequest(transactional_id=NAME, producer_id=1, producer_epoch=0, committed=True)
    assert node.ask(request).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS


def test_somebody_else_coordinates(node: Node) -> None:
    request = EndTxnRequest(transactional_id=NAME, producer_id=1, producer_epoch=0, committed=True)
    assert node.ask(request).error_code == Errors.NOT_COORDINATOR


def test_offsets_count_when_the_transaction_commits(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    assert producer.commit_offset("g", TOPIC, 5) is Errors.NONE
    producer.finish()
    assert producer.commit_offset("g", TOPIC, 9) is Errors.NONE
    producer.finish(is_commit=False)
    machine = next(
        shard.machine
        for shard in coordinator.services.groups.runtime
        if shard.partition.number == coordinator.services.groups.partition_for("g")
    )
    offsets = machine.offsets.of_group("g")
    assert offsets is not None
    assert [one.offset for one in offsets.values()] == [5]
    assert machine.offsets.pending_of("g") == set()
