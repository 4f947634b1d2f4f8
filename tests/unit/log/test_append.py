"""Appends of idempotent and transactional producers to a log."""

from __future__ import annotations

from random import Random

import pytest

from kaa.log.append import (
    BY_CLIENT,
    BY_COORDINATOR,
    AppendSource,
    append_as_follower,
    append_as_leader,
    prepare_leader_append,
)
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.errors import LogError, StorageError
from kaa.log.sim_files import Fault, Inspection
from kaa.model.kinds import AppendOrigin
from kaa.records.batch import RecordBatch
from kaa.wire.errors import Errors
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import new_disk, new_log, reload, stored_batches


def _write(sequence: int) -> bytearray:
    return batch(2, producer_id=7, producer_epoch=0, sequence=sequence, timestamp=500)


def _transactional(sequence: int, epoch: int = 0) -> bytearray:
    return batch(1, producer_id=7, producer_epoch=epoch, sequence=sequence, transactional=True)


def test_a_retry_gets_the_offsets_of_the_first_attempt() -> None:
    log = new_log(new_disk())
    append_as_leader(log, batch(3), leader_epoch=0, now_ms=0)
    append_as_leader(log, _write(0), leader_epoch=0, now_ms=0)
    append_as_leader(log, _write(2), leader_epoch=0, now_ms=0)
    for sequence, offset in ((0, 3), (2, 5)):
        info = append_as_leader(log, _write(sequence), leader_epoch=0, now_ms=0)
        assert info.is_duplicate
        assert (info.first_offset, info.last_offset) == (offset, offset + 1)
        assert info.log_append_time_ms == 501
    assert log.log_end_offset == 7
    assert len(stored_batches(log)) == 3


def test_a_refused_batch_changes_nothing() -> None:
    log = new_log(new_disk())
    append_as_leader(log, _write(0), leader_epoch=0, now_ms=0)
    with pytest.raises(LogError) as caught:
        append_as_leader(log, _write(6), leader_epoch=0, now_ms=0)
    assert caught.value.error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 2
    append_as_leader(log, _write(2), leader_epoch=0, now_ms=0)


def test_a_failed_append_can_be_tried_again_by_plan() -> None:
    log = new_log(new_disk())
    plan = prepare_leader_append(log, _write(0), leader_epoch=0, now_ms=0)
    assert log.log_end_offset == 0
    plan.write()
    assert log.log_end_offset == 0
    plan.complete(now_ms=0)
    assert log.log_end_offset == 2
    assert log.producer_state.producers[7].last_sequence == 1


def test_a_batch_that_was_read_before_is_appended_as_its_bytes_are() -> None:
    """Only itself, also where something else follows it in its buffer."""
    logs = [new_log(new_disk()) for _ in range(2)]
    for sequence in (0, 2):
        records = _write(sequence)
        append_as_leader(logs[0], bytearray(records), leader_epoch=3, now_ms=0)
        buffer = memoryview(bytearray(b"before" + records + b"after"))
        read = RecordBatch(buffer, len(b"before"))
        plan = prepare_leader_append(logs[1], read, leader_epoch=3, now_ms=0)
        info = plan.finish(now_ms=0)
        assert (info.first_offset, info.last_offset) == (sequence, sequence + 1)
        assert info.size_in_bytes == len(records)
        assert (bytes(buffer[:6]), bytes(buffer[-5:])) == (b"before", b"after")
    one, two = [[bytes(found.view) for found in stored_batches(log)] for log in logs]
    assert one == two
    assert logs[1].producer_state.producers[7].last_sequence == 3


def test_transactions_need_a_verified_guard() -> None:
    log = new_log(new_disk(), manager=LogManagerConfig())
    with pytest.raises(LogError) as caught:
        append_as_leader(log, _transactional(0), leader_epoch=0, now_ms=0)
    assert caught.value.error is Errors.INVALID_TXN_STATE
    state = log.producer_state
    guard = state.start_verification(7, 0, 0, supports_epoch_bump=False, now_ms=0)
    append_as_leader(
        log, _transactional(0), leader_epoch=0, now_ms=0, source=AppendSource(guard=guard)
    )
    append_as_leader(log, _transactional(1), leader_epoch=0, now_ms=0)
    end = marker(ABORT, 7, 0)
    append_as_leader(log, end, leader_epoch=0, now_ms=0, source=BY_COORDINATOR)
    with pytest.raises(LogError):
        append_as_leader(
            log, _transactional(2), leader_epoch=0, now_ms=0, source=AppendSource(guard=guard)
        )


