from __future__ import annotations

from typing import Any

import pytest

from kaa.log.leader_epochs import EpochEntry, LeaderEpochCache
from kaa.replication.follower.machine import (
    Append,
    AskOffsets,
    Cut,
    CutToDivergence,
    Effect,
    FollowerMachine,
    LogPosition,
    Rebuild,
    Report,
    Restart,
    State,
    Target,
    cut_offset,
)
from kaa.replication.follower.session import FetchPosition
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tests.support.ids import uuid

TOPIC = uuid(1)
A, B = ((TOPIC, number) for number in range(2))
BACKOFF_MS = 1_000


class Case:
    """Follows A and B, both at 10 with epoch 3, under leader epoch 4."""

    def __init__(self) -> None:
        self.machine = FollowerMachine(BACKOFF_MS, 500)
        self.now = 0
        for partition in (A, B):
            self.machine.follow(partition, 4, LogPosition(10, 3, 0))

    def asked(self) -> dict[Any, FetchPosition]:
        plan = self.machine.next_fetch(self.now)
        return {} if plan is None else plan.partitions

    def answer(self, number: int = 0, **fields: Any) -> list[Effect]:
        """One round with an answer for one of the partitions."""
        self.asked()
        return self.fetched(PartitionData(partition_index=number, **fields))

    def fetched(self, *data: PartitionData, error: Errors = Errors.NONE) -> list[Effect]:
        topic = FetchableTopicResponse(topic_id=TOPIC, partitions=list(data))
        response = FetchResponse(error_code=error, session_id=7, responses=[topic])
        return self.machine.fetched(response, self.now)

    def state(self, partition: Any = A) -> State:
        return self.machine.partitions[partition].state


TARGET = Target(A, 1, 4)


def test_asks_from_the_end_of_the_log_on() -> None:
    assert Case().asked() == {
        A: FetchPosition(10, 4, 3, 0, 500),
        B: FetchPosition(10, 4, 3, 0, 500),
    }


def test_records_are_appended_and_the_next_fetch_goes_on_after_them() -> None:
    case = Case()
    effects = case.answer(records=b"abc", high_watermark=9, log_start_offset=2)
    assert effects == [Append(TARGET, b"abc", 9, 2)]
    case.machine.done(TARGET, LogPosition(12, 4, 2))
    assert case.asked() == {A: FetchPosition(12, 4, 4, 2, 500)}


def test_an_answer_without_records_still_tells_offsets() -> None:
    case = Case()
    assert case.answer(high_watermark=9, log_start_offset=0) == [Append(TARGET, b"", 9, 0)]
    case.machine.done(TARGET, LogPosition(10, 3, 0))
    assert case.asked() == {}


def test_a_diverging_log_is_cut_before_it_is_fetched_again() -> None:
    case = Case()
    diverging = EpochEndOffset(epoch=2, end_offset=7)
    assert case.answer(diverging_epoch=diverging) == [CutToDivergence(TARGET, 2, 7)]
    plan = case.machine.next_fetch(case.now)
    assert plan is not None
    assert (plan.partitions, plan.forgotten) == ({}, [A])
    case.fetched()
    case.machine.done(TARGET, LogPosition(7, 2, 0))
    assert case.asked() == {A: FetchPosition(7, 4, 2, 0, 500)}


def test_why_an_offset_is_out_of_range() -> None:
    case = Case()
    assert case.answer(error_code=Errors.OFFSET_OUT_OF_RANGE) == [AskOffsets(TARGET)]
    # The leader's log is shorter, it has moved on beyond this one, or it moved meanwhile.
    (report, cut) = case.machine.offsets(TARGET, 0, 6, 10)
    assert isinstance(report, Report)
    assert cut == Cut(TARGET, 6)
    assert case.machine.offsets(TARGET, 20, 30, 10) == [Restart(TARGET, 20)]
    assert case.state() is State.BUSY
    assert case.machine.offsets(TARGET, 5, 30, 10) == []
    assert case.asked() == {A: FetchPosition(10, 4, 3, 0, 500)}


def test_what_left_the_disk_of_the_leader_is_rebuilt() -> None:
    case = Case()
    effects = case.answer(error_code=Errors.OFFSET_MOVED_TO_TIERED_STORAGE)
    assert effects == [Rebuild(TARGET)]
    assert case.state() is State.BUSY
    case.machine.done(TARGET, LogPosition(500, 7, 0))
    assert case.asked()[A].fetch_offset == 500


def test_a_leader_that_cannot_tell_its_bounds_is_asked_again() -> None:
    case = Case()
    case.answer(error_code=Errors.OFFSET_OUT_OF_RANGE)
    case.machine.failed_for_now(TARGET, case.now)
    assert case.state() is State.RESTING


@pytest.mark.parametrize(
    "error",
    [Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_LEADER_EPOCH, Errors.KAFKA_STORAGE_ERROR],
)
def test_a_refused_partition_rests_and_others_go_on(error: Errors) -> None:
    case = Case()
    effects = case.answer(error_code=error)
    assert [type(effect) for effect in effects] == (
        [Report] if error is Errors.KAFKA_STORAGE_ERROR else []
    )
    assert case.machine.next_deadline_ms == BACKOFF_MS
    plan = case.machine.next_fetch(BACKOFF_MS - 1)
    assert plan is not None
    assert (plan.partitions, plan.forgotten) == ({}, [A])
    case.fetched()
    case.now = BACKOFF_MS
    assert list(case.asked()) == [A]
    assert case.machine.next_deadline_ms is None


