from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import (
    NAME,
    TOPIC,
    TransactionalProducer,
    fetch_committed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.serving.producer_ids import ProducerIds


class Ids:
    """Gives 7, 8, 9, ... or an error."""

    def __init__(self) -> None:
        self.last = 6
        self.error: Errors | None = None

    async def next_id(self) -> int | Errors:
        if self.error is not None:
            return self.error
        self.last += 1
        return self.last


@pytest.fixture
def ids(node: Node) -> Ids:
    found = Ids()
    node.services = replace(node.services, producer_ids=cast("ProducerIds", found))
    return found


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_idempotent_producer_gets_an_id_of_its_own(node: Node, ids: Ids, version: int) -> None:
    answer = node.ask(InitProducerIdRequest(transactional_id=None), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 7, 0)


def test_error_of_the_controller_is_passed_on(node: Node, ids: Ids) -> None:
    ids.error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    answer = node.ask(InitProducerIdRequest(transactional_id=None), 5)
    assert answer.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert answer.producer_id == -1


def test_half_an_id_is_refused(node: Node, ids: Ids) -> None:
    request = InitProducerIdRequest(transactional_id=None, producer_id=5)
    assert node.ask(request, 5).error_code == Errors.INVALID_REQUEST


def test_an_empty_name_is_refused(node: Node, ids: Ids) -> None:
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1_000)
    assert node.ask(request, 5).error_code == Errors.INVALID_REQUEST


def test_somebody_else_coordinates(node: Node, ids: Ids) -> None:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000)
    assert node.ask(request, 5).error_code == Errors.NOT_COORDINATOR


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_each_instance_gets_a_higher_epoch(node: Node, version: int) -> None:
    node.load_transactions()
    first = TransactionalProducer(node)
    assert first.init(version) is Errors.NONE
    second = TransactionalProducer(node)
    assert second.init(version) is Errors.NONE
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1) == (0, 1)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_timeouts_have_bounds(node: Node, timeout_ms: int) -> None:
    node.load_transactions()
    error = TransactionalProducer(node).init(transaction_timeout_ms=timeout_ms)
    assert error is Errors.INVALID_TRANSACTION_TIMEOUT


def test_what_was_left_open_is_aborted(node: Node) -> None:
    node.create_topic(TOPIC, 2)
    node.load_transactions()
    old = TransactionalProducer(node).started()
    old.produce()
    new = TransactionalProducer(node)
    assert new.init() is Errors.CONCURRENT_TRANSACTIONS
    node.run(node.markers_written())
    assert new.init() is Errors.NONE
    assert new.epoch == old.epoch + 2
    assert fetch_committed(node).last_stable_offset == 2
    assert old.produce() is Errors.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("version", "error"), [(3, Errors.INVALID_PRODUCER_EPOCH), (4, Errors.PRODUCER_FENCED)]
)
def test_recovery_continues_only_for_the_newest(node: Node, version: int, error: Errors) -> None:
    node.load_transactions()
    producer = TransactionalProducer(node).started()
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert producer.init(version, **known) is Errors.NONE
    assert producer.epoch == 1
    # The answer was lost: the same is asked again.
    assert producer.init(version, **known) is Errors.NONE
    assert producer.epoch == 1
    TransactionalProducer(node).started()
    assert producer.init(version, **known) is error
    assert producer.init(version, producer_id=77, producer_epoch=0) is error


def test_an_exhausted_epoch_gives_another_id(node: Node) -> None:
    node.create_topic(TOPIC, 1)
    node.load_transactions()
    producer = TransactionalProducer(node).started()
    shard = next(
        shard
        for shard in node.services.transactions.runtime
        if shard.machine.transactions.get(NAME) is not None
    )
    known = shard.machine.transactions[NAME]
    shard.machine.transactions[NAME] = known._replace(producer_epoch=32_765)
    assert producer.init() is Errors.NONE
    assert producer.identity == (0, 32_766)
    assert producer.produce() is Errors.NONE
    producer.finish()
    assert producer.identity == (1, 0)
    assert producer.produce() is Errors.NONE
    producer.finish()
    assert producer.identity == (1, 1)


# --- two-phase commit


def test_two_phase_commit_has_to_be_enabled(node: Node) -> None:
    node.load_transactions()
    producer = TransactionalProducer(node)
    assert producer.init(6, enable_2pc=True) is Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.fixture
def two_phase() -> Iterator[Node]:
    with Node("transaction.two.phase.commit.enable=true") as running:
        running.create_topic(TOPIC, 1)
        running.load_transactions()
        yield running


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_new_instance_ends_what_the_old_one_prepared(two_phase: Node, is_commit: bool) -> None:
    old = TransactionalProducer(two_phase)
    assert old.init(6, enable_2pc=True) is Errors.NONE
    assert old.produce() is Errors.NONE
    new = TransactionalProducer(two_phase)
    request = InitProducerIdRequest(
        transactional_id=NAME,
        transaction_timeout_ms=1_000,
        enable_2pc=True,
        keep_prepared_txn=True,
    )
    answer = two_phase.ask(request, 6)
    ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
    assert ongoing == old.identity
    new.producer_id, new.epoch = answer.producer_id, answer.producer_epoch
    assert new.identity == (old.producer_id, old.epoch + 1)
    # Neither of them can add to it, and the old one cannot end it.
    assert old.end() is Errors.PRODUCER_FENCED
    assert new.produce() is Errors.INVALID_TXN_STATE
    assert fetch_committed(two_phase).last_stable_offset == 0
    new.finish(is_commit=is_commit)
    found = fetch_committed(two_phase)
    assert found.last_stable_offset == 2
    assert len(found.aborted_transactions) == (0 if is_commit else 1)
    assert new.epoch == old.epoch + 2
    assert new.produce() is Errors.NONE
    new.finish()


def test_a_prepared_transaction_is_terminated_by_an_instance_that_does_not_keep_it(
    two_phase: Node,
) -> None:
    old = TransactionalProducer(two_phase)
    assert old.init(6, enable_2pc=True) is Errors.NONE
    assert old.produce() is Errors.NONE
    new = TransactionalProducer(two_phase).started()
    found = fetch_committed(two_phase)
    assert (found.last_stable_offset, len(found.aborted_transactions)) == (2, 1)
    assert new.produce() is Errors.NONE


def test_nothing_to_keep_is_a_plain_start(two_phase: Node) -> None:
    producer = TransactionalProducer(two_phase)
    assert producer.init(6, enable_2pc=True, keep_prepared_txn=True) is Errors.NONE
    assert producer.identity == (0, 0)
