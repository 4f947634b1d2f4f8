from __future__ import annotations

import pytest

from kaa.client.errors import KafkaError, ProducerFencedError, RequestTimeoutError
from kaa.client.producer.transaction_machine import TransactionMachine, TransactionStage
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors

T0 = TopicPartition("t", 0)


def begun(version: int) -> TransactionMachine:
    machine = TransactionMachine("id")
    machine.initialized()
    machine.begin(version)
    return machine


def test_partitions_are_added_by_the_coordinator_first() -> None:
    machine = begun(1)
    assert machine.maybe_add_partition(T0)
    assert not machine.may_send(T0)
    assert machine.take_new() == [T0]
    assert not machine.maybe_add_partition(T0)
    assert not machine.may_send(T0)
    assert machine.is_begun_at_the_coordinator
    machine.partitions_added([T0])
    assert machine.may_send(T0)
    machine.commit()
    assert machine.may_send(T0)
    machine.ended()
    assert machine.state is TransactionStage.READY
    assert not machine.may_send(T0)
    assert not machine.is_begun_at_the_coordinator


def test_partitions_are_added_by_brokers_under_version_two() -> None:
    machine = begun(2)
    assert not machine.maybe_add_partition(T0)
    assert machine.may_send(T0)
    assert machine.take_new() == []


def test_nothing_is_added_to_a_transaction_that_ends() -> None:
    machine = begun(0)
    machine.maybe_add_partition(T0)
    machine.abort()
    assert machine.take_new() == []
    assert not machine.is_begun_at_the_coordinator


def test_error_of_a_batch_makes_an_abort_necessary() -> None:
    machine = begun(2)
    machine.batch_failed(RequestTimeoutError("too late"))
    assert machine.state is TransactionStage.ABORTABLE
    for step in (machine.commit, lambda: machine.check_open("send")):
        with pytest.raises(RequestTimeoutError):
            step()
    assert machine.needs_epoch
    machine.abort()
    machine.ended()
    assert machine.error is None
    assert not machine.needs_epoch


@pytest.mark.parametrize(
    ("error", "is_of_coordinator", "state"),
    [
        (Errors.INVALID_PRODUCER_EPOCH, False, TransactionStage.ABORTABLE),
        (Errors.INVALID_PRODUCER_EPOCH, True, TransactionStage.FATAL),
        (Errors.PRODUCER_FENCED, False, TransactionStage.FATAL),
        (Errors.TRANSACTION_ABORTABLE, True, TransactionStage.ABORTABLE),
        (Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, TransactionStage.FATAL),
    ],
)
def test_meaning_of_errors(error: Errors, is_of_coordinator: bool, state: TransactionStage) -> None:
    machine = begun(2)
    told = machine.failed(KafkaError(error, "it"), is_of_coordinator=is_of_coordinator)
    assert machine.state is state
    if error is Errors.PRODUCER_FENCED:
        assert isinstance(told, ProducerFencedError)
    if state is TransactionStage.FATAL:
        with pytest.raises(KafkaError):
            machine.abort()


def test_commit_of_unknown_outcome_may_be_repeated_and_not_be_aborted() -> None:
    machine = begun(2)
    machine.commit()
    machine.commit()
    with pytest.raises(KafkaError, match="committing"):
        machine.abort()


def test_steps_out_of_order() -> None:
    machine = TransactionMachine("id")
    with pytest.raises(KafkaError, match="not initialised"):
        machine.begin(2)
    machine.check_uninitialized()
    machine.initialized()
    with pytest.raises(KafkaError, match="again"):
        machine.check_uninitialized()
    with pytest.raises(KafkaError, match="between transactions"):
        machine.check_open("send")
    with pytest.raises(KafkaError, match="between transactions"):
        machine.commit()
