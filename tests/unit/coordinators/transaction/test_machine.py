from __future__ import annotations

from typing import Any

import pytest

from kaa.coordinators.transaction.machine import ProducerIdAndEpoch
from kaa.coordinators.transaction.state import EPOCH_MAX, TransactionState
from kaa.wire.errors import Errors
from tests.unit.coordinators.transaction.bench import FIRST_ID, NAME, TransactionBench

P = (FIRST_ID, 0)


@pytest.fixture
def bench() -> TransactionBench:
    bench = TransactionBench()
    assert bench.init() == ProducerIdAndEpoch(*P)
    return bench


def test_a_transaction_from_begin_to_end(bench: TransactionBench) -> None:
    assert bench.add(P, 0) is Errors.NONE
    assert bench.add(P, 0, 1) is Errors.NONE
    assert bench.transaction.partitions == {("p", 0), ("p", 1)}
    assert bench.end(P) == ProducerIdAndEpoch(FIRST_ID, 1)
    (decision,) = bench.decisions
    assert decision.transaction.state is TransactionState.PREPARE_COMMIT
    assert decision.transaction.partitions == {("p", 0), ("p", 1)}
    bench.complete()
    assert bench.transaction.state is TransactionState.COMPLETE_COMMIT
    assert bench.add((FIRST_ID, 1), 2) is Errors.NONE
    assert bench.transaction.partitions == {("p", 2)}


