"""A member of a group of the newer protocol (KIP-848): the broker assigns. The machine.

There is one request, ConsumerGroupHeartbeat. It says what changed since the last one and is
answered with the epoch of the member and, when it changed, with what the member is to have:

    UNJOINED --Poll--> JOINING: heartbeat with epoch 0 and everything the member wants
    answered --> STABLE, or with an assignment RECONCILING:
        Revoke what it has and is not to have --Done--> Assign the rest --Done-->
        heartbeat at once that says what it has now --> STABLE
    FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: what it has is lost, it joins again with epoch 0
    any other refusal: likewise, after the application was notified

The broker gives a partition to its new owner only after the old one said that it no longer has it.
Heartbeats go on in the background, in the interval that the broker wants, whatever the application
does; what it has to do waits for its next poll. Topics come as ids: an assignment with ids that are
not known yet waits until they are. Without a poll for `max.poll.interval.ms` the member leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.coordinator import MOVED
from kaa.client.errors import KafkaError, UnsupportedApiError
from kaa.client.group.consumer_protocol import by_topic
from kaa.client.group.events import (
    Assign,
    FindTopics,
    MemberState,
    Revoke,
    Send,
)
from kaa.client.group.member import GroupMember, NextStep
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.client.errors import ClientError
    from kaa.client.group.events import Effect
    from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
    from kaa.wire.primitives import Uuid

_JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_LEAVE_STATIC_EPOCH: Final = -2
_FENCED: Final = frozenset({Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID})
_REPEATED: Final = MOVED | {Errors.COORDINATOR_LOAD_IN_PROGRESS}


class ConsumerSettings(NamedTuple):
    """What of a consumer's settings concerns a member."""

    group_id: str
    # A name that no other member has, made once per consumer.
    member_id: str
    instance_id: str | None
    max_poll_interval_ms: int
    retry_pause_ms: int
    assignor: str | None = None
    rack_id: str | None = None


