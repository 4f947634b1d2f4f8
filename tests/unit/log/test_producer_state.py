"""Idempotence and transactions of one partition, judged without files."""

from __future__ import annotations

import pytest

from kaa.log.errors import LogError
from kaa.log.producer_state import (
    BATCHES_RETAINED,
    BatchMetadata,
    CompletedTransaction,
    ProducerEntry,
    ProducerState,
)
from kaa.model.kinds import AppendOrigin
from kaa.records.batch import RecordBatch
from kaa.records.control import ControlRecordType, EndTransactionMarker
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch, marker

CLIENT = AppendOrigin.CLIENT
COORDINATOR = AppendOrigin.COORDINATOR
REPLICATION = AppendOrigin.REPLICATION
SEQUENCE_MAX = 2**31 - 1
DAY_MS = 86_400_000


class _State(ProducerState):
    """A state that batches can be thrown at, one append each."""

    def __init__(self) -> None:
        super().__init__(DAY_MS)

    def write(
        self,
        sequence: int,
        *,
        epoch: int = 0,
        records: int = 1,
        offset: int = 0,
        origin: AppendOrigin = CLIENT,
        transactional: bool = False,
        producer_id: int = 7,
    ) -> None:
        append = self.prepare(producer_id, origin)
        append.append_data(
            _batch(sequence, epoch, records, offset, transactional, producer_id=producer_id)
        )
        self.update(append)

    def end(
        self,
        *,
        epoch: int = 0,
        abort: bool = False,
        offset: int = 0,
        coordinator_epoch: int = 0,
        version: int = 0,
        origin: AppendOrigin = COORDINATOR,
        producer_id: int = 7,
    ) -> CompletedTransaction | None:
        append = self.prepare(producer_id, origin)
        kind = ControlRecordType.ABORT if abort else ControlRecordType.COMMIT
        content = marker(kind, producer_id, epoch, base_offset=offset)
        completed = append.append_marker(
            EndTransactionMarker(kind, coordinator_epoch), RecordBatch(content), version
        )
        self.update(append)
        if completed is not None:
            self.complete(completed)
        return completed


def _batch(
    sequence: int,
    epoch: int = 0,
    records: int = 1,
    offset: int = 0,
    transactional: bool = False,
    producer_id: int = 7,
) -> RecordBatch:
    return RecordBatch(
        batch(
            records,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=sequence,
            transactional=transactional,
        )
    )


def _refused(error: Errors, state: _State, sequence: int, epoch: int = 0) -> None:
    before = repr(state.producers.get(7))
    with pytest.raises(LogError) as caught:
        state.write(sequence, epoch=epoch)
    assert caught.value.error is error
    assert repr(state.producers.get(7)) == before


# --- sequences


def test_sequences_follow_each_other() -> None:
    state = _State()
    state.write(0, records=3, offset=10)
    state.write(3, offset=13)
    for wrong in (0, 3, 5, SEQUENCE_MAX):
        _refused(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, state, wrong)
    state.write(4, offset=14)
    assert state.producers[7].last_sequence == 4
    assert state.producers[7].last_data_offset == 14


def test_an_unknown_producer_may_start_anywhere() -> None:
    state = _State()
    state.write(55)
    _refused(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, state, 57)


def test_sequences_wrap_to_zero() -> None:
    state = _State()
    state.write(SEQUENCE_MAX - 1, records=3)
    assert state.producers[7].last_sequence == 0
    state.write(1)
    other = _State()
    other.write(SEQUENCE_MAX)
    other.write(0)


def test_a_new_epoch_starts_at_zero() -> None:
    state = _State()
    state.write(0, epoch=1)
    _refused(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, state, 1, epoch=2)
    state.write(0, epoch=2)
    assert [b.last_sequence for b in state.producers[7].batches] == [0]
    _refused(Errors.INVALID_PRODUCER_EPOCH, state, 0, epoch=1)


def test_replicas_and_coordinators_do_not_judge_sequences() -> None:
    state = _State()
    state.write(0, epoch=3)
    state.write(-1, epoch=3, origin=COORDINATOR)
    state.write(9, epoch=3, origin=REPLICATION)
    state.write(5, epoch=1, origin=REPLICATION)
    assert state.producers[7].epoch == 1


def test_two_batches_in_one_append_are_judged_together() -> None:
    state = _State()
    state.write(0)
    append = state.prepare(7, CLIENT)
    append.append_data(_batch(1))
    append.append_data(_batch(2))
    with pytest.raises(LogError):
        append.append_data(_batch(4))
    assert state.producers[7].last_sequence == 0


def test_the_last_five_batches_are_recognised() -> None:
    state = _State()
    for n in range(7):
        state.write(2 * n, records=2, offset=100 + 2 * n)
    entry = state.producers[7]
    assert len(entry.batches) == BATCHES_RETAINED
    for n in range(7):
        duplicate = state.find_duplicate(_batch(2 * n, records=2))
        if n < 2:
            assert duplicate is None
        else:
            assert duplicate is not None
            assert (duplicate.first_offset, duplicate.last_offset) == (100 + 2 * n, 101 + 2 * n)
    assert state.find_duplicate(_batch(12, records=1)) is None
    assert state.find_duplicate(_batch(12, epoch=1, records=2)) is None
    assert state.find_duplicate(_batch(12, producer_id=8)) is None


# --- transactions


