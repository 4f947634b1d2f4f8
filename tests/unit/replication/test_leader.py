from __future__ import annotations

import pytest

from kaa.controller.image import BrokerImage, PartitionImage
from kaa.replication.leader import IsrMember, IsrProposal, Leadership, RemoteReplica
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO
from tests.support.ids import uuid

LAG_MS = 30_000


class View:
    """A cluster of brokers 1, 2 and 3; broker n registered with epoch 100 * n."""

    def __init__(self) -> None:
        self.lag_ms_max = LAG_MS
        self.brokers = {number: broker(number) for number in (1, 2, 3)}

    def broker(self, broker_id: int) -> BrokerImage | None:
        return self.brokers.get(broker_id)

    def broker_epoch(self) -> int:
        return 100

    def change(self, broker_id: int, **changes: object) -> None:
        self.brokers[broker_id] = self.brokers[broker_id]._replace(**changes)  # type: ignore[arg-type]


def broker(number: int) -> BrokerImage:
    return BrokerImage(number, 100 * number, UUID_ZERO, (), {}, None, False, False, (), None)


def image(
    isr: tuple[int, ...] = (1, 2, 3), *, leader_epoch: int = 5, partition_epoch: int = 10
) -> PartitionImage:
    return PartitionImage((1, 2, 3), isr, 1, leader_epoch, partition_epoch)