@pytest.mark.parametrize("bumps", [True, False])
def test_the_marker_of_one_transaction_leaves_the_verification_of_the_next(bumps: bool) -> None:
    """With transaction version 2 a client begins the next one, with the next epoch, when the end of
    this one is decided; its marker may come while the next one is being verified.
    """
    log = new_log(new_disk(), manager=LogManagerConfig())
    state = log.producer_state
    first = state.start_verification(7, 0, 0, supports_epoch_bump=bumps, now_ms=0)
    append_as_leader(
        log, _transactional(0), leader_epoch=0, now_ms=0, source=AppendSource(guard=first)
    )
    end = prepare_leader_append(
        log, marker(ABORT, 7, 1), leader_epoch=0, now_ms=0, source=BY_COORDINATOR
    )
    # Also if it begins after the marker was planned.
    following = state.start_verification(7, 0, 1, supports_epoch_bump=bumps, now_ms=0)
    end.write()
    end.complete(now_ms=0)
    assert state.is_verified(7, following) == bumps
    if bumps:
        append_as_leader(
            log,
            _transactional(0, 1),
            leader_epoch=0,
            now_ms=0,
            source=AppendSource(guard=following),
        )
        assert not state.is_verified(7, following)


@pytest.mark.parametrize("seed", range(20))
def test_a_follower_of_many_batches_at_once_has_the_state_of_one_of_each(seed: int) -> None:
    """Transactions of several producers, open and decided, all of which come in one fetch."""
    large = LogConfig(segment_bytes=100_000)
    random, leader = Random(seed), new_log(new_disk(), large)
    sequences, is_open = dict.fromkeys(range(1, 5), 0), dict.fromkeys(range(1, 5), False)
    written = bytearray()
    for _ in range(30):
        producer_id = random.randrange(1, 5)
        if is_open[producer_id] and random.random() < 0.5:
            data = marker(random.choice((ABORT, COMMIT)), producer_id, 0)
            source, is_open[producer_id] = BY_COORDINATOR, False
        else:
            data = batch(
                1,
                producer_id=producer_id,
                producer_epoch=0,
                sequence=sequences[producer_id],
                transactional=True,
            )
            source, is_open[producer_id] = BY_CLIENT, True
            sequences[producer_id] += 1
        append_as_leader(leader, data, leader_epoch=0, now_ms=0, source=source)
        written += data
        leader.update_high_watermark(leader.log_end_offset)
        follower = new_log(new_disk(), large)
        append_as_follower(follower, written, leader_epoch=0, now_ms=0)
        follower.update_high_watermark(follower.log_end_offset)
        assert follower.last_stable_offset == leader.last_stable_offset
        assert list(follower.producer_state.ongoing) == list(leader.producer_state.ongoing)
        for end in range(leader.log_end_offset + 1):
            assert follower.collect_aborted(0, end) == leader.collect_aborted(0, end)


def test_followers_learn_producers_and_transactions() -> None:
    leader, follower = new_log(new_disk()), new_log(new_disk())
    contents = [_write(0), _transactional(2), marker(ABORT, 7, 0), _transactional(3)]
    for content in contents:
        origin = AppendOrigin.COORDINATOR if content is contents[2] else AppendOrigin.CLIENT
        append_as_leader(leader, content, leader_epoch=0, now_ms=0, source=AppendSource(origin))
    fetched = b"".join(bytes(b.view) for b in stored_batches(leader))
    append_as_follower(follower, fetched, leader_epoch=0, now_ms=0)
    assert repr(follower.producer_state.producers) == repr(leader.producer_state.producers)
    assert follower.producer_state.ongoing == leader.producer_state.ongoing == {4: 7}
    assert follower.collect_aborted(0, 5) == leader.collect_aborted(0, 5) != []


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_disk_that_cannot_be_read_takes_no_appends(operation: Inspection) -> None:
    """Whether the active segment is full is not known before it was looked at."""
    files = new_disk()
    log = new_log(files)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    log.close_cleanly(now_ms=0)
    log = reload(files, clean=True)
    log.segments.active.rest()
    files.faults = [Fault(operation, ".log")]
    with pytest.raises(StorageError):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert not log.directory.is_online
    assert log.log_end_offset == 2


def test_an_index_that_cannot_be_written_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.index.INDEX_BLOCK_BYTES", 0)
    files = new_disk()
    log = new_log(files, LogConfig(index_interval_bytes=0))
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    files.faults = [Fault("write", ".index")]
    with pytest.raises(StorageError):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert not log.directory.is_online
