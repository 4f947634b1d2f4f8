"""The task of a member of a group: it sends what the machine wants sent, and tells it the time.

Effects for the application are kept in `for_user` until it polls; everything else happens here,
one thing after the other, on the connection that is kept for the coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from kaa.client.coordinator import CoordinatorType
from kaa.client.errors import ClientError
from kaa.client.group.events import (
    Answered,
    Assign,
    Fail,
    FindCoordinator,
    FindTopics,
    Leave,
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
from kaa.client.waiting import wait_for_event
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection
    from kaa.client.group.events import Effect, Event
    from kaa.model.topics import TopicPartition
    from kaa.wire.errors import Errors
    from kaa.wire.schema import Request

_LEAVE_SEVERAL_VERSION: Final = 3


class Member(Protocol):
    """What both machines have in common."""

    member_id: str
    owned: tuple[TopicPartition, ...]
    watched: frozenset[str]

    def handle(self, event: Event, now_ms: float) -> list[Effect]:
        """Takes an event in, and gives what is to be done, in order."""
        ...

    def deadline_ms(self) -> float | None:
        """When a `Tick` is due at the latest; None if nothing is awaited."""
        ...

    def commit_refused(self, error: Errors, now_ms: float) -> list[Effect]:
        """What a refused commit means for the membership."""
        ...


_log = logging.getLogger(__name__)


class GroupDriver:
    """Runs the machine of a member. `run` is its task; the consumer passes events in (`handle`,
    `subscribe`) and takes `for_user` out when it polls. `leave` ends it.
    """

    def __init__(
        self, member: Member, group_id: str, cluster: Cluster, wake_user: Callable[[], None]
    ) -> None:
        self.member = member
        self._group_id = group_id
        self._cluster = cluster
        self._wake_user = wake_user
        self.for_user: deque[Revoke | Assign | Fail] = deque()
        self._work: deque[Send | FindTopics] = deque()
        self._woken = asyncio.Event()
        # Topics by name, or those that a test says yes to, looked for among all.
        self._names: frozenset[str] = frozenset()
        self._matches: Callable[[str], bool] | None = None
        # The broker looks for topics itself, and only their ids have to be found.
        self._pattern: str | None = None
        self._refresh_at_ms = 0.0
        # Names that were not found yet, and when they are looked for; only to tell the user.
        self._missing: frozenset[str] = frozenset()
        self._look_at_ms = 0.0
        self._is_joining = False
        self._is_leaving = False

    # --- events

    def handle(self, event: Event) -> None:
        """Passes an event to the machine, and takes its effects over."""
        self._take(self.member.handle(event, self._cluster.clock.monotonic_ms()))

    def commit_refused(self, error: Errors) -> None:
        """Has the machine decide what a refused commit means."""
        self._take(self.member.commit_refused(error, self._cluster.clock.monotonic_ms()))

    def subscribe(
        self,
        names: frozenset[str],
        matches: Callable[[str], bool] | None = None,
        pattern: str | None = None,
    ) -> None:
        """By names, by a test of names that is made here, or by a pattern for the broker."""
        self._names, self._matches, self._pattern = names, matches, pattern
        self._refresh_at_ms = (
            0.0 if matches is not None else self._cluster.clock.monotonic_ms() + self._max_age_ms
        )
        self._missing, self._look_at_ms = names, self._cluster.clock.monotonic_ms()
        if matches is None:
            self.handle(Subscribe(names, pattern))
        self._woken.set()

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, FindCoordinator):
                self._cluster.coordinators.forget(CoordinatorType.GROUP, self._group_id)
            elif isinstance(effect, Send | FindTopics):
                self._work.append(effect)
            elif isinstance(effect, Withdraw):
                self._withdraw()
            elif isinstance(effect, Warn):
                _log.warning("%s", effect.text)
            else:
                self.for_user.append(effect)
                self._wake_user()
        self._woken.set()

    def _withdraw(self) -> None:
        """Takes back what waits for a poll, since it was said to one that is not a member now."""
        waiting = [one for one in self.for_user if isinstance(one, Revoke | Assign)]
        for one in waiting:
            self.for_user.remove(one)
        if waiting:
            self.handle(Withdrawn())

    # --- the task

    async def run(self) -> None:
        """Sends and waits, until `leave`."""
        while not self._is_leaving:
            self._woken.clear()
            if self._work:
                work = self._work.popleft()
                if isinstance(work, Send):
                    await self._send(work)
                else:
                    await self._find_topics(work.names)
                continue
            now_ms = self._cluster.clock.monotonic_ms()
            if now_ms >= self._refresh_at_ms and self._wants_refresh:
                await self._refresh()
                continue
            if self._missing and now_ms >= self._look_at_ms:
                await self._look_for_missing()
                continue
            deadline_ms = self.member.deadline_ms()
            if deadline_ms is not None and now_ms >= deadline_ms:
                self.handle(Tick())
                continue
            times = [] if deadline_ms is None else [deadline_ms]
            if self._wants_refresh:
                times.append(self._refresh_at_ms)
            if self._missing:
                times.append(self._look_at_ms)
            await wait_for_event(self._woken, min(times) - now_ms if times else None)

    async def _send(self, work: Send) -> None:
        event: Event
        about = ("group", self._group_id)
        try:
            connection = await self._cluster.coordinators.connection(
                CoordinatorType.GROUP, self._group_id
            )
            self._is_joining = work.timeout_ms is not None
            request = _fitting(work.request, connection)
            response = await connection.request(request, timeout_ms=work.timeout_ms)
            event = Answered(response)
            self._cluster.complaints.settle(about, "group %r has a coordinator", self._group_id)
        except ClientError as error:
            event = Unanswered(error)
            text = "group %r does not reach its coordinator: %s"
            self._cluster.complaints.warn(about, text, self._group_id, error, after=3)
        self._is_joining = False
        self.handle(event)
        # The application may wait for the next step, as for a heartbeat before it can rejoin.
        self._wake_user()

    # --- topics

    @property
    def _max_age_ms(self) -> int:
        return self._cluster.values.get_int("metadata.max.age.ms")

    @property
    def _wants_refresh(self) -> bool:
        return self._matches is not None or bool(self.member.watched)

    async def _find_topics(self, names: frozenset[str] | None) -> None:
        """Asks until it gets an answer, since the leader cannot assign without."""
        backoff = self._cluster.backoff()
        while True:
            try:
                if names is not None:
                    await self._cluster.fetch_metadata(names)
                else:
                    await self._cluster.fetch_metadata(None if self._pattern else self._names)
                break
            except ClientError as error:
                self._tell_failure(error)
            await asyncio.sleep(backoff.next_ms() / 1000)
        self._tell_topics(names or frozenset())
        if names is None and self._work:
            # What was looked for is not there yet; it is looked for again after a pause.
            await asyncio.sleep(backoff.next_ms() / 1000)

    async def _look_for_missing(self) -> None:
        """Tells the user of topics that are not there, and the application of forbidden ones."""
        cluster = self._cluster
        pause_ms = cluster.values.get_int("retry.backoff.max.ms")
        self._look_at_ms = cluster.clock.monotonic_ms() + pause_ms
        try:
            await cluster.fetch_metadata(self._missing)
        except ClientError as error:
            self._tell_failure(error)
            return
        cluster.complain_of_topics(sorted(self._missing))
        errors = cluster.metadata.topic_errors
        self._missing = frozenset(name for name in self._missing if name in errors)
        for name in sorted(self._missing):
            self._tell_failure(cluster.metadata.error_of(name))

    def _tell_failure(self, error: ClientError) -> None:
        """The application hears of what does not pass by itself, once until it polls."""
        if not error.retriable and not any(isinstance(one, Fail) for one in self.for_user):
            self.for_user.append(Fail(error))
            self._wake_user()

    def _tell_topics(self, names: frozenset[str]) -> None:
        known = self._cluster.metadata.topics
        counts = {name: len(known[name].partitions) for name in names if name in known}
        is_missing = len(counts) < len(names)
        pause_ms = self._cluster.values.get_int("retry.backoff.max.ms")
        self._refresh_at_ms = self._cluster.clock.monotonic_ms() + (
            pause_ms if is_missing else self._max_age_ms
        )
        self.handle(Topics(counts, self._cluster.metadata.topic_names))

    async def _refresh(self) -> None:
        """Topics come and go, and get more partitions."""
        watched = self.member.watched
        try:
            await self._cluster.fetch_metadata(None if self._matches is not None else watched)
        except ClientError as error:
            self._tell_failure(error)
            pause_ms = self._cluster.values.get_int("retry.backoff.max.ms")
            self._refresh_at_ms = self._cluster.clock.monotonic_ms() + pause_ms
            return
        if self._matches is not None:
            found = frozenset(name for name in self._cluster.metadata.topics if self._matches(name))
            self._refresh_at_ms = self._cluster.clock.monotonic_ms() + self._max_age_ms
            if not found:
                pause_ms = self._cluster.values.get_int("retry.backoff.max.ms")
                self._refresh_at_ms = self._cluster.clock.monotonic_ms() + pause_ms
            self.handle(Subscribe(found))
            self._wake_user()
        if watched:
            refresh_at_ms = self._refresh_at_ms
            self._tell_topics(watched)
            if self._matches is not None:
                self._refresh_at_ms = min(refresh_at_ms, self._refresh_at_ms)

    # --- the end

    async def leave(self, seconds_max: float) -> None:
        """Tells the coordinator; failures are nobody's business any more."""
        self._is_leaving = True
        self._work.clear()
        self.handle(Leave())
        for work in list(self._work):
            if isinstance(work, Send):
                try:
                    async with asyncio.timeout(seconds_max):
                        connection = await self._free_connection()
                        await connection.request(_fitting(work.request, connection))
                except (ClientError, TimeoutError):
                    pass
        self._work.clear()

    async def _free_connection(self) -> Connection:
        """A request sent after a JoinGroup that waits for others would wait as long."""
        coordinators = self._cluster.coordinators
        if self._is_joining:
            node_id = await coordinators.node(CoordinatorType.GROUP, self._group_id)
            return await self._cluster.connection(node_id)
        return await coordinators.connection(CoordinatorType.GROUP, self._group_id)


def _fitting(request: Request, connection: Connection) -> Request:
    """Brokers before Kafka 2.4 let one member leave by one request."""
    if (
        isinstance(request, LeaveGroupRequest)
        and connection.version_of(ApiKey.LEAVE_GROUP) < _LEAVE_SEVERAL_VERSION
    ):
        (member,) = request.members
        return LeaveGroupRequest(group_id=request.group_id, member_id=member.member_id)
    return request