def test_markers_wait_for_the_commit(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.is_holding = True
    assert bench.end(P) is None
    assert bench.decisions == []
    bench.commit()
    assert [one.transactional_id for one in bench.decisions] == [NAME]
    assert bench.answered[-1] == ("end", ProducerIdAndEpoch(FIRST_ID, 1))


def test_a_decision_that_is_lost_is_none(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.is_holding = True
    bench.end(P)
    bench.fail()
    assert bench.answered[-1] == ("end", Errors.NOT_ENOUGH_REPLICAS)
    assert bench.decisions == []
    assert bench.transaction.state is TransactionState.ONGOING
    assert bench.end(P, is_commit=False) == ProducerIdAndEpoch(FIRST_ID, 1)


def test_replicas_that_take_long_do_not_lose_a_decision(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.is_holding = True
    bench.end(P)
    result = bench._waiting[-1][2]
    again = bench.machine.appended(result.then, Errors.REQUEST_TIMED_OUT, bench.now)
    assert again.then == result.then
    bench.commit()
    assert len(bench.decisions) == 1


def test_what_was_decided_is_sent_again_after_a_restart(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.end(P)
    bench.restart()
    (decision,) = bench.decisions
    assert decision.transaction.state is TransactionState.PREPARE_COMMIT
    bench.complete()
    assert bench.transaction.state is TransactionState.COMPLETE_COMMIT


def test_to_complete_twice_does_nothing(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.end(P)
    (decision,) = bench.decisions
    bench.complete()
    records = len(bench.log)
    bench.decisions.append(decision)
    bench.complete()
    assert len(bench.log) == records


def test_partitions_are_verified(bench: TransactionBench) -> None:
    bench.add(P, 0)
    names = frozenset({("p", 0), ("p", 1)})
    found = bench.run("verify", lambda machine, *_: machine.verify_partitions(NAME, P, names))
    assert found == {("p", 0): Errors.NONE, ("p", 1): Errors.TRANSACTION_ABORTABLE}


# --- time


def test_a_transaction_runs_out_of_time(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.advance(60_000)
    before = bench.transaction
    bench.advance(10_000)
    after = bench.transaction
    assert (before.state, after.state) == (TransactionState.ONGOING, TransactionState.PREPARE_ABORT)
    assert after.producer_epoch == 1
    assert len(bench.decisions) == 1
    assert bench.end(P) is Errors.CONCURRENT_TRANSACTIONS
    bench.complete()
    assert bench.end(P) is Errors.INVALID_TXN_STATE
    # As with Kafka the abort is that of the client too: its epoch is one behind.
    assert bench.end(P, is_commit=False) == ProducerIdAndEpoch(FIRST_ID, 1)


def test_transactions_run_out_in_the_order_in_which_they_began(bench: TransactionBench) -> None:
    """Not in that of hashes, which differ from run to run."""
    names = [f"begun-{number}" for number in range(40)]
    for name in names:
        begun = bench.init(name)
        bench.add((begun.producer_id, begun.producer_epoch), 0, name=name)
    bench.advance(70_000)
    assert [decision.transactional_id for decision in bench.decisions] == names


HOUR_MS = 3_600_000


@pytest.mark.parametrize("shift_ms", [HOUR_MS, -HOUR_MS, 24 * HOUR_MS], ids=str)
def test_a_transaction_has_its_time_whatever_becomes_of_the_date(
    bench: TransactionBench, shift_ms: int
) -> None:
    bench.add(P, 0)
    started_ms = bench.transaction.start_timestamp_ms
    bench.advance(10_000)
    bench.shift_ms = shift_ms
    bench.advance(50_000)
    before = bench.transaction
    bench.advance(10_000)
    after = bench.transaction
    assert (before.state, after.state) == (TransactionState.ONGOING, TransactionState.PREPARE_ABORT)
    assert before.start_timestamp_ms == started_ms


def test_a_transaction_of_the_future_has_its_whole_time_after_a_restart(
    bench: TransactionBench,
) -> None:
    """The date was set back while nobody watched; one that was set ahead cannot be recognised."""
    bench.add(P, 0)
    bench.shift_ms = -HOUR_MS
    bench.restart()
    bench.advance(60_000)
    before = bench.transaction
    bench.advance(10_000)
    after = bench.transaction
    assert (before.state, after.state) == (TransactionState.ONGOING, TransactionState.PREPARE_ABORT)


def test_ids_do_not_expire_because_the_date_is_set_ahead(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.end(P)
    bench.complete()
    bench.shift_ms = 30 * 24 * HOUR_MS
    bench.advance(2 * HOUR_MS)
    assert NAME in bench.machine.transactions
    bench.advance(8 * 24 * HOUR_MS)
    assert NAME not in bench.machine.transactions


def test_an_end_that_is_taken_back_leaves_the_timeout(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.is_holding = True
    bench.end(P)
    # Somebody looks while the end is not committed.
    bench.advance(20_000)
    bench.fail()
    bench.advance(50_000)
    assert bench.transaction.state is TransactionState.PREPARE_ABORT


def test_transactions_that_are_over_are_not_looked_at(bench: TransactionBench) -> None:
    bench.add(P, 0)
    bench.end(P)
    bench.complete()
    bench.advance(10_000)
    assert bench.machine._maybe_open == set()


def test_before_version_2_the_client_is_fenced_by_a_timeout() -> None:
    bench = TransactionBench(transaction_version=1)
    bench.init()
    bench.add(P, 0, version=0)
    bench.advance(70_000)
    bench.complete()
    assert bench.transaction.producer_epoch == 1
    assert bench.end(P, version=0) is Errors.PRODUCER_FENCED


def test_two_phase_commit_has_all_the_time() -> None:
    bench = TransactionBench()
    bench.init(timeout_ms=2**31 - 1)
    bench.add(P, 0)
    bench.advance(10**7)
    assert bench.transaction.state is TransactionState.ONGOING


def test_an_overdue_transaction_with_an_exhausted_epoch_gets_an_id(
    bench: TransactionBench,
) -> None:
    known = bench.machine.transactions[NAME]
    bench.machine.transactions[NAME] = known._replace(producer_epoch=EPOCH_MAX - 1)
    last = (FIRST_ID, EPOCH_MAX - 1)
    bench.add(last, 0)
    bench.advance(70_000)
    assert bench.transaction.state is TransactionState.PREPARE_ABORT
    bench.complete()
    assert bench.transaction.client_identity == (FIRST_ID + 1, 0)


def test_ids_that_nobody_uses_are_forgotten(bench: TransactionBench) -> None:
    week_ms = 604_800_000
    bench.init("busy")
    bench.add((FIRST_ID + 1, 0), 0, name="busy")
    bench.machine.transactions["busy"] = bench.machine.transactions["busy"]._replace(
        timeout_ms=2**31 - 1
    )
    bench.advance(week_ms - 1)
    assert NAME in bench.machine.transactions
    bench.advance(3_600_000)
    assert NAME not in bench.machine.transactions
    assert "busy" in bench.machine.transactions
    bench.restart()
    assert set(bench.machine.transactions) == {"busy"}
    assert bench.add(P, 0) is Errors.INVALID_PRODUCER_ID_MAPPING


# --- producers


def test_the_answer_to_a_lost_initialisation_is_repeated(bench: TransactionBench) -> None:
    known: dict[str, Any] = {"producer_id": FIRST_ID, "producer_epoch": 0}
    assert bench.init(**known) == ProducerIdAndEpoch(FIRST_ID, 1)
    assert bench.init(**known) == ProducerIdAndEpoch(FIRST_ID, 1)
    # The log does not know the epoch before.
    bench.restart()
    assert bench.init(**known) is Errors.PRODUCER_FENCED


def test_a_retry_after_the_id_was_replaced(bench: TransactionBench) -> None:
    known = bench.machine.transactions[NAME]
    bench.machine.transactions[NAME] = known._replace(producer_epoch=EPOCH_MAX - 1)
    last: dict[str, Any] = {"producer_id": FIRST_ID, "producer_epoch": EPOCH_MAX - 1}
    assert bench.init(**last) == ProducerIdAndEpoch(FIRST_ID + 1, 0)
    assert bench.init(**last) == ProducerIdAndEpoch(FIRST_ID + 1, 0)


def test_an_open_transaction_is_aborted_first(bench: TransactionBench) -> None:
    bench.add(P, 0)
    assert bench.init() is Errors.CONCURRENT_TRANSACTIONS
    assert bench.init() is Errors.CONCURRENT_TRANSACTIONS
    assert len(bench.decisions) == 1
    bench.complete()
    assert bench.init() == ProducerIdAndEpoch(FIRST_ID, 2)


def test_after_a_take_over_the_new_identity_counts_after_restarts_too() -> None:
    bench = TransactionBench(two_phase_enable=True)
    bench.init(timeout_ms=2**31 - 1)
    bench.add(P, 0)
    taken = bench.init(timeout_ms=2**31 - 1, keeps_prepared=True)
    assert taken == ProducerIdAndEpoch(FIRST_ID, 1, *P)
    bench.restart()
    assert bench.end(P) is Errors.PRODUCER_FENCED
    assert bench.add((FIRST_ID, 1), 1) is Errors.INVALID_TXN_STATE
    assert bench.end((FIRST_ID, 1)) == ProducerIdAndEpoch(FIRST_ID, 2)
    bench.complete()
    assert bench.transaction.state is TransactionState.COMPLETE_COMMIT


def test_a_take_over_with_an_exhausted_epoch_continues_under_another_id() -> None:
    bench = TransactionBench(two_phase_enable=True)
    bench.init(timeout_ms=2**31 - 1)
    bench.add(P, 0)
    known = bench.transaction
    bench.machine.transactions[NAME] = known._replace(producer_epoch=EPOCH_MAX - 2)
    taken = bench.init(keeps_prepared=True)
    assert taken == ProducerIdAndEpoch(FIRST_ID + 1, 0, FIRST_ID, EPOCH_MAX - 2)
    assert bench.end((FIRST_ID + 1, 0)) == ProducerIdAndEpoch(FIRST_ID + 1, 1)
    (decision,) = bench.decisions
    assert decision.transaction.producer_id == FIRST_ID
    bench.complete()
    assert bench.add((FIRST_ID + 1, 1), 0) is Errors.NONE
