"""Appends of idempotent and transactional producers to a log."""

from __future__ import annotations

import pytest

from kaa.log.append import prepare_leader_append
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.errors import LogError, StorageError
from kaa.log.sim_files import Fault, Inspection
from kaa.model.kinds import AppendOrigin
from kaa.wire.errors import Errors
from tests.unit.log.batches import ABORT, batch, marker
from tests.unit.log.logs import new_disk, new_log, reload, stored_batches


def _write(sequence: int) -> bytearray:
    return batch(2, producer_id=7, producer_epoch=0, sequence=sequence, timestamp=500)


def _transactional(sequence: int, epoch: int = 0) -> bytearray:
    return batch(1, producer_id=7, producer_epoch=epoch, sequence=sequence, transactional=True)


def test_a_retry_gets_the_offsets_of_the_first_attempt() -> None:
    log = new_log(new_disk())
    log.append(batch(3), leader_epoch=0, now_ms=0)
    log.append(_write(0), leader_epoch=0, now_ms=0)
    log.append(_write(2), leader_epoch=0, now_ms=0)
    for sequence, offset in ((0, 3), (2, 5)):
        info = log.append(_write(sequence), leader_epoch=0, now_ms=0)
        assert info.is_duplicate
        assert (info.first_offset, info.last_offset) == (offset, offset + 1)
        assert info.log_append_time_ms == 501
    assert log.log_end_offset == 7
    assert len(stored_batches(log)) == 3


def test_a_refused_batch_changes_nothing() -> None:
    log = new_log(new_disk())
    log.append(_write(0), leader_epoch=0, now_ms=0)
    with pytest.raises(LogError) as caught:
        log.append(_write(6), leader_epoch=0, now_ms=0)
    assert caught.value.error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 2
    log.append(_write(2), leader_epoch=0, now_ms=0)


def test_a_failed_append_can_be_tried_again_by_plan() -> None:
    log = new_log(new_disk())
    plan = prepare_leader_append(log, _write(0), leader_epoch=0, now_ms=0)
    assert log.log_end_offset == 0
    plan.write()
    assert log.log_end_offset == 0
    plan.complete(now_ms=0)
    assert log.log_end_offset == 2
    assert log.producer_state.producers[7].last_sequence == 1


def test_transactions_need_a_verified_guard() -> None:
    log = new_log(new_disk(), manager=LogManagerConfig())
    with pytest.raises(LogError) as caught:
        log.append(_transactional(0), leader_epoch=0, now_ms=0)
    assert caught.value.error is Errors.INVALID_TXN_STATE
    state = log.producer_state
    guard = state.start_verification(7, 0, 0, supports_epoch_bump=False, now_ms=0)
    log.append(_transactional(0), leader_epoch=0, now_ms=0, guard=guard)
    log.append(_transactional(1), leader_epoch=0, now_ms=0)
    end = marker(ABORT, 7, 0)
    log.append(end, leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(LogError):
        log.append(_transactional(2), leader_epoch=0, now_ms=0, guard=guard)


@pytest.mark.parametrize("bumps", [True, False])
def test_the_marker_of_one_transaction_leaves_the_verification_of_the_next(bumps: bool) -> None:
    """With transaction version 2 a client begins the next one, with the next epoch, when the end of
    this one is decided; its marker may come while the next one is being verified.
    """
    log = new_log(new_disk(), manager=LogManagerConfig())
    state = log.producer_state
    first = state.start_verification(7, 0, 0, supports_epoch_bump=bumps, now_ms=0)
    log.append(_transactional(0), leader_epoch=0, now_ms=0, guard=first)
    end = prepare_leader_append(
        log, marker(ABORT, 7, 1), leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR
    )
    # Also if it begins after the marker was planned.
    following = state.start_verification(7, 0, 1, supports_epoch_bump=bumps, now_ms=0)
    end.write()
    end.complete(now_ms=0)
    assert state.is_verified(7, following) == bumps
    if bumps:
        log.append(_transactional(0, 1), leader_epoch=0, now_ms=0, guard=following)
        assert not state.is_verified(7, following)


def test_followers_learn_producers_and_transactions() -> None:
    leader, follower = new_log(new_disk()), new_log(new_disk())
    contents = [_write(0), _transactional(2), marker(ABORT, 7, 0), _transactional(3)]
    for content in contents:
        origin = AppendOrigin.COORDINATOR if content is contents[2] else AppendOrigin.CLIENT
        leader.append(content, leader_epoch=0, now_ms=0, origin=origin)
    fetched = b"".join(bytes(b.view) for b in stored_batches(leader))
    follower.append_as_follower(fetched, leader_epoch=0, now_ms=0)
    assert repr(follower.producer_state.producers) == repr(leader.producer_state.producers)
    assert follower.producer_state.ongoing == leader.producer_state.ongoing == {4: 7}
    assert follower.collect_aborted(0, 5) == leader.collect_aborted(0, 5) != []


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_disk_that_cannot_be_read_takes_no_appends(operation: Inspection) -> None:
    """Whether the active segment is full is not known before it was looked at."""
    files = new_disk()
    log = new_log(files)
    log.append(batch(2), leader_epoch=0, now_ms=0)
    log.close_cleanly(now_ms=0)
    log = reload(files, clean=True)
    log.segments.active.rest()
    files.faults = [Fault(operation, ".log")]
    with pytest.raises(StorageError):
        log.append(batch(2), leader_epoch=0, now_ms=0)
    assert not log.directory.is_online
    assert log.log_end_offset == 2


def test_an_index_that_cannot_be_written_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.index.INDEX_BLOCK_BYTES", 0)
    files = new_disk()
    log = new_log(files, LogConfig(index_interval_bytes=0))
    log.append(batch(2), leader_epoch=0, now_ms=0)
    files.faults = [Fault("write", ".index")]
    with pytest.raises(StorageError):
        log.append(batch(2), leader_epoch=0, now_ms=0)
    assert not log.directory.is_online
