"""A consumer's part in a group: subscription, rebalances with their listener, and commits.

What a rebalance means for the application happens inside `poll`: the positions are committed if
that is wanted, the listener is called, the partitions change. A commit carries the member's id and
generation (or epoch), so that one that was thrown out cannot commit what others do now.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kaa.client.coordinator import MOVED, NOT_READY, CoordinatorType
from kaa.client.errors import (
    ClientError,
    CommitFailedError,
    DisconnectedError,
    RequestTimeoutError,
)
from kaa.client.group.assignors import assignors_of
from kaa.client.group.classic_machine import ClassicMember, ClassicSettings
from kaa.client.group.consumer_machine import ConsumerMember, ConsumerSettings
from kaa.client.group.driver import GroupDriver
from kaa.client.group.events import Done, Fail, MemberState, Poll, Revoke
from kaa.client.group.offsets import (
    OffsetAndMetadata,
    commit_request,
    fetch_offsets,
    send_commit,
)
from kaa.limits import CLIENT_CLOSE_MS_MAX, CLIENT_PARTITIONS_SHOWN_MAX
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from kaa.client.cluster import Cluster
    from kaa.client.consumer.fetcher import Fetcher
    from kaa.client.errors import (
        KafkaError,
    )
    from kaa.client.group.events import Assign
    from kaa.config.definition import ConfigValues
    from kaa.model.topics import TopicPartition

_NOT_A_MEMBER: Final = frozenset(
    {
        Errors.UNKNOWN_MEMBER_ID,
        Errors.ILLEGAL_GENERATION,
        Errors.FENCED_MEMBER_EPOCH,
        Errors.FENCED_INSTANCE_ID,
    }
)


_log = logging.getLogger(__name__)


class RebalanceListener(Protocol):
    """Is called when partitions come and go; methods may be coroutines, and may be left out.

    Derive from it and write those that matter. Without `on_partitions_lost`, lost partitions are
    reported as revoked.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """The partitions are this consumer's now, before anything was read from them."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """The partitions go to others after this; what was read can still be committed."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Others may have the partitions already; nothing can be committed."""
        return self.on_partitions_revoked(partitions)