class Case:
    """A leader on broker 1 whose log ends at 100 when it begins."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3)) -> None:
        self.view = View()
        self.end = 100
        self.now = 1_000_000
        self.minimum = 1
        self.leader = Leadership(1, self.view, image(isr), self.end, self.now)

    def fetched(
        self, broker_id: int, end: int, *, epoch: int | None = None, start: int = 0
    ) -> None:
        epoch = 100 * broker_id if epoch is None else epoch
        self.leader.replicas[broker_id].fetched(end, start, self.end, self.now, epoch)

    def in_sync(self) -> list[int]:
        return list(self.leader.isr)

    def proposal(self) -> IsrProposal | None:
        return self.leader.proposal

    def high_watermark(self) -> int | None:
        return self.leader.high_watermark(self.end, self.end, self.minimum, self.now)


# --- the high watermark


def test_is_the_least_end_of_the_set() -> None:
    case = Case()
    case.fetched(2, 100)
    case.fetched(3, 90)
    assert case.high_watermark() == 90
    case.fetched(3, 100)
    assert case.high_watermark() == 100


def test_does_not_wait_for_a_replica_that_left_the_set_with_its_disk() -> None:
    case = Case()
    directories = (uuid(1), uuid(2), uuid(3))
    case.view.change(3, directories=(uuid(3), uuid(4)))
    case.leader.update(image()._replace(directories=directories), case.end, case.now)
    case.fetched(2, 100)
    case.fetched(3, 100)
    case.end = 110
    case.fetched(2, 110)
    smaller = image((1, 2), partition_epoch=11)._replace(directories=directories)
    case.leader.update(smaller, case.end, case.now)
    # It may join again at any moment.
    assert case.high_watermark() == 100
    assert case.leader.expand(3, 100) is not None
    case.leader.proposal = None
    case.view.change(3, directories=(uuid(4),))
    assert case.high_watermark() == 110
    assert case.leader.expand(3, 100) is None


def test_waits_for_a_replica_of_the_set_that_never_fetched() -> None:
    case = Case()
    case.fetched(2, 100)
    assert case.high_watermark() == -1


def test_own_records_count_as_far_as_they_are_durable() -> None:
    case = Case(isr=(1,))
    case.now += LAG_MS + 1
    assert case.leader.high_watermark(40, 100, 1, case.now) == 40


def test_stands_still_while_the_set_is_too_small() -> None:
    case = Case(isr=(1,))
    case.minimum = 2
    assert case.high_watermark() is None
    # More than there are replicas is not asked for.
    case = Case()
    case.minimum = 9
    case.fetched(2, 100)
    case.fetched(3, 100)
    assert case.high_watermark() == 100


def test_an_end_may_go_down() -> None:
    case = Case()
    for broker_id in (2, 3):
        case.fetched(broker_id, 100)
    case.fetched(3, 20)
    assert case.leader.replicas[3].end_offset == 20
    assert case.high_watermark() == 20


def test_a_joining_replica_counts_before_the_controller_has_answered() -> None:
    case = Case(isr=(1, 2))
    case.fetched(2, 100)
    case.fetched(3, 100)
    assert case.leader.expand(3, 100) is not None
    case.end = 110
    case.fetched(2, 110)
    case.now += LAG_MS + 1
    assert case.high_watermark() == 100


def test_a_leaving_replica_counts_until_the_controller_has_answered() -> None:
    case = Case()
    case.fetched(2, 100)
    case.fetched(3, 50)
    case.now += LAG_MS + 1
    case.fetched(2, 100)
    proposal = case.leader.shrink(case.end, case.now)
    assert proposal is not None
    assert proposal.broker_ids == (1, 2)
    assert case.high_watermark() == 50
    assert case.leader.accepted(proposal, (1, 2), 5, 11, 0)
    assert case.high_watermark() == 100


def test_a_caught_up_replica_outside_of_the_set_holds_it_back() -> None:
    case = Case(isr=(1, 2))
    case.fetched(2, 100)
    case.fetched(3, 100)
    case.end = 110
    case.fetched(2, 110)
    assert case.high_watermark() == 100
    # Not so one that may not join.
    case.view.change(3, is_fenced=True)
    assert case.high_watermark() == 110


# --- who is in sync


def test_joins_at_the_high_watermark_and_the_start_of_the_epoch() -> None:
    case = Case(isr=(1, 2))
    case.fetched(3, 99)
    assert case.leader.expand(3, 50) is None
    case.end = 200
    case.fetched(3, 150)
    assert case.leader.expand(3, 151) is None
    proposal = case.leader.expand(3, 150)
    assert proposal is not None
    assert proposal.isr == (IsrMember(1, 100), IsrMember(2, -1), IsrMember(3, 300))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 10)
    assert case.leader.expand(2, 0) is None


@pytest.mark.parametrize(
    "change", [{"is_fenced": True}, {"is_in_controlled_shutdown": True}, {"epoch": 301}]
)
def test_only_a_live_broker_joins_under_the_epoch_it_fetched_with(
    change: dict[str, object],
) -> None:
    case = Case(isr=(1, 2))
    case.fetched(3, 100)
    case.view.change(3, **change)
    assert case.leader.expand(3, 100) is None


def test_brokers_of_old_versions_fetch_without_an_epoch() -> None:
    case = Case(isr=(1, 2))
    case.fetched(3, 100, epoch=-1)
    assert case.leader.expand(3, 100) is not None


def test_leaves_when_it_was_not_at_the_end_for_too_long() -> None:
    case = Case()
    case.now += LAG_MS
    assert case.leader.shrink(case.end, case.now) is None
    case.now += 1
    case.fetched(2, 100)
    proposal = case.leader.shrink(case.end, case.now)
    assert proposal is not None
    assert proposal.broker_ids == (1, 2)
    # One at a time.
    assert case.leader.shrink(case.end, case.now) is None
    case.fetched(3, 100)
    assert case.leader.expand(3, 0) is None


def test_a_quiet_partition_keeps_its_replicas() -> None:
    case = Case()
    case.fetched(2, 100)
    case.fetched(3, 100)
    case.now += 10 * LAG_MS
    assert case.leader.shrink(case.end, case.now) is None


def test_a_slow_reader_has_caught_up_with_what_there_was_at_its_last_fetch() -> None:
    replica = RemoteReplica()
    replica.fetched(0, 0, 100, 1_000, 1)
    assert replica.caught_up_ms == 0
    replica.fetched(100, 0, 200, 2_000, 1)
    assert replica.caught_up_ms == 1_000
    replica.fetched(150, 0, 300, 3_000, 1)
    assert replica.caught_up_ms == 1_000
    replica.fetched(300, 0, 300, 4_000, 1)
    assert replica.caught_up_ms == 4_000


# --- answers of the controller


def shrunk(case: Case) -> IsrProposal:
    case.now += LAG_MS + 1
    proposal = case.leader.shrink(case.end, case.now)
    assert proposal is not None
    return proposal


def test_an_answer_may_be_ahead_of_the_metadata() -> None:
    case = Case()
    assert case.leader.accepted(shrunk(case), (1,), 5, 11, 0)
    assert (case.in_sync(), case.leader.partition_epoch) == ([1], 11)
    case.leader.update(image((1, 2, 3)), case.end, case.now)
    assert case.in_sync() == [1]
    case.leader.update(image((1, 3), partition_epoch=12), case.end, case.now)
    assert case.in_sync() == [1, 3]


def test_newer_metadata_ends_a_proposal() -> None:
    case = Case()
    proposal = shrunk(case)
    # Of the epoch that the proposal was made for: nothing new.
    case.leader.update(image(), case.end, case.now)
    assert case.proposal() is proposal
    case.leader.update(image((1, 2), partition_epoch=11), case.end, case.now)
    assert case.proposal() is None
    assert not case.leader.accepted(proposal, (1,), 5, 12, 0)
    assert not case.leader.refused(proposal, Errors.NOT_CONTROLLER)
    assert case.leader.isr == (1, 2)


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 11), (6, 11), (5, 9)])
def test_answers_of_other_epochs_tell_nothing(leader_epoch: int, partition_epoch: int) -> None:
    case = Case()
    proposal = shrunk(case)
    assert not case.leader.accepted(proposal, (1,), leader_epoch, partition_epoch, 0)
    assert case.leader.isr == (1, 2, 3)


def test_a_refusal_that_changed_nothing_makes_room_for_the_next_proposal() -> None:
    for error in (Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED):
        case = Case()
        assert not case.leader.refused(shrunk(case), error)
        assert case.proposal() is None


def test_a_leader_that_knows_less_waits_for_metadata() -> None:
    for error in (Errors.FENCED_LEADER_EPOCH, Errors.INVALID_UPDATE_VERSION):
        case = Case()
        proposal = shrunk(case)
        assert not case.leader.refused(proposal, error)
        assert case.proposal() is proposal


def test_other_errors_are_tried_again() -> None:
    case = Case()
    proposal = shrunk(case)
    for error in (Errors.NOT_CONTROLLER, Errors.UNKNOWN_SERVER_ERROR):
        assert case.leader.refused(proposal, error)
        assert case.proposal() is proposal


def test_a_recovered_log_is_reported() -> None:
    case = Case()
    assert case.leader.recover() is None
    recovering = image((1,))._replace(leader_recovery_state=1)
    leader = Leadership(1, case.view, recovering, 100, 0)
    proposal = leader.recover()
    assert proposal is not None
    assert leader.recover() is None
    assert leader.accepted(proposal, (1,), 5, 11, 0)
    assert leader.recover() is None


# --- epochs


def test_a_new_leader_epoch_keeps_ends_and_gives_time() -> None:
    case = Case(isr=(1, 2))
    case.fetched(2, 90)
    case.fetched(3, 80)
    case.end, case.now = 120, case.now + 5 * LAG_MS
    case.leader.update(image((1, 2), leader_epoch=6, partition_epoch=11), case.end, case.now)
    assert case.leader.epoch_start_offset == 120
    assert case.leader.since_epoch == 5
    assert case.leader.replicas[2].end_offset == 90
    assert case.leader.replicas[2].caught_up_ms == case.now
    assert case.leader.replicas[3].caught_up_ms == 0


def test_the_progress_of_a_broker_that_registered_anew_is_forgotten() -> None:
    case = Case()
    case.fetched(2, 100)
    case.fetched(3, 100)
    case.view.change(3, epoch=301)
    case.leader.brokers_changed()
    assert case.leader.replicas[3].end_offset == -1
    assert case.leader.replicas[2].end_offset == 100
    assert case.leader.is_stale(3, 300)
    assert not case.leader.is_stale(3, 301)
    # Ahead of this broker's metadata, or without an epoch.
    assert not case.leader.is_stale(3, 302)
    assert not case.leader.is_stale(3, -1)


def test_replicas_follow_the_assignment() -> None:
    case = Case()
    case.fetched(3, 100)
    moved = PartitionImage((1, 3, 4), (1, 3), 1, 5, 11)
    case.leader.update(moved, case.end, case.now)
    assert list(case.leader.replicas) == [3, 4]
    assert case.leader.replicas[3].end_offset == 100


def test_low_watermark_is_the_least_start_of_live_replicas() -> None:
    case = Case()
    case.fetched(2, 100, start=30)
    assert case.leader.low_watermark(50) == -1
    case.fetched(3, 100, start=40)
    assert case.leader.low_watermark(50) == 30
    case.view.change(2, is_fenced=True)
    assert case.leader.low_watermark(50) == 40
    del case.view.brokers[3]
    assert case.leader.low_watermark(50) == 50
