"""A member of a classic group: it joins, one of them assigns, all heartbeat. The machine.

::

    UNJOINED --Poll--> RECONCILING: Revoke --Done--> JOINING: JoinGroup
       JoinGroup answered, leader:   topics of all members are looked up, it assigns, SyncGroup
       JoinGroup answered, follower: SyncGroup without assignments
       SyncGroup answered: RECONCILING: Revoke and Assign --Done--> STABLE
    STABLE, heartbeats in between --REBALANCE_IN_PROGRESS or other topics--> rejoins at a Poll

*Eager* members give everything up before they rejoin. *Cooperative* ones keep what they have, tell
the leader of it, and give up after SyncGroup what they shall not have any more; if that was
something, they rejoin at once, so that others can get it.

A member that was away too long (``max.poll.interval.ms`` without a poll) leaves, since others
can do its work; it joins again at the next poll. A generation that is over, or a member id that
the coordinator does not know any more, means that others may have its partitions: they are lost,
not revoked, and nothing of them can be committed.

A refusal that does not pass by itself, as for want of a permission, is told to the application. The
member is none then; the next poll tries again, and gets in once the cause is gone.

Heartbeats go on while the application gives up partitions and while it does not poll. They stop
between JoinGroup and the answer to SyncGroup, when the coordinator does not expect any.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from kaa.client.consumer_protocol import NO_GENERATION, decode_assignment
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
from kaa.client.group.events import (
    Answered,
    Assign,
    Done,
    Fail,
    FindCoordinator,
    FindTopics,
    Leave,
    MemberState,
    Poll,
    Revoke,
    Send,
    Subscribe,
    Tick,
    Topics,
    Unanswered,
)
from kaa.limits import CLIENT_JOIN_EXTRA_MS
from kaa.wire.errors import Errors
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k12_heartbeat import HeartbeatResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse
from kaa.wire.primitives import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.client.group.assignors import GroupMember
    from kaa.client.group.events import Effect, Event
    from kaa.client.metadata import TopicPartition
    from kaa.wire.schema import Request

__all__ = ["ClassicMember", "ClassicSettings"]

NO_MEMBER_ID: Final = ""
# Answers after which the member is none any more, and others may have its partitions.
_FORGOTTEN: Final = frozenset({Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION})
_REPEATED: Final = MOVED | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.REBALANCE_IN_PROGRESS,
    Errors.NETWORK_EXCEPTION,
}


class _Step(Enum):
    """What follows when the application is done."""

    NOTHING = 0
    JOIN = 1
    ASSIGN = 2
    STABLE = 3
    UNJOINED = 4


class ClassicMember:
    """See the module's text."""

    def __init__(self, settings: ClassicSettings) -> None:
        self._settings = settings
        # All of them can, or the member is eager.
        self._is_cooperative = all(one.is_cooperative for one in settings.assignors)
        self._reset()

    def _reset(self) -> None:
        self.state = MemberState.OUTSIDE
        self.member_id = NO_MEMBER_ID
        # NO_GENERATION: the member is none, or none any more.
        self.generation_id = NO_GENERATION
        self.owned: tuple[TopicPartition, ...] = ()
        # What it was assigned last, which eager members gave up since.
        self._before: tuple[TopicPartition, ...] = ()
        self._topics: frozenset[str] = frozenset()
        # Of the leader alone: members that wait to be assigned partitions, the topics that they
        # want, and how many partitions these had when it assigned them.
        self._members: list[GroupMember] | None = None
        self.watched: frozenset[str] = frozenset()
        self._known: dict[str, int] | None = None
        self._protocol = ""
        self._is_under_way = False
        self._heartbeat_at_ms = 0.0
        self._retry_at_ms: float | None = None
        self._polled_ms = 0.0
        self._needs_rejoin = False
        self._reason: str | None = None
        # What follows when the application is done with what it was told, and what it has then.
        self._after = _Step.NOTHING
        self._target: tuple[TopicPartition, ...] = ()

    # --- what happens

    def handle(self, event: Event, now_ms: float) -> list[Effect]:
        match event:
            case Poll():
                return self._poll(now_ms)
            case Tick():
                return self._tick(now_ms)
            case Answered(response):
                self._is_under_way = False
                return self._answered(response, now_ms)
            case Unanswered(error):
                self._is_under_way = False
                return self._unanswered(error, now_ms)
            case Done():
                return self._done(now_ms)
            case Topics(partitions, _):
                return self._take_topics(partitions, now_ms)
            case Subscribe(topics, _):
                return self._subscribe(topics, now_ms)
            case Leave():
                return self._leave()

    def deadline_ms(self) -> float | None:
        """When the next Tick is due; None while something else has to happen first."""
        if self._is_under_way:
            return None
        if self._retry_at_ms is not None:
            return self._retry_at_ms
        if self._is_member:
            return min(self._heartbeat_at_ms, self._polled_ms + self._settings.max_poll_interval_ms)
        return None

    @property
    def _is_member(self) -> bool:
        return self.generation_id != NO_GENERATION and self.state in {
            MemberState.STABLE,
            MemberState.RECONCILING,
        }

    def _subscribe(self, topics: frozenset[str], now_ms: float) -> list[Effect]:
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
        self._polled_ms = now_ms
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
        return [self._ask_for(Revoke(revoked, is_lost), _Step.JOIN, kept)]

    def _ask_for(
        self, effect: Revoke | Assign, after: _Step, target: tuple[TopicPartition, ...]
    ) -> Effect:
        """Lets the application do something; it has ``target`` when it is done."""
        self.state = MemberState.RECONCILING
        self._after = after
        self._target = target
        return effect

    def _done(self, now_ms: float) -> list[Effect]:
        after, self._after = self._after, _Step.NOTHING
        before, self.owned = self.owned, self._target
        if self.generation_id == NO_GENERATION and self.owned:
            # Meanwhile the member ceased to be one.
            return [self._ask_for(Revoke(self.owned, is_lost=True), _Step.UNJOINED, ())]
        if after is _Step.JOIN:
            return self._join(now_ms)
        if after is _Step.ASSIGN:
            target = self._before
            added = tuple(one for one in target if one not in set(before))
            return [self._ask_for(Assign(target, added), _Step.STABLE, target)]
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
        if now_ms >= self._polled_ms + self._settings.max_poll_interval_ms:
            return self._too_slow(now_ms)
        if now_ms >= self._heartbeat_at_ms:
            self._heartbeat_at_ms = now_ms + self._settings.heartbeat_interval_ms
            request = heartbeat_request(self._settings, self.member_id, self.generation_id)
            return [self._send(request)]
        return []

    def _too_slow(self, now_ms: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._settings.instance_id is None:
            reason = "max.poll.interval.ms passed without a poll"
            effects = [self._send(leave_request(self._settings, self.member_id, reason))]
            self.member_id = NO_MEMBER_ID
        return effects + self._forget()

    def _send(self, request: Request, timeout_ms: int | None = None) -> Send:
        assert not self._is_under_way
        self._is_under_way = True
        return Send(request, timeout_ms)

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

    def _unanswered(self, error: ClientError, now_ms: float) -> list[Effect]:
        if not error.retriable:
            return self._refused(error)
        return self._pause(now_ms, moved=True)

    def _pause(self, now_ms: float, *, moved: bool) -> list[Effect]:
        """The request is sent again in a while, perhaps to another coordinator."""
        self._retry_at_ms = self._heartbeat_at_ms = now_ms + self._settings.retry_pause_ms
        return [FindCoordinator()] if moved else []

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
        return [self._ask_for(Revoke(self.owned, is_lost=True), _Step.JOIN, ())]

    def _take_topics(self, partitions: Mapping[str, int], now_ms: float) -> list[Effect]:
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
            return [self._ask_for(Revoke(revoked), _Step.ASSIGN, kept)]
        added = tuple(one for one in target if one not in set(self.owned))
        return [self._ask_for(Assign(target, added), _Step.STABLE, target)]

    # --- being a member

    def _heartbeat_answered(self, error: Errors, now_ms: float) -> list[Effect]:
        if error is Errors.NONE:
            return []
        if error is Errors.REBALANCE_IN_PROGRESS:
            # A member that is about to join has nothing to be told.
            if self.state is not MemberState.JOINING:
                self._rejoin("the group is rebalancing")
            return []
        if error in _FORGOTTEN:
            if error is Errors.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID
            return self._forget()
        if error in _REPEATED:
            return self._pause(now_ms, moved=error in MOVED)
        return self._refused(self._error(error, "heartbeat"))

    def commit_refused(self, error: Errors, now_ms: float) -> list[Effect]:
        """A commit told the member that it is none any more."""
        if error is Errors.REBALANCE_IN_PROGRESS:
            self._rejoin("a commit met a rebalance")
        elif error in _FORGOTTEN and self._is_member:
            if error is Errors.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID
            return self._forget()
        elif error is Errors.FENCED_INSTANCE_ID:
            return self._refused(self._error(error, "commit"))
        return []

    def _forget(self) -> list[Effect]:
        """The member is none any more; the application is told, then it may join again."""
        self.generation_id = NO_GENERATION
        self._before = ()
        self._needs_rejoin = False
        # A pause or a list of members from before is nothing to the next attempt.
        self._retry_at_ms = self._members = None
        if self._after is not _Step.NOTHING:
            # The application is at work; what it still has then is lost when it is done.
            return []
        if not self.owned:
            self.state = MemberState.UNJOINED
            return []
        return [self._ask_for(Revoke(self.owned, is_lost=True), _Step.UNJOINED, ())]

    def _leave(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.member_id != NO_MEMBER_ID and self._settings.instance_id is None:
            # Sent whatever else is under way, since nobody waits for that any more.
            reason = "the consumer is being closed"
            effects = [Send(leave_request(self._settings, self.member_id, reason))]
        self._reset()
        return effects

    def _refused(self, error: ClientError) -> list[Effect]:
        """The application is told; the member is none, and joins again at a later poll."""
        return [Fail(error), *self._forget()]

    def _error(self, error: Errors, what: str) -> KafkaError:
        return KafkaError(error, f"group {self._settings.group_id!r}: {what}")
