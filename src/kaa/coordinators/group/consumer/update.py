"""What a request of a member does to its consumer group, step by step, in records.

1. The member: who it is and what it subscribes to, if that has changed.
2. The group epoch: bumped if subscriptions have changed, or topics have.
3. The target assignment: computed if its epoch is behind. A big one is computed later, in slices.
4. What the member has: one step towards the target.

Heartbeats of consumer members and JoinGroup requests of classic ones go through the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.consumer.member import MemberState
from kaa.coordinators.group.consumer.reconcile import MemberTarget, Situation, reconcile
from kaa.coordinators.group.consumer.records import (
    CONSUMER_RECORDS,
    partition_metadata_tombstone,
)
from kaa.coordinators.group.consumer.target import computation, target_records
from kaa.coordinators.group.modern.group import can_compute
from kaa.limits import CONSUMER_GROUP_ASSIGNOR_STEPS_MAX
from kaa.model.pieces import finish

if TYPE_CHECKING:
    from kaa.coordinators.group.consumer.group import ConsumerGroup
    from kaa.coordinators.group.consumer.member import ConsumerMember
    from kaa.coordinators.group.consumer.reconcile import Reported
    from kaa.coordinators.group.consumer.target import Computation
    from kaa.coordinators.group.consumer.timers import ConsumerTimers
    from kaa.coordinators.group.settings import ConsumerTimes
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.model.pieces import Pieces


class GroupSurroundings(NamedTuple):
    """What a step looks at besides the group."""

    topics: GroupTopics
    timers: ConsumerTimers
    times: ConsumerTimes
    default_assignor: str
    # Whether an assignment of the group is being computed in slices.
    is_assigning: bool
    now: Moment


class Update:
    """One request of one member: `member` as it was, `updated` as it becomes."""

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        surroundings: GroupSurroundings,
        records: list[NewRecord],
    ) -> None:
        self.group = group
        self.member = member
        self.updated = updated
        self.records = records
        self.group_epoch = group.group_epoch
        # An assignment that is too big for this request.
        self.to_compute: Computation | None = None
        self._around = surroundings

    def store_member(self) -> bool:
        """Whether the names of topics have changed."""
        if self.updated == self.member:
            return False
        self.records.append(CONSUMER_RECORDS.member_record(self.group.group_id, self.updated))
        return self.updated.subscribed_topic_names != self.member.subscribed_topic_names

    def bump_epoch(self, *, is_needed: bool) -> None:
        """Bumps the epoch if it is needed, or if topics of the group have changed."""
        group, topics = self.group, self._around.topics
        if not is_needed and group.has_checked_topics(topics.version):
            return
        members = group.members_with(self.updated).values()
        metadata_hash = topics.group_hash(group.subscribed_topics_of(members))
        if is_needed or metadata_hash != group.epochs.metadata_hash:
            self.group_epoch += 1
            self.records.append(
                CONSUMER_RECORDS.epoch_record(group.group_id, self.group_epoch, metadata_hash)
            )
        group.topics_checked = (topics.version, self.group_epoch)
        if group.epochs.has_partition_metadata:
            self.records.append(partition_metadata_tombstone(group.group_id))

    def assign(self) -> Pieces[MemberTarget]:
        """The target of the member, a new one if the group epoch is ahead."""
        group, around = self.group, self._around
        last = MemberTarget(group.assignment_epoch, group.target_of(self.updated))
        if group.assignment_epoch >= self.group_epoch:
            return last
        interval_ms = around.times.assignment_interval_ms
        timestamp_ms = group.epochs.assignment_timestamp_ms
        if not can_compute(timestamp_ms, interval_ms, around.now.wall_ms):
            return last
        if around.is_assigning:
            # Of a big group, which may be waited for: the next heartbeat looks again.
            return last
        members = group.members_with(self.updated)
        yield
        found = computation(
            group, self.group_epoch, members, around.topics, around.default_assignor
        )
        if found.spec.work > CONSUMER_GROUP_ASSIGNOR_STEPS_MAX:
            self.to_compute = found
            return last
        assignment = finish(found.steps)
        self.records += yield from target_records(
            group, self.group_epoch, found.spec, assignment, around.now.wall_ms
        )
        return MemberTarget(self.group_epoch, assignment.get(self.updated.member_id, {}))

    def reconcile(
        self, target: MemberTarget, reported: Reported, *, has_subscription_changed: bool
    ) -> Pieces[None]:
        """Takes the member one step towards its target."""
        group, updated = self.group, self.updated
        if not has_subscription_changed and updated.is_reconciled_to(target.epoch):
            return
        topic_ids = self._around.topics.topic_ids(group.topics_of(updated))
        yield
        situation = Situation(target, group.owners, topic_ids, has_subscription_changed, reported)
        self.updated = yield from reconcile(updated, situation)
        if self.updated == updated:
            return
        record = yield from CONSUMER_RECORDS.current_record(group.group_id, self.updated)
        self.records.append(record)
        if not self.updated.uses_classic_protocol:
            timers, now = self._around.timers, self._around.now
            if self.updated.state is MemberState.UNREVOKED_PARTITIONS:
                timers.expect_revocation(group.group_id, self.updated, now)
            else:
                timers.forget_revocation(group.group_id, self.updated.member_id)