class GroupMetadata(NamedTuple):
    """Who commits: for offsets that a transactional producer sends."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None


class Membership:
    """The group side of a consumer. `poll` has to be called regularly, since rebalances and
    listeners run in it; `commit` raises CommitFailedError if the consumer is not a member any more.
    """

    def __init__(
        self, values: ConfigValues, cluster: Cluster, fetcher: Fetcher, member_id: str
    ) -> None:
        self._values = values
        self._cluster = cluster
        self._fetcher = fetcher
        self.group_id = values.get_string("group.id")
        self._instance_id = values.get_optional_string("group.instance.id")
        self._is_newer = values.get_string("group.protocol").lower() == "consumer"
        self._member: ClassicMember | ConsumerMember
        if self._is_newer:
            self._member = ConsumerMember(_consumer_settings(values, self.group_id, member_id))
        else:
            self._member = ClassicMember(_classic_settings(values, self.group_id))
        self._driver = GroupDriver(self._member, self.group_id, cluster, fetcher.arrived.set)
        self._listener: RebalanceListener | None = None
        self._commits = values.get_boolean("enable.auto.commit")
        self._commit_interval_ms = values.get_int("auto.commit.interval.ms")
        self._commit_at_ms = 0.0
        # Commits that were begun and not answered; a later one must not overtake them.
        self._committing: dict[asyncio.Task[None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self.is_subscribed = False

    # --- subscription

    def subscribe(
        self,
        tasks: asyncio.TaskGroup,
        topics: frozenset[str],
        pattern: str | None,
        listener: RebalanceListener | None,
    ) -> None:
        """Replaces what is subscribed to; the first time the member's task begins in `tasks`."""
        matches = None
        if pattern is not None and not self._is_newer:
            try:
                matches = re.compile(pattern).fullmatch
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a pattern: {error}") from error
        self._listener = listener
        self.is_subscribed = True
        self._commit_at_ms = self._cluster.clock.monotonic_ms() + self._commit_interval_ms
        if pattern is None:
            self._driver.subscribe(topics)
        elif matches is None:
            self._driver.subscribe(frozenset(), pattern=pattern)
        else:
            hides = self._values.get_boolean("exclude.internal.topics")
            self._driver.subscribe(
                frozenset(),
                lambda name: (
                    matches(name) is not None
                    and not (hides and self._cluster.metadata.topics[name].is_internal)
                ),
            )
        if self._task is None:
            self._task = tasks.create_task(self._driver.run())

    async def leave(self) -> None:
        """Gives everything up and leaves, whether a rebalance is going on or not.

        A broker that does not answer holds it up for as long as a consumer may take to end.
        """
        if not self.is_subscribed:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLIENT_CLOSE_MS_MAX / 1000
        try:
            if self._fetcher.assigned:
                is_lost = self.metadata().generation_id < 0
                revoke = Revoke(tuple(self._fetcher.assigned), is_lost)
                await self._revoke(revoke, CLIENT_CLOSE_MS_MAX)
        finally:
            self.is_subscribed = False
            await self._driver.leave(max(0.0, deadline - loop.time()))
            if self._task is not None:
                self._task.cancel()
                self._task = None

    def rejoining(self) -> Membership:
        """A membership that has not begun, for a consumer that subscribes again."""
        return Membership(self._values, self._cluster, self._fetcher, self._member.member_id)

    def metadata(self) -> GroupMetadata:
        """Who this member is for a transaction that commits its offsets."""
        member = self._member
        if isinstance(member, ConsumerMember):
            epoch = member.epoch or -1
            member_id = member.member_id if member.epoch else ""
            return GroupMetadata(self.group_id, epoch, member_id, self._instance_id)
        member_id = member.member_id if member.generation_id >= 0 else ""
        return GroupMetadata(self.group_id, member.generation_id, member_id, self._instance_id)

    @property
    def is_stable(self) -> bool:
        return self._member.state is MemberState.STABLE

    # --- rebalances, inside of poll

    async def poll(self, tasks: asyncio.TaskGroup) -> None:
        """Takes part in what goes on, without waiting for others."""
        for_user = self._driver.for_user
        first = for_user[0] if for_user else None
        if isinstance(first, Fail):
            # Before the member tries again.
            for_user.popleft()
            raise first.error
        if (
            self._commits
            and not self._committing
            and self._cluster.clock.monotonic_ms() >= self._commit_at_ms
        ):
            self._commit_in_background(tasks)
        self._driver.handle(Poll())
        while for_user:
            await self._act(for_user.popleft())
            self._driver.handle(Poll())

    async def _act(self, effect: Revoke | Assign | Fail) -> None:
        if isinstance(effect, Fail):
            raise effect.error
        try:
            if isinstance(effect, Revoke):
                await self._revoke(effect, self._values.get_int("default.api.timeout.ms"))
            else:
                _log.info("group %r: assigned %s", self.group_id, _names(effect.partitions))
                self._fetcher.assign(effect.partitions)
                if effect.added or not effect.partitions:
                    await self._tell("on_partitions_assigned", effect.added)
        finally:
            # An error of the listener is the application's; the group goes on.
            self._driver.handle(Done())

    async def _revoke(self, effect: Revoke, commit_ms: int) -> None:
        try:
            if effect.is_lost:
                text = "group %r: %s may be with other members already; nothing of it is committed"
                _log.warning(text, self.group_id, _names(effect.partitions))
                await self._tell("on_partitions_lost", effect.partitions)
            else:
                _log.info("group %r: gives up %s", self.group_id, _names(effect.partitions))
                await self._commit_before_revoking(commit_ms)
                await self._tell("on_partitions_revoked", effect.partitions)
        finally:
            gone = set(effect.partitions)
            self._fetcher.assign([one for one in self._fetcher.assigned if one not in gone])

    async def _tell(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        method: Callable[..., Any] | None = getattr(self._listener, name, None)
        if method is None and name == "on_partitions_lost":
            method = getattr(self._listener, "on_partitions_revoked", None)
        if method is not None:
            result = method(list(partitions))
            if inspect.isawaitable(result):
                await result

    # --- commits

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far the application is, in every partition that has a position."""
        return {
            partition: OffsetAndMetadata(state.reached)
            for partition, state in self._fetcher.assigned.items()
            if state.reached is not None
        }

    def _commit_in_background(self, tasks: asyncio.TaskGroup) -> None:
        self._commit_at_ms = self._cluster.clock.monotonic_ms() + self._commit_interval_ms
        offsets = self.positions()
        if offsets:
            self.begin_commit(tasks, self._commit_quietly(offsets))

    def begin_commit(self, tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        """Commits while the application goes on."""
        task = tasks.create_task(work)
        self._committing[task] = None
        task.add_done_callback(self._committing.pop)

    async def _commit_quietly(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """What fails now is committed the next time, or by the one who has the partition then."""
        try:
            await self.commit_once(offsets)
        except ClientError as error:
            about = ("commit", self.group_id)
            text = "offsets of group %r were not committed in the background: %s"
            after = 2 if error.retriable else 1
            self._cluster.complaints.warn(about, text, self.group_id, error, after=after)
            if error.retriable:
                self._commit_at_ms = self._cluster.clock.monotonic_ms() + self._values.get_int(
                    "retry.backoff.ms"
                )

    async def _commit_before_revoking(self, timeout_ms: int) -> None:
        offsets = self.positions()
        if self._commits and offsets:
            try:
                await self.commit(
                    offsets, min(timeout_ms, self._values.get_int("default.api.timeout.ms"))
                )
            except ClientError as error:
                # As in Java: the records are read again by the member that gets the partitions.
                _log.warning("offsets of group %r were not committed: %s", self.group_id, error)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int
    ) -> None:
        """Commits, again if that may help; raises CommitFailedError if it is not a member."""
        if not offsets:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        if self._committing:
            await asyncio.wait(tuple(self._committing), timeout=timeout_ms / 1000)
        left_ms = max(0, round((deadline - loop.time()) * 1000))

        async def attempt() -> None:
            await self.commit_once(offsets)

        try:
            await self._cluster.repeat(attempt, "commit", left_ms)
        except RequestTimeoutError as error:
            raise RequestTimeoutError(
                f"offsets of group {self.group_id!r} were not committed within {timeout_ms} ms"
            ) from error

    async def commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """One attempt at a commit; raises the error of the first partition that was refused."""
        coordinators = self._cluster.coordinators
        metadata = self.metadata() if self.is_subscribed else GroupMetadata(self.group_id)
        if self.is_subscribed and metadata.generation_id < 0:
            raise CommitFailedError(
                Errors.UNKNOWN_MEMBER_ID,
                f"cannot commit offsets of group {self.group_id!r}",
                message="the consumer is not a member of the group at the moment",
            )
        request = commit_request(
            self.group_id,
            offsets,
            member_id=metadata.member_id,
            epoch=metadata.generation_id,
            instance_id=metadata.instance_id,
        )
        connection = await coordinators.connection(CoordinatorType.GROUP, self.group_id)
        try:
            answers = await send_commit(connection, request)
        except (DisconnectedError, RequestTimeoutError):
            coordinators.forget(CoordinatorType.GROUP, self.group_id)
            raise
        for error in answers.values():
            if error is not None:
                self._raise(error)

    def _raise(self, error: KafkaError) -> None:
        if error.error in NOT_READY:
            if error.error in MOVED:
                self._cluster.coordinators.forget(CoordinatorType.GROUP, self.group_id)
            raise error
        if self.is_subscribed:
            self._driver.commit_refused(error.error)
            if error.error is Errors.STALE_MEMBER_EPOCH:
                error.retriable = True
        if error.error in _NOT_A_MEMBER:
            raise CommitFailedError(error.error, error.what, node=error.node)
        raise error

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group committed; offsets of open transactions are waited for."""
        return await fetch_offsets(
            self._cluster, self.group_id, partitions, timeout_ms, require_stable=True
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions in a line of the log, not too many of them."""
    names = [str(one) for one in partitions]
    rest = len(names) - CLIENT_PARTITIONS_SHOWN_MAX
    more = f" and {rest} more" if rest > 0 else ""
    return (", ".join(names[:CLIENT_PARTITIONS_SHOWN_MAX]) or "no partitions") + more


def _classic_settings(values: ConfigValues, group_id: str) -> ClassicSettings:
    return ClassicSettings(
        group_id=group_id,
        instance_id=values.get_optional_string("group.instance.id"),
        assignors=assignors_of(values.get_list("partition.assignment.strategy")),
        session_timeout_ms=values.get_int("session.timeout.ms"),
        heartbeat_interval_ms=values.get_int("heartbeat.interval.ms"),
        max_poll_interval_ms=values.get_int("max.poll.interval.ms"),
        retry_pause_ms=values.get_int("retry.backoff.ms"),
        rack_id=values.get_string("client.rack") or None,
    )


def _consumer_settings(values: ConfigValues, group_id: str, member_id: str) -> ConsumerSettings:
    return ConsumerSettings(
        group_id=group_id,
        member_id=member_id,
        instance_id=values.get_optional_string("group.instance.id"),
        max_poll_interval_ms=values.get_int("max.poll.interval.ms"),
        retry_pause_ms=values.get_int("retry.backoff.ms"),
        assignor=values.get_optional_string("group.remote.assignor"),
        rack_id=values.get_string("client.rack") or None,
    )
