from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaa.quorum.log_view import (
    BOOTSTRAP_SNAPSHOT_ID,
    Validity,
    end_offset_for_epoch,
    truncation_offset,
    validate_fetch_position,
)
from tests.simulation.quorum.disk import SimulatedLog, snapshot_of
from tests.unit.quorum.bench import batch, end


def log_of(*epochs: int) -> SimulatedLog:
    """A log with one record per epoch named."""
    log = SimulatedLog()
    for offset, epoch in enumerate(epochs):
        log.append_as_follower([batch(offset, epoch, offset)])
    return log


def test_positions_are_ordered_by_epoch_first() -> None:
    assert end(5, 2) > end(9, 1)
    assert end(5, 2) < end(6, 2)
    assert end(5, 2) >= end(5, 2)
    assert str(end(5, 2)) == "5@2"


def test_where_epochs_end() -> None:
    starts = [(1, 0), (2, 3), (5, 8)]
    ends = {
        epoch: end_offset_for_epoch(starts, end(10, 5), None, epoch) for epoch in (0, 1, 2, 4, 5, 9)
    }
    assert ends == {
        0: end(0, 0),
        1: end(3, 1),
        2: end(8, 2),
        4: end(8, 2),
        5: end(10, 5),
        9: end(10, 5),
    }


def test_an_epoch_before_the_log_ends_at_the_snapshot() -> None:
    assert end_offset_for_epoch([(4, 20)], end(25, 4), end(20, 3), 2) == end(20, 3)
    assert end_offset_for_epoch([], end(20, 3), end(20, 3), 2) == end(20, 3)


def test_a_position_in_the_log_is_valid() -> None:
    log = log_of(1, 1, 2, 4)
    for offset, epoch in ((0, 0), (1, 1), (2, 1), (3, 2), (4, 4)):
        validity, position = validate_fetch_position(log, offset, epoch)
        assert (validity, position) == (Validity.VALID, end(offset, epoch))


def test_a_position_beside_the_log_diverges() -> None:
    log = log_of(1, 1, 2, 4)
    assert validate_fetch_position(log, 3, 1) == (Validity.DIVERGING, end(2, 1))
    assert validate_fetch_position(log, 3, 3) == (Validity.DIVERGING, end(3, 2))
    assert validate_fetch_position(log, 9, 4) == (Validity.DIVERGING, end(4, 4))


def test_a_position_before_the_log_needs_a_snapshot() -> None:
    log = log_of(1, 1, 2, 2, 2)
    log.delete_before(log.take_snapshot(3, 2))
    snapshot = (Validity.SNAPSHOT, end(3, 2))
    assert validate_fetch_position(log, 0, 0) == snapshot
    assert validate_fetch_position(log, 1, 1) == snapshot
    assert validate_fetch_position(log, 3, 1) == snapshot
    assert validate_fetch_position(log, 5, 1) == snapshot
    assert validate_fetch_position(log, 3, 2) == (Validity.VALID, end(3, 2))


def test_a_new_replica_gets_the_snapshot_although_the_log_is_whole() -> None:
    log = log_of(1, 1)
    log.take_snapshot(2, 1)
    assert validate_fetch_position(log, 0, 0) == (Validity.SNAPSHOT, end(2, 1))


def test_the_bootstrap_snapshot_is_not_for_others() -> None:
    log = log_of(1)
    log.snapshots[BOOTSTRAP_SNAPSHOT_ID] = snapshot_of(0)
    assert validate_fetch_position(log, 0, 0)[0] is Validity.VALID


def test_truncation() -> None:
    log = log_of(1, 1, 3, 3)
    assert truncation_offset(log, end(3, 3)) == 3
    assert truncation_offset(log, end(1, 1)) == 1
    assert truncation_offset(log, end(9, 2)) == 2
    assert truncation_offset(log, end(1, 0)) == 1
    assert truncation_offset(log, end(9, 0)) == 4


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """A leader's log and a follower's, as elections can leave them: the epoch of each record.

    The leader of an epoch takes over some part of an earlier leader's log and adds to it, so an
    epoch starts at one offset, wherever it occurs.
    """
    logs: list[list[int]] = [[]]
    for epoch in range(1, draw(st.integers(2, 6))):
        parent = draw(st.sampled_from(logs))
        kept = parent[: draw(st.integers(0, len(parent)))]
        logs.append(kept + [epoch] * draw(st.integers(1, 4)))
    leader, follower = draw(st.sampled_from(logs)), draw(st.sampled_from(logs))
    return leader, follower[: draw(st.integers(0, len(follower)))]


@given(histories())
def test_logs_agree_after_the_steps_of_a_fetch(history: tuple[list[int], list[int]]) -> None:
    """Truncating as asked gives a prefix of the leader's log, and cuts nothing that both have."""
    leader, follower = history
    common = 0
    while common < min(len(leader), len(follower)) and leader[common] == follower[common]:
        common += 1
    online_log, follower_log = log_of(*leader), log_of(*follower)
    for _ in range(len(follower) + 1):
        position = follower_log.end()
        validity, point = validate_fetch_position(online_log, position.offset, position.epoch)
        if validity is Validity.VALID:
            break
        offset = truncation_offset(follower_log, point)
        assert common <= offset < position.offset
        follower_log.truncate_to(offset)
    kept = [batch.epoch for batch in follower_log.batches]
    assert validate_fetch_position(online_log, len(kept), kept[-1] if kept else 0)[0] is (
        Validity.VALID
    )
    assert kept == leader[: len(kept)]
