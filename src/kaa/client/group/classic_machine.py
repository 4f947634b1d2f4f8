"""A member of a classic group: it joins, one of them assigns, all heartbeat. The machine.

    UNJOINED --Poll--> RECONCILING: Revoke --Done--> JOINING: JoinGroup
       JoinGroup answered, leader:   topics of all members are looked up, it assigns, SyncGroup
       JoinGroup answered, follower: SyncGroup without assignments
       SyncGroup answered: RECONCILING: Revoke and Assign --Done--> STABLE
    STABLE, heartbeats in between --REBALANCE_IN_PROGRESS or other topics--> rejoins at a Poll

*Eager* members give everything up before they rejoin. *Cooperative* ones keep what they have, tell
the leader of it, and give up after SyncGroup what they are no longer to have; if that was
something, they rejoin at once, so that others can get it.

A member that was away too long (`max.poll.interval.ms` without a poll) leaves, since others
can do its work; it joins again at the next poll. A generation that is over, or a member id that
the coordinator does not know any more, means that others may have its partitions: they are lost,
not revoked, and nothing of them can be committed.

A refusal that does not pass by itself, as for want of a permission, is reported to the application.
It is not a member then; the next poll tries again, and gets in once the cause is gone.

Heartbeats go on while the application gives up partitions and while it does not poll. They stop
between JoinGroup and the answer to SyncGroup, when the coordinator does not expect any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.client.coordinator import MOVED
from kaa.client.errors import ClientError, KafkaError
from kaa.client.group.classic_requests import (
    ClassicSettings,
    heartbeat_request,
    join_request,
    leave_request,
    members_of,
    sync_request,
)
from kaa.client.group.consumer_protocol import NO_GENERATION, decode_assignment
from kaa.client.group.events import (
    Assign,
    FindTopics,
    MemberState,
    Revoke,
    Send,
)
from kaa.client.group.member import GroupMember, NextStep
from kaa.limits import CLIENT_JOIN_EXTRA_MS
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k12_heartbeat import HeartbeatResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.client.group.assignors import KnownMember
    from kaa.client.group.events import Effect
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid

__all__ = ["ClassicMember", "ClassicSettings"]

NO_MEMBER_ID: Final = ""
# Answers after which it is not a member any more, and others may have its partitions.
_FORGOTTEN: Final = frozenset({Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION})
_REPEATED: Final = MOVED | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.REBALANCE_IN_PROGRESS,
    Errors.NETWORK_EXCEPTION,
}


class ClassicMember(GroupMember):
    """Decides for a member of a classic group. The driver passes events to `handle` and carries out
    the effects.
    """

    def __init__(self, settings: ClassicSettings) -> None:
        self._settings = settings
        # All of them can, or the member is eager.
        self._is_cooperative = all(one.is_cooperative for one in settings.assignors)
        super().__init__(settings.group_id, settings.max_poll_interval_ms, settings.retry_pause_ms)

    def _reset(self) -> None:
        super()._reset()
        self.member_id = NO_MEMBER_ID
        # NO_GENERATION while it is not a member, yet or any more.
        self.generation_id = NO_GENERATION
        # What it was assigned last, which eager members gave up since.
        self._before: tuple[TopicPartition, ...] = ()
        # Of the leader alone: members that wait to be assigned partitions, and how many partitions
        # the topics that they want (`watched`) had when it assigned them.
        self._members: list[KnownMember] | None = None
        self._known: dict[str, int] | None = None
        self._protocol = ""
        self._retry_at_ms: float | None = None
        self._needs_rejoin = False
        self._reason: str | None = None

    # --- what happens

    def deadline_ms(self) -> float | None:
        """When the next Tick is due; None while something else has to happen first."""
        if self._is_under_way:
            return None
        if self._retry_at_ms is not None:
            return self._retry_at_ms
        if self._is_member:
            return min(self._heartbeat_at_ms, self._poll_deadline_ms)
        return None

    @property
    def _is_member(self) -> bool:
        return self.generation_id != NO_GENERATION and self.state in {
            MemberState.STABLE,
            MemberState.RECONCILING,
        }

    def _subscribe(
        self, topics: frozenset[str], pattern: str | None, now_ms: float
    ) -> list[Effect]:
        if topics == self._topics and self.state is not MemberState.OUTSIDE:
            return []
        self._topics = topics
        if self.state is MemberState.OUTSIDE:
            self.state = MemberState.UNJOINED
            self._polled_ms = now_ms
        else:
            self._rejoin("the topics of the member changed")
        return []

    def _rejoin(self, reason: str) -> None:
        self._needs_rejoin = True
        self._reason = reason

    def _poll(self, now_ms: float) -> list[Effect]:
        if self.state is MemberState.UNJOINED:
            return self._prepare(now_ms)
        if self.state is MemberState.STABLE and self._needs_rejoin:
            return self._prepare(now_ms)
        return []

    def _prepare(self, now_ms: float) -> list[Effect]:
        """Gives up what has to be given up before the member may join."""
        if self._retry_at_ms is not None or self._is_under_way:
            # A heartbeat is under way, or a pause is wanted: the next poll comes back to it.
            return []
        self._needs_rejoin = False
        revoked = self.owned
        is_lost = self.generation_id == NO_GENERATION
        if self._is_cooperative and not is_lost:
            revoked = tuple(one for one in self.owned if one.topic not in self._topics)
        if not revoked:
            return self._join(now_ms)
        kept = tuple(one for one in self.owned if one not in set(revoked))
        return [self._ask_for(Revoke(revoked, is_lost), NextStep.JOIN, kept)]

    def _done(
        self, after: NextStep, before: tuple[TopicPartition, ...], now_ms: float
    ) -> list[Effect]:
        if self.generation_id == NO_GENERATION and self.owned:
            # Meanwhile the member ceased to be one.
            return [self._ask_for(Revoke(self.owned, is_lost=True), NextStep.UNJOINED, ())]
        if after is NextStep.JOIN:
            return self._join(now_ms)
        if after is NextStep.ASSIGN:
            target = self._before
            added = tuple(one for one in target if one not in set(before))
            return [self._ask_for(Assign(target, added), NextStep.STABLE, target)]
        is_member = self.generation_id != NO_GENERATION
        self.state = MemberState.STABLE if is_member else MemberState.UNJOINED
        return self._tick(now_ms)

    def _tick(self, now_ms: float) -> list[Effect]:
        if self._is_under_way:
            return []
        if self._retry_at_ms is not None:
            if now_ms < self._retry_at_ms:
                return []
            self._retry_at_ms = None
            if self.state is MemberState.JOINING:
                return self._join(now_ms)
        if not self._is_member:
            return []
        if now_ms >= self._poll_deadline_ms:
            return self._leave_for_a_while()
        if now_ms >= self._heartbeat_at_ms:
            self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
            request = heartbeat_request(self._settings, self.member_id, self.generation_id)
            return [self._send(request)]
        return []

    def _leave_for_a_while(self) -> list[Effect]:
        effects: list[Effect] = [self._too_slow()]
        if self._settings.instance_id is None:
            reason = "max.poll.interval.ms passed without a poll"
            effects.append(self._send(leave_request(self._settings, self.member_id, reason)))
            self.member_id = NO_MEMBER_ID
        return effects + self._lose()

    # --- joining

    def _join(self, now_ms: float) -> list[Effect]:
        if not self._topics:
            return []
        self.state = MemberState.JOINING
        if self._is_under_way:
            # A heartbeat left while the application gave partitions up; after its answer.
            self._retry_at_ms = now_ms
            return []
        settings = self._settings
        request = join_request(
            settings,
            self.member_id,
            self.generation_id,
            self._topics,
            owned=self.owned,
            before=self._before,
            reason=self._reason,
        )
        # The coordinator answers when all have joined or this time is up.
        return [self._send(request, settings.max_poll_interval_ms + CLIENT_JOIN_EXTRA_MS)]

    def _answered(self, response: Any, now_ms: float) -> list[Effect]:
        if isinstance(response, HeartbeatResponse):
            return self._heartbeat_answered(Errors.of(response.error_code), now_ms)
        if isinstance(response, JoinGroupResponse):
            return self._join_answered(response, now_ms)
        if isinstance(response, SyncGroupResponse):
            return self._sync_answered(response, now_ms)
        return []

    def _retry(self, at_ms: float) -> None:
        self._retry_at_ms = self._heartbeat_at_ms = at_ms

    def _join_answered(self, response: JoinGroupResponse, now_ms: float) -> list[Effect]:
        error = Errors.of(response.error_code)
        if error is Errors.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return self._join(now_ms)
        if error is not Errors.NONE:
            return self._join_refused(error, now_ms)
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        self._protocol = response.protocol_name or ""
        self._reason = None
        self._members = self._known = None
        self.watched = frozenset()
        if response.leader != self.member_id:
            return [self._sync({})]
        try:
            members = members_of(response)
        except WireError as problem:
            return self._refused(ClientError(f"a member of the group cannot be read: {problem}"))
        self.watched = frozenset(topic for one in members for topic in one.subscription.topics)
        if response.skip_assignment:
            # A static member that came back: the assignment is the one that it made before.
            return [self._sync({}), FindTopics(self.watched)]
        self._members = members
        return [FindTopics(self.watched)]

    def _join_refused(self, error: Errors, now_ms: float) -> list[Effect]:
        if error in _FORGOTTEN:
            if error is Errors.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID
            self.generation_id = NO_GENERATION
            return self._lose_and_join(now_ms)
        if error in _REPEATED:
            return self._pause(now_ms, moved=error in MOVED)
        return self._refused(self._error(error, "cannot join"))

    def _lose_and_join(self, now_ms: float) -> list[Effect]:
        if not self.owned:
            return self._join(now_ms)
        return [self._ask_for(Revoke(self.owned, is_lost=True), NextStep.JOIN, ())]

    def _take_topics(
        self, partitions: Mapping[str, int], names: Mapping[Uuid, str], now_ms: float
    ) -> list[Effect]:
        if self._members is not None:
            members, self._members = self._members, None
            assignor = next(
                (one for one in self._settings.assignors if one.name == self._protocol), None
            )
            if assignor is None:
                what = f"the group chose assignor {self._protocol!r}, unknown here"
                return self._refused(ClientError(what))
            self._known = dict(partitions)
            return [self._sync(assignor.assign(partitions, members))]
        if self.watched and partitions != self._known:
            if self._known is not None:
                self._rejoin("topics have other partitions than before")
            self._known = dict(partitions)
        return []

    def _sync(self, assignments: Mapping[str, Sequence[TopicPartition]]) -> Send:
        request = sync_request(
            self._settings, self.member_id, self.generation_id, self._protocol, assignments
        )
        return self._send(request, self._settings.max_poll_interval_ms + CLIENT_JOIN_EXTRA_MS)

    def _sync_answered(self, response: SyncGroupResponse, now_ms: float) -> list[Effect]:
        error = Errors.of(response.error_code)
        if error is Errors.REBALANCE_IN_PROGRESS:
            return self._join(now_ms)
        if error is not Errors.NONE:
            return self._join_refused(error, now_ms)
        try:
            assignment = decode_assignment(bytes(response.assignment))
        except WireError as problem:
            return self._refused(ClientError(f"the assignment cannot be read: {problem}"))
        self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self._retry_at_ms = None
        target = self._before = assignment.partitions
        revoked = tuple(one for one in self.owned if one not in set(target))
        if revoked:
            self._rejoin("partitions were given up")
            kept = tuple(one for one in self.owned if one in set(target))
            return [self._ask_for(Revoke(revoked), NextStep.ASSIGN, kept)]
        added = tuple(one for one in target if one not in set(self.owned))
        return [self._ask_for(Assign(target, added), NextStep.STABLE, target)]

    # --- being a member

    def _heartbeat_answered(self, error: Errors, now_ms: float) -> list[Effect]:
        if error is Errors.NONE:
            return []
        if error is Errors.REBALANCE_IN_PROGRESS:
            # To a member that is about to join this is nothing new.
            if self.state is not MemberState.JOINING:
                self._rejoin("the group is rebalancing")
            return []
        if error in _FORGOTTEN:
            if error is Errors.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID
            return self._lose()
        if error in _REPEATED:
            return self._pause(now_ms, moved=error in MOVED)
        return self._refused(self._error(error, "heartbeat"))

    def commit_refused(self, error: Errors, now_ms: float) -> list[Effect]:
        """The answer to a commit says that the member is not one any more."""
        if error is Errors.REBALANCE_IN_PROGRESS:
            self._rejoin("a commit met a rebalance")
        elif error in _FORGOTTEN and self._is_member:
            if error is Errors.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID
            return self._lose()
        elif error is Errors.FENCED_INSTANCE_ID:
            return self._refused(self._error(error, "commit"))
        return []

    def _end_membership(self) -> None:
        self.generation_id = NO_GENERATION
        self._before = ()
        self._needs_rejoin = False
        # A pause or a list of members from before is nothing to the next attempt.
        self._retry_at_ms = self._members = None

    def _leave(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.member_id != NO_MEMBER_ID and self._settings.instance_id is None:
            # Sent whatever else is under way, since nobody waits for that any more.
            reason = "the consumer is being closed"
            effects = [Send(leave_request(self._settings, self.member_id, reason))]
        self._reset()
        return effects

    def _error(self, error: Errors, what: str) -> KafkaError:
        return KafkaError(error, f"group {self._settings.group_id!r}: {what}")
