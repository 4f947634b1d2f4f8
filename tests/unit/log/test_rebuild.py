from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kaa.log.append import append_as_follower, append_as_leader
from kaa.log.dirs import LogDirectory
from kaa.log.errors import CorruptFileError
from kaa.log.leader_epochs import EpochEntry
from kaa.log.log import UnifiedLog
from kaa.log.names import LOG_START_OFFSET_CHECKPOINT_FILE
from kaa.log.producer_snapshots import encode_producer_snapshot
from kaa.log.producer_state import BatchMetadata, ProducerEntry
from kaa.log.rebuild import RemoteState, begin_rebuild
from kaa.log.sim_files import CrashError, CrashMode, Fault, SimFiles
from kaa.log.truncation import PendingTruncation, begin_restart, begin_truncation
from tests.unit.log.batches import batch
from tests.unit.log.logs import PARTITION, SMALL, new_disk, new_log, reload

TIERED = replace(SMALL, remote_storage_enable=True)
EPOCHS = [EpochEntry(0, 0), EpochEntry(2, 300), EpochEntry(5, 700), EpochEntry(6, 5_000)]
PRODUCER = ProducerEntry(7, 1, 3, 1_000, 950, [BatchMetadata(41, 960, 4, 1_000)])
STATE = RemoteState(1_000, EPOCHS, encode_producer_snapshot([PRODUCER]))


def filled(files: SimFiles | None = None) -> UnifiedLog:
    log = new_log(files or new_disk(), TIERED)
    for _ in range(10):
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    log.update_high_watermark(20)
    log.flush(0)
    return log


def test_a_log_goes_on_behind_a_remote_segment() -> None:
    files = new_disk()
    log = filled(files)
    begin_rebuild(log, STATE, 100, 0).settle()
    offsets = (log.log_start_offset, log.local_log_start_offset, log.log_end_offset)
    assert offsets == (100, 1_000, 1_000)
    # Epochs from the start of the log on, and none that begins after the segment.
    epochs = [EpochEntry(0, 100), EpochEntry(2, 300), EpochEntry(5, 700)]
    assert log.leader_epochs.entries == epochs
    assert log.producer_state.producers[7].batches[-1].last_sequence == 41
    assert log.producer_state.first_unstable_offset == 950
    assert log.last_stable_offset == 950
    append_as_follower(log, batch(2, base_offset=1_000), leader_epoch=6, now_ms=0)
    # A power cut right after it costs nothing but the record.
    after = files.restart("lost")
    start = reload_start(after)
    again = reload(after, TIERED, log_start_offset=start)
    assert (again.log_start_offset, again.log_end_offset) == (100, 1_000)
    assert again.leader_epochs.entries[:3] == epochs
    assert again.producer_state.producers[7].epoch == 1


def begin_restart_at_5(log: UnifiedLog) -> PendingTruncation:
    return begin_restart(log, 5, 0)


def begin_cut(log: UnifiedLog) -> PendingTruncation:
    truncation = begin_truncation(log, 5, 0)
    assert truncation is not None
    return truncation


def begin_rebuild_at_100(log: UnifiedLog) -> PendingTruncation:
    return begin_rebuild(log, STATE, 100, 0)


@pytest.mark.parametrize("begin", [begin_restart_at_5, begin_cut, begin_rebuild_at_100])
@pytest.mark.parametrize("fails", [True, False])
def test_nothing_stays_open_of_a_log_that_is_closed_at_any_step(
    begin: Callable[[UnifiedLog], PendingTruncation], *, fails: bool
) -> None:
    """Because it was deleted, or because its disk failed in that step."""
    for steps in range(20):
        files = new_disk()
        log = filled(files)
        pending = begin(log)
        for _ in range(steps):
            if not pending.is_settled:
                pending.advance()
        is_over = pending.is_settled
        if fails:
            files.faults = [Fault("sync", "", times=99), Fault("sync_directory", "", times=99)]
            pending.settle()
        log.close_when_settled()
        pending.settle()
        assert files.open_paths() == []
        if is_over:
            return
    pytest.fail("it never ended")


def reload_start(files: SimFiles) -> int:
    table = LogDirectory(files, "/data").read_checkpoint(LOG_START_OFFSET_CHECKPOINT_FILE)
    return table.get(PARTITION, 0)


def test_damaged_state_touches_nothing() -> None:
    log = filled()
    with pytest.raises(CorruptFileError):
        begin_rebuild(log, STATE._replace(producer_snapshot=b"damaged"), 100, 0)
    assert (log.log_end_offset, log.pending) == (20, None)


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_a_crash_at_every_step_leaves_a_log_that_is_rebuilt(mode: CrashMode) -> None:
    """Or one that has everything. What begins where remote storage ends, without its state, would
    go on there: nobody would miss the state before the replica leads.
    """
    for crash_at in range(200):
        files = new_disk()
        log = filled(files)
        files.crash_at = len(files.history) + crash_at
        try:
            begin_rebuild(log, STATE, 100, 0).settle()
            is_finished = True
        except CrashError:
            is_finished = False
        after = files.restart(mode, seed=crash_at)
        again = reload(after, TIERED, log_start_offset=reload_start(after))
        if again.log_end_offset == STATE.next_offset:
            assert again.leader_epochs.latest_epoch == 5
            assert again.producer_state.producers.keys() == log.producer_state.producers.keys()
        begin_rebuild(again, STATE, 100, 0).settle()
        assert (again.log_start_offset, again.log_end_offset) == (100, 1_000)
        assert again.leader_epochs.latest_epoch == 5
        if is_finished:
            return
    pytest.fail("the rebuild never finished")
