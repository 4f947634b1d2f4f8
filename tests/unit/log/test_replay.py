"""Producer state out of stored batches."""

from __future__ import annotations

import pytest

from kaa.log.append import AppendSource, append_as_leader
from kaa.log.log import UnifiedLog
from kaa.log.producer_state import ProducerState
from kaa.log.replay import load_newest_snapshot, replay_segments
from kaa.log.sim_files import SimFiles
from kaa.model.kinds import AppendOrigin
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import new_disk, new_log


def _lived(files: SimFiles | None = None) -> UnifiedLog:
    """Forty appends of two producers, one of them in transactions."""
    log = new_log(files or new_disk())
    for n in range(40):
        origin = AppendOrigin.CLIENT
        if n % 5 == 4:
            kind = ABORT if n % 2 else COMMIT
            content, origin = marker(kind, 8, 0), AppendOrigin.COORDINATOR
        elif n % 2:
            sequence = sum(1 for m in range(n) if m % 2 and m % 5 != 4)
            content = batch(
                1, producer_id=8, producer_epoch=0, sequence=sequence, transactional=True
            )
        else:
            sequence = sum(1 for m in range(n) if not m % 2 and m % 5 != 4)
            content = batch(1, producer_id=7, producer_epoch=0, sequence=sequence)
        append_as_leader(log, content, leader_epoch=0, now_ms=0, source=AppendSource(origin))
    return log


def _replayed(log: UnifiedLog, start: ProducerState, end_offset: int) -> ProducerState:
    for _ in replay_segments(start, log.segments, log.log_start_offset, end_offset):
        pass
    return start


@pytest.mark.parametrize("end_offset", [0, 1, 17, 33, 40])
def test_replay_from_nothing_and_from_a_snapshot_agree(end_offset: int) -> None:
    log = _lived()
    whole = _replayed(log, ProducerState(10**12), end_offset)
    partial = ProducerState(10**12)
    load_newest_snapshot(partial, log.snapshots, 0, end_offset, now_ms=0)
    assert partial.end_offset <= end_offset
    _replayed(log, partial, end_offset)
    assert whole.end_offset == partial.end_offset == end_offset
    assert whole.ongoing == partial.ongoing
    assert set(whole.producers) == set(partial.producers)
    for producer_id, entry in whole.producers.items():
        other = partial.producers[producer_id]
        assert (entry.epoch, entry.last_sequence) == (other.epoch, other.last_sequence)
        assert entry.transaction_first_offset == other.transaction_first_offset


def test_replay_to_the_end_is_what_the_log_knows() -> None:
    log = _lived()
    state = _replayed(log, ProducerState(10**12), 40)
    assert repr(state.producers) == repr(log.producer_state.producers)
    assert state.ongoing == log.producer_state.ongoing


def test_snapshots_outside_of_the_log_are_deleted() -> None:
    log = _lived()
    assert len(log.snapshots.offsets) > 3
    lowest, highest = log.snapshots.offsets[0], log.snapshots.offsets[-2]
    state = ProducerState(10**12)
    load_newest_snapshot(state, log.snapshots, lowest, highest, now_ms=0)
    assert state.end_offset == highest
    assert log.snapshots.offsets[0] > lowest
    assert log.snapshots.offsets[-1] == highest
    load_newest_snapshot(state, log.snapshots, 100, 100, now_ms=0)
    assert log.snapshots.offsets == []
    assert (state.end_offset, state.producers) == (100, {})