class ConsumerMember(GroupMember):
    """Decides for a member of a group of the newer protocol. The driver passes events to `handle`
    and carries out the effects.
    """

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self.member_id = settings.member_id
        super().__init__(settings.group_id, settings.max_poll_interval_ms, settings.retry_pause_ms)

    def _reset(self) -> None:
        super()._reset()
        # Under which it may commit; 0 while it is not a member, yet or any more.
        self.epoch = _JOIN_EPOCH
        self._pattern: str | None = None
        self._names: Mapping[Uuid, str] = {}
        self._ids: dict[str, Uuid] = {}
        # The last assignment by ids, until the member has just that.
        self._target: dict[Uuid, tuple[int, ...]] | None = None
        self._says_topics = self._says_owned = True
        self._interval_ms = 0

    # --- what happens

    def _poll(self, now_ms: float) -> list[Effect]:
        if self.state is MemberState.UNJOINED and not self._is_under_way:
            return self._join(now_ms)
        return []

    def _take_topics(
        self, partitions: Mapping[str, int], names: Mapping[Uuid, str], now_ms: float
    ) -> list[Effect]:
        self._names = names
        return self._reconcile(now_ms)

    def deadline_ms(self) -> float | None:
        """When the next Tick is due; None while something else has to happen first."""
        if self._is_under_way or self.state in {MemberState.OUTSIDE, MemberState.UNJOINED}:
            return None
        if self.epoch == _JOIN_EPOCH and self.state is MemberState.RECONCILING:
            return None
        return min(self._heartbeat_at_ms, self._poll_deadline_ms)

    def _subscribe(
        self, topics: frozenset[str], pattern: str | None, now_ms: float
    ) -> list[Effect]:
        if (topics, pattern or None) == (self._topics, self._pattern or None) and (
            self.state is not MemberState.OUTSIDE
        ):
            return []
        if self._pattern is not None and pattern is None:
            pattern = ""
        self._topics, self._pattern = topics, pattern
        self._says_topics = True
        if self.state is MemberState.OUTSIDE:
            self.state = MemberState.UNJOINED
            self._polled_ms = now_ms
        elif self.epoch != _JOIN_EPOCH:
            self._heartbeat_at_ms = now_ms
            return self._tick(now_ms)
        return []

    def _join(self, now_ms: float) -> list[Effect]:
        self.state = MemberState.JOINING
        self.epoch = _JOIN_EPOCH
        self._target = None
        self._says_topics = self._says_owned = True
        self._heartbeat_at_ms = now_ms
        return self._tick(now_ms)

    def _tick(self, now_ms: float) -> list[Effect]:
        deadline_ms = self.deadline_ms()
        if deadline_ms is None or now_ms < deadline_ms:
            return []
        if now_ms >= self._poll_deadline_ms:
            return [self._too_slow(), self._send(self._leave_request()), *self._lose()]
        self._heartbeat_at_ms = now_ms + self._interval_ms
        return [self._send(self._heartbeat())]

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        settings = self._settings
        is_joining = self.epoch == _JOIN_EPOCH
        says_topics, self._says_topics = self._says_topics, False
        says_owned, self._says_owned = self._says_owned, False
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=settings.instance_id,
            rack_id=settings.rack_id if is_joining else None,
            rebalance_timeout_ms=settings.max_poll_interval_ms if is_joining else -1,
            subscribed_topic_names=sorted(self._topics) if says_topics else None,
            # Empty text takes back a pattern; members that never had one need not say so.
            subscribed_topic_regex=self._pattern if says_topics else None,
            server_assignor=settings.assignor if is_joining else None,
            topic_partitions=self._owned_by_id() if says_owned else None,
        )

    def _owned_by_id(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=self._ids[topic], partitions=numbers)
            for topic, numbers in by_topic(self.owned).items()
        ]

    # --- answers

    def _answered(self, response: Any, now_ms: float) -> list[Effect]:
        error = Errors.of(response.error_code)
        if self.state in {MemberState.OUTSIDE, MemberState.UNJOINED}:
            return []
        if error in _FENCED:
            return self._lose()
        if error in _REPEATED:
            return self._pause(now_ms, moved=error in MOVED)
        if error is not Errors.NONE:
            what = f"group {self._settings.group_id!r}: heartbeat"
            return self._refused(KafkaError(error, what, message=response.error_message))
        if self.epoch == _JOIN_EPOCH and self.state is MemberState.RECONCILING:
            # The answer to the request by which the member left.
            return []
        return self._accepted(response, now_ms)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> list[Effect]:
        self.epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        # What the answer caused is said at once, the next sign of life after the interval.
        if not (self._says_topics or self._says_owned):
            self._heartbeat_at_ms = now_ms + self._interval_ms
        if response.assignment is not None:
            self._target = {
                one.topic_id: tuple(one.partitions) for one in response.assignment.topic_partitions
            }
        if self.state is MemberState.JOINING:
            self.state = MemberState.STABLE
        return self._reconcile(now_ms) or self._tick(now_ms)

    def _unanswered(self, error: ClientError, now_ms: float) -> list[Effect]:
        if isinstance(error, UnsupportedApiError):
            return self._refused(UnsupportedApiError(f"{error}; or set group.protocol=classic"))
        return super()._unanswered(error, now_ms)

    def _retry(self, at_ms: float) -> None:
        """The heartbeat is sent again with all that it said."""
        self._heartbeat_at_ms = at_ms
        self._says_topics = self._says_owned = True

    # --- having what it is to have

    def _reconcile(self, now_ms: float) -> list[Effect]:
        if self._target is None or self._after is not NextStep.NOTHING:
            return []
        if self.epoch == _JOIN_EPOCH or self.state not in {
            MemberState.STABLE,
            MemberState.RECONCILING,
        }:
            return []
        if any(topic_id not in self._names for topic_id in self._target):
            self.state = MemberState.RECONCILING
            return [FindTopics(None)]
        target = self._named_target()
        revoked = tuple(one for one in self.owned if one not in set(target))
        if revoked:
            kept = tuple(one for one in self.owned if one in set(target))
            return [self._ask_for(Revoke(revoked), NextStep.ASSIGN, kept)]
        return self._assign(target, now_ms)

    def _named_target(self) -> tuple[TopicPartition, ...]:
        assert self._target is not None
        for topic_id in self._target:
            self._ids[self._names[topic_id]] = topic_id
        return tuple(
            TopicPartition(self._names[topic_id], number)
            for topic_id, numbers in self._target.items()
            for number in numbers
        )

    def _assign(self, target: tuple[TopicPartition, ...], now_ms: float) -> list[Effect]:
        added = tuple(one for one in target if one not in set(self.owned))
        self._target = None
        return [self._ask_for(Assign(target, added), NextStep.STABLE, target)]

    def _done(
        self, after: NextStep, before: tuple[TopicPartition, ...], now_ms: float
    ) -> list[Effect]:
        if self.epoch == _JOIN_EPOCH:
            # Meanwhile the member ceased to be one.
            return self._lose()
        if after is NextStep.ASSIGN:
            # What it gave up is said at once, so that others need not wait for the rest.
            self._says_owned = True
            self._heartbeat_at_ms = now_ms
            return self._reconcile(now_ms) + self._tick(now_ms)
        self.state = MemberState.STABLE
        self._says_owned = True
        self._heartbeat_at_ms = now_ms
        return self._reconcile(now_ms) or self._tick(now_ms)

    def _end_membership(self) -> None:
        self.epoch = _JOIN_EPOCH
        self._target = None

    def commit_refused(self, error: Errors, now_ms: float) -> list[Effect]:
        """The answer to a commit says that the member is not one any more, or has another epoch."""
        if error in _FENCED and self.epoch != _JOIN_EPOCH:
            return self._lose()
        if error is Errors.STALE_MEMBER_EPOCH:
            self._heartbeat_at_ms = now_ms
        return []

    def _leave(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.epoch != _JOIN_EPOCH or self.state is MemberState.JOINING:
            effects = [Send(self._leave_request())]
        self._reset()
        return effects

    def _leave_request(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self._settings.instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            instance_id=self._settings.instance_id,
            member_epoch=_LEAVE_STATIC_EPOCH if is_static else _LEAVE_EPOCH,
        )