def test_the_oldest_undecided_transaction_is_unstable() -> None:
    state = _State()
    state.write(0, offset=10, transactional=True)
    state.write(0, offset=11, transactional=True, producer_id=8)
    state.write(1, offset=12, transactional=True)
    assert state.first_unstable_offset == 10
    assert state.end(offset=13) == CompletedTransaction(7, 10, 13, is_aborted=False)
    assert state.first_unstable_offset == 10
    state.replicated_to(13)
    assert state.first_unstable_offset == 10
    state.replicated_to(14)
    assert state.first_unstable_offset == 11
    state.end(offset=14, abort=True, producer_id=8)
    state.replicated_to(15)
    assert state.first_unstable_offset is None


def test_the_stable_offset_of_an_abort_skips_its_own_transaction() -> None:
    state = _State()
    state.write(0, offset=10, transactional=True)
    state.write(0, offset=11, transactional=True, producer_id=8)
    ended = CompletedTransaction(7, 10, 12, is_aborted=True)
    assert state.last_stable_offset_after(ended) == 11
    state.complete(ended)
    assert state.last_stable_offset_after(CompletedTransaction(8, 11, 20, is_aborted=True)) == 21


def test_a_marker_without_records_completes_nothing() -> None:
    state = _State()
    assert state.end(epoch=4) is None
    assert state.producers[7].epoch == 4
    _refused(Errors.INVALID_PRODUCER_EPOCH, state, 0, epoch=3)


def test_plain_records_inside_a_transaction_are_refused() -> None:
    state = _State()
    state.write(0, transactional=True)
    _refused(Errors.INVALID_TXN_STATE, state, 1)


def test_a_marker_of_an_old_coordinator_is_refused() -> None:
    state = _State()
    state.end(coordinator_epoch=5)
    with pytest.raises(LogError) as caught:
        state.end(coordinator_epoch=4)
    assert caught.value.error is Errors.TRANSACTION_COORDINATOR_FENCED
    state.end(coordinator_epoch=4, origin=REPLICATION)


@pytest.mark.parametrize(("version", "epoch", "accepted"), [(1, 3, True), (1, 2, False)])
def test_markers_before_version_2_need_the_epoch(version: int, epoch: int, accepted: bool) -> None:
    state = _State()
    state.write(0, epoch=3, transactional=True)
    if accepted:
        assert state.end(epoch=epoch, version=version) is not None
    else:
        with pytest.raises(LogError) as caught:
            state.end(epoch=epoch, version=version)
        assert caught.value.error is Errors.INVALID_PRODUCER_EPOCH


def test_markers_of_version_2_need_a_newer_epoch() -> None:
    state = _State()
    state.write(0, epoch=3, transactional=True)
    with pytest.raises(LogError) as caught:
        state.end(epoch=3, version=2)
    assert caught.value.error is Errors.INVALID_PRODUCER_EPOCH
    assert state.end(epoch=4, version=2) is not None
    assert state.end(epoch=4, version=2) is None, "a retry changes nothing"
    state.write(0, epoch=4, transactional=True)
    with pytest.raises(LogError):
        state.end(epoch=4, version=2)


# --- verification


def test_a_guard_is_good_for_one_transaction() -> None:
    state = _State()
    guard = state.start_verification(7, 0, 0, supports_epoch_bump=False, now_ms=0)
    assert guard is not None
    assert state.start_verification(7, 0, 0, supports_epoch_bump=False, now_ms=0) is guard
    assert state.is_verified(7, guard)
    assert not state.is_verified(7, None)
    assert not state.is_verified(8, None)
    state.write(0, transactional=True)
    state.end_verification(7)
    assert not state.is_verified(7, guard)
    assert state.start_verification(7, 1, 0, supports_epoch_bump=False, now_ms=0) is None
    assert state.has_ongoing_transaction(7)
    assert state.has_ongoing_transaction(7, 0)
    assert not state.has_ongoing_transaction(7, 1)


def test_a_higher_sequence_waits_for_the_lowest_one_seen() -> None:
    state = _State()
    for sequence in (5, 3, 4):
        state.start_verification(7, sequence, 0, supports_epoch_bump=False, now_ms=0)
    _refused(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, state, 4)
    state.start_verification(7, 6, 1, supports_epoch_bump=False, now_ms=0)
    state.write(6, epoch=1)


def test_version_2_producers_without_state_start_at_zero() -> None:
    state = _State()
    state.start_verification(7, 5, 0, supports_epoch_bump=True, now_ms=0)
    _refused(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, state, 5)


# --- life


def test_idle_producers_expire_unless_in_a_transaction() -> None:
    state = _State()
    state.write(0)
    state.write(0, producer_id=8, transactional=True)
    state.start_verification(9, 0, 0, supports_epoch_bump=False, now_ms=0)
    list(state.remove_expired(1_000 + DAY_MS - 1))
    assert set(state.producers) == {7, 8}
    list(state.remove_expired(1_000 + DAY_MS))
    assert set(state.producers) == {8}
    assert not state.is_empty


def test_loading_orders_transactions_and_drops_the_expired() -> None:
    state = _State()
    entries = [
        ProducerEntry(1, 0, 0, DAY_MS, 50, [BatchMetadata(0, 50, 0, DAY_MS)]),
        ProducerEntry(2, 0, 0, DAY_MS, 40),
        ProducerEntry(3, 0, 0, 0),
    ]
    state.load(entries, 60, now_ms=DAY_MS)
    assert list(state.ongoing.items()) == [(40, 2), (50, 1)]
    assert set(state.producers) == {1, 2}
    assert state.end_offset == 60
    state.clear(5)
    assert state.is_empty
    assert state.first_unstable_offset is None