def test_a_newer_leader_is_waited_for() -> None:
    case = Case()
    assert case.answer(error_code=Errors.FENCED_LEADER_EPOCH) == []
    assert case.state() is State.STOPPED
    case.now = 10 * BACKOFF_MS
    assert case.asked() == {}
    case.machine.follow(A, 5, LogPosition(10, 3, 0))
    assert list(case.asked()) == [A]


def test_damaged_records_are_fetched_again_after_a_pause() -> None:
    case = Case()
    case.answer(records=b"abc")
    report = case.machine.damaged(TARGET, LogPosition(11, 4, 0), "bad checksum", case.now)
    assert "bad checksum" in report.reason
    assert case.machine.damaged_count == 1
    assert case.asked() == {}
    case.fetched()
    case.now = BACKOFF_MS
    # What came before the damage was appended.
    assert case.asked() == {A: FetchPosition(11, 4, 4, 0, 500)}


def test_a_broken_partition_stops_alone() -> None:
    case = Case()
    case.answer(records=b"abc")
    (report,) = case.machine.broken(TARGET, "no disk")
    assert "no disk" in report.reason
    case.now = 10 * BACKOFF_MS
    plan = case.machine.next_fetch(case.now)
    assert plan is not None
    assert (plan.partitions, plan.forgotten) == ({}, [A])


def test_late_results_are_not_taken_for_new_ones() -> None:
    case = Case()
    case.answer(records=b"abc")
    case.machine.follow(A, 5, LogPosition(8, 3, 0))
    case.machine.done(TARGET, LogPosition(12, 4, 0))
    assert case.machine.broken(TARGET, "x") == []
    assert case.machine.offsets(TARGET, 0, 1, 2) == []
    case.machine.given_up(TARGET)
    assert case.asked() == {A: FetchPosition(8, 5, 3, 0, 500)}


def test_an_answer_that_a_change_of_leader_has_overtaken() -> None:
    case = Case()
    case.asked()
    case.machine.follow(A, 5, LogPosition(10, 3, 0))
    case.machine.unfollow(B)
    data = [PartitionData(partition_index=number, records=b"abc") for number in range(2)]
    assert case.fetched(*data) == []
    assert list(case.asked()) == [A]


def test_a_silent_leader_is_asked_again_in_full_after_a_pause() -> None:
    case = Case()
    case.answer()
    case.machine.done(TARGET, LogPosition(10, 3, 0))
    case.asked()
    case.machine.failed(case.now)
    assert case.asked() == {}
    case.now = BACKOFF_MS
    plan = case.machine.next_fetch(case.now)
    assert plan is not None
    assert (plan.session_epoch, list(plan.partitions)) == (0, [A, B])


def test_errors_of_the_whole_answer() -> None:
    case = Case()
    case.asked()
    assert case.fetched(error=Errors.FETCH_SESSION_ID_NOT_FOUND) == []
    assert len(case.asked()) == 2
    assert case.fetched(error=Errors.CLUSTER_AUTHORIZATION_FAILED) == []
    assert case.asked() == {}


# --- where logs part


@pytest.mark.parametrize(
    ("leader", "offset"),
    [
        # The leader's epoch is known here: the earlier of its two ends.
        ((3, 15), 15),
        ((3, 25), 20),
        # Not known here: the end of what was before it, and then the next fetch tells more.
        ((4, 18), 20),
        ((2, 8), 10),
        # Before all that is known here.
        ((0, 3), 3),
        ((-1, 9), 9),
    ],
)
def test_where_to_cut(leader: tuple[int, int], offset: int) -> None:
    epochs = LeaderEpochCache([EpochEntry(1, 5), EpochEntry(3, 10), EpochEntry(5, 20)])
    assert cut_offset(epochs, 30, *leader) == offset


def test_where_to_cut_a_log_without_epochs() -> None:
    assert cut_offset(LeaderEpochCache(), 30, 3, 12) == 12
    assert cut_offset(LeaderEpochCache(), 5, 3, 12) == 5


def test_a_throttled_partition_waits_until_the_throttle_lets_go() -> None:
    exceeded = [True]
    machine = FollowerMachine(BACKOFF_MS, 1 << 20, lambda: exceeded[0])
    machine.follow(A, 3, LogPosition(0, -1, 0))
    machine.follow(B, 3, LogPosition(0, -1, 0))
    machine.next_fetch(0)
    target = Target(A, machine.partitions[A].stamp, 3)
    machine.held(target, LogPosition(10, 3, 0), 0)
    assert machine.partitions[A].state is State.RESTING
    machine.next_fetch(BACKOFF_MS)
    assert machine.partitions[A].state is State.RESTING
    assert machine.partitions[B].state is State.READY
    assert machine.next_deadline_ms == 2 * BACKOFF_MS
    exceeded[0] = False
    machine.next_fetch(2 * BACKOFF_MS)
    followed = machine.partitions[A]
    assert (followed.state, followed.end_offset) == (State.READY, 10)
