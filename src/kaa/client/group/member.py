"""What members of both protocols have in common: the base of the two machines.

A member hears of events and gives effects (`events`). Whatever the protocol, it

- polls with its application, and leaves if that does not poll for `max.poll.interval.ms`;
- has at most one request under way, and repeats it after a pause where that may help;
- lets the application give up and take partitions one step at a time (`_ask_for`, then `Done`),
  and knows what comes after the step;
- may cease to be a member at any moment: what it owns is then lost, and the application hears of it
  before the member joins again.

| `state` | Left by |
|---|---|
| OUTSIDE | `Subscribe` |
| UNJOINED | `Poll`, which joins |
| JOINING | the answer to the request |
| RECONCILING | `Done` |
| STABLE | another assignment, a rebalance, or the end of membership |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

from kaa.client.group.events import (
    Answered,
    Done,
    Fail,
    FindCoordinator,
    Leave,
    MemberState,
    Poll,
    Revoke,
    Send,
    Subscribe,
    Tick,
    Topics,
    Unanswered,
    Warn,
    Withdraw,
    Withdrawn,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.client.errors import ClientError
    from kaa.client.group.events import Assign, Effect, Event
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import Request


class NextStep(Enum):
    """What follows when the application is done."""

    NOTHING = 0
    JOIN = 1
    ASSIGN = 2
    STABLE = 3
    UNJOINED = 4


class GroupMember(ABC):
    """The base of both kinds of members: `handle` takes an event and returns effects, and is never
    called from within an effect.
    """

    def __init__(self, group_id: str, max_poll_interval_ms: int, retry_pause_ms: int) -> None:
        self._group_id = group_id
        self._max_poll_interval_ms = max_poll_interval_ms
        self._retry_pause_ms = retry_pause_ms
        self._reset()

    def _reset(self) -> None:
        self.state = MemberState.OUTSIDE
        # What the application has now.
        self.owned: tuple[TopicPartition, ...] = ()
        # Topics whose partitions the driver looks at now and then.
        self.watched: frozenset[str] = frozenset()
        self._topics: frozenset[str] = frozenset()
        self._is_under_way = False
        self._heartbeat_at_ms = 0.0
        self._polled_ms = 0.0
        # What follows when the application is done with what it was asked, and what it has then.
        self._after = NextStep.NOTHING
        self._next_owned: tuple[TopicPartition, ...] = ()

    # --- what happens

    def handle(self, event: Event, now_ms: float) -> list[Effect]:
        """Takes an event in, and gives what is to be done, in order."""
        match event:
            case Poll():
                self._polled_ms = now_ms
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
                after, self._after = self._after, NextStep.NOTHING
                before, self.owned = self.owned, self._next_owned
                return self._done(after, before, now_ms)
            case Topics(partitions, names):
                return self._take_topics(partitions, names, now_ms)
            case Subscribe(topics, pattern):
                return self._subscribe(topics, pattern, now_ms)
            case Leave():
                return self._leave()
            case Withdrawn():
                self._after = NextStep.NOTHING
                return self._lose()

    @abstractmethod
    def _poll(self, now_ms: float) -> list[Effect]: ...

    @abstractmethod
    def _tick(self, now_ms: float) -> list[Effect]: ...

    @abstractmethod
    def _answered(self, response: Any, now_ms: float) -> list[Effect]: ...

    @abstractmethod
    def _done(
        self, after: NextStep, before: tuple[TopicPartition, ...], now_ms: float
    ) -> list[Effect]: ...

    @abstractmethod
    def _take_topics(
        self, partitions: Mapping[str, int], names: Mapping[Uuid, str], now_ms: float
    ) -> list[Effect]: ...

    @abstractmethod
    def _subscribe(
        self, topics: frozenset[str], pattern: str | None, now_ms: float
    ) -> list[Effect]: ...

    @abstractmethod
    def _leave(self) -> list[Effect]: ...

    @abstractmethod
    def _end_membership(self) -> None:
        """Forgets what the group gave the member: it may join again as a stranger."""

    @abstractmethod
    def _retry(self, at_ms: float) -> None:
        """Notes that the request which failed is sent again at this time."""

    # --- requests

    def _send(self, request: Request, timeout_ms: int | None = None) -> Send:
        assert not self._is_under_way
        self._is_under_way = True
        return Send(request, timeout_ms)

    def _unanswered(self, error: ClientError, now_ms: float) -> list[Effect]:
        if not error.retriable:
            return self._refused(error)
        return self._pause(now_ms, moved=True)

    def _pause(self, now_ms: float, *, moved: bool) -> list[Effect]:
        """The request is sent again in a while, perhaps to another coordinator."""
        self._retry(now_ms + self._retry_pause_ms)
        return [FindCoordinator()] if moved else []

    # --- the application

    @property
    def _poll_deadline_ms(self) -> float:
        return self._polled_ms + self._max_poll_interval_ms

    def _too_slow(self) -> Warn:
        return Warn(
            f"the application did not poll for max.poll.interval.ms={self._max_poll_interval_ms}, "
            f"so the consumer leaves group {self._group_id!r} and others take over; poll more "
            "often, lower max.poll.records, or raise max.poll.interval.ms"
        )

    def _ask_for(
        self, effect: Revoke | Assign, after: NextStep, owned: tuple[TopicPartition, ...]
    ) -> Effect:
        """Lets the application do something; it has `owned` when it is done."""
        self.state = MemberState.RECONCILING
        self._after = after
        self._next_owned = owned
        return effect

    def _lose(self) -> list[Effect]:
        """It is not a member any more; the application is notified, then it may join again."""
        self._end_membership()
        if self._after is not NextStep.NOTHING:
            # If the application is at work, what it still has then is lost when it is done.
            return [Withdraw()]
        if not self.owned:
            self.state = MemberState.UNJOINED
            return []
        return [self._ask_for(Revoke(self.owned, is_lost=True), NextStep.UNJOINED, ())]

    def _refused(self, error: ClientError) -> list[Effect]:
        """The application gets the error; the member is lost, and joins again at a later poll."""
        return [Fail(error), *self._lose()]
