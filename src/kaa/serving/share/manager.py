"""The share partitions that this broker leads, and the sessions of members that fetch from them.

A share partition is there from the first fetch of a session until leadership moves or the topic is
deleted, until the share coordinator fences it (the group was deleted, or its offsets altered by an
administrator), or until nobody of its group has a session here. So nothing is kept that somebody
else may have changed meanwhile, and memory is bounded by the sessions. All look-ups are by topic
id, in one step.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kaa.coordinators.share.state import SharePartitionKey
from kaa.limits import SHARE_PARTITIONS_ENDED_PER_TURN_MAX
from kaa.model.pieces import begun
from kaa.model.turns import in_turns
from kaa.serving.share.led import LedSharePartition
from kaa.serving.share.machine import AcknowledgementError
from kaa.serving.share.sessions import ShareSessions
from kaa.serving.share.settings import ShareGroupSettings
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Hashable, Iterable, Iterator
    from concurrent.futures import Executor
    from typing import Any

    from kaa.coordinators.share.persister import Persister
    from kaa.model.pieces import Pieces
    from kaa.replication.manager import ReplicaManager
    from kaa.replication.partition import Partition
    from kaa.serving.share.machine import Acknowledgement
    from kaa.serving.share.sessions import ShareSession
    from kaa.serving.view import NodeView
    from kaa.wire.primitives import Uuid


class SharePartitions:
    """Finds or makes the share partitions that requests are about. `lead` gives an error, and
    `acknowledge` raises one, where this broker does not lead the partition.
    """

    def __init__(
        self,
        view: NodeView,
        replicas: ReplicaManager,
        executor: Executor,
        persister: Persister,
    ) -> None:
        self._view = view
        self._replicas = replicas
        # For batches that take long to look through.
        self._executor = executor
        self.persister = persister
        self.sessions = ShareSessions(lambda: view.config.get_int("group.share.max.share.sessions"))
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        # The same, by partition and by group.
        self._by_partition: dict[PartitionId, dict[LedSharePartition, None]] = {}
        self._by_group: dict[str, dict[LedSharePartition, None]] = {}
        # Those with locks that have run out: what was fetched at once runs out at once.
        self._due: deque[LedSharePartition] = deque()

    def __len__(self) -> int:
        return len(self._led)

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(tuple(self._led.values()))

    def of_group(self, group_id: str) -> tuple[LedSharePartition, ...]:
        """Those that members of a group fetch from here."""
        return tuple(self._by_group.get(group_id, ()))

    def settings(self, group_id: str) -> ShareGroupSettings:
        led = self._by_group.get(group_id)
        if led:
            return next(iter(led)).settings
        return ShareGroupSettings(self._view, group_id)

    # --- share partitions

    def lead(self, group_id: str, one: PartitionId) -> LedSharePartition | Errors:
        """The share partition, which may be loading; an error if it is not led here."""
        partition = self._replicas.find_by_id(one.topic_id, one.number)
        if isinstance(partition, Errors):
            return partition
        if (refusal := partition.read_refusal()) is not None:
            return refusal
        key = SharePartitionKey(group_id, one.topic_id, one.number)
        led = self._led.get(key)
        if led is None:
            led = LedSharePartition(
                self._view,
                self._executor,
                self.persister,
                key,
                partition,
                self.settings(group_id),
                self,
            )
            self._led[key] = led
            self._by_partition.setdefault(one, {})[led] = None
            self._by_group.setdefault(group_id, {})[led] = None
            self.begin(led.load())
        return led

    def acknowledge(
        self,
        group_id: str,
        member_id: str,
        one: PartitionId,
        acknowledgements: Iterable[Acknowledgement],
    ) -> asyncio.Future[Errors]:
        """Answered when it is written. AcknowledgementError if it makes no sense."""
        led = self._led.get(SharePartitionKey(group_id, one.topic_id, one.number))
        if led is None:
            partition = self._replicas.find_by_id(one.topic_id, one.number)
            if isinstance(partition, Errors):
                raise AcknowledgementError(partition, partition.message)
            error = partition.read_refusal() or Errors.UNKNOWN_TOPIC_OR_PARTITION
            raise AcknowledgementError(error, error.message)
        return led.acknowledge(member_id, acknowledgements)

    # --- sessions

    async def close(self, session: ShareSession) -> None:
        """Ends a session at once: what its member holds goes back to the others. Returns when that
        is written.
        """
        self.sessions.remove(session.group_id, session.member_id)
        for released in await in_turns(self._released(session)):
            await released

    def _released(self, session: ShareSession) -> Pieces[list[asyncio.Future[Errors]]]:
        group_id = session.group_id
        released = []
        for count, one in enumerate(session.partitions, 1):
            if count % SHARE_PARTITIONS_ENDED_PER_TURN_MAX == 0:
                yield
            led = self._led.get(SharePartitionKey(group_id, one.topic_id, one.number))
            if led is None:
                continue
            try:
                released.append(led.release(session.member_id))
            except AcknowledgementError:
                # An acknowledgement of it is being written; what it does not cover comes back when
                # its locks run out.
                continue
        # Taken from a list, so that those that are dropped go one by one, and not all at its end.
        left = list(reversed(self.of_group(group_id)))
        while left:
            self.written(left.pop())
            if len(left) % SHARE_PARTITIONS_ENDED_PER_TURN_MAX == 0:
                yield
        return released

    def disconnected(self, owner: Hashable) -> None:
        """A connection is gone, and with it the sessions that were opened there."""
        for session in self.sessions.of_owner(owner):
            # A new session that its member opens elsewhere must not be taken for this one.
            self.sessions.remove(session.group_id, session.member_id)
            self.begin(self._release(session))

    async def _release(self, session: ShareSession) -> None:
        await in_turns(self._released(session))

    # --- what happens to partitions

    def leadership_changed(self, partition: Partition) -> None:
        one = PartitionId(partition.topic_id, partition.number)
        for led in tuple(self._by_partition.get(one, ())):
            if not partition.is_leader or partition.leader_epoch != led.leader_epoch:
                led.drop(Errors.NOT_LEADER_OR_FOLLOWER)

    def topics_deleted(self, topic_ids: Iterable[Uuid]) -> None:
        gone = frozenset(topic_ids)
        rest = begun(_dropped([led for led in self if led.key.topic_id in gone]))
        if rest is not None:
            self.begin(in_turns(rest))

    # --- what share partitions ask for

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._view.errands.begin("work on a share partition", work)

    def dropped(self, led: LedSharePartition) -> None:
        key = led.key
        del self._led[key]
        for index, place in (
            (self._by_partition, PartitionId(key.topic_id, key.partition)),
            (self._by_group, key.group_id),
        ):
            some = index[place]  # type: ignore[index]  # Each has its own kind of key.
            del some[led]
            if not some:
                del index[place]  # type: ignore[arg-type]

    def written(self, led: LedSharePartition) -> None:
        """What nobody has a session for goes, but not before everything of it is written: who loads
        it next has to find it.
        """
        if led.error is None and led.is_idle and not self.sessions.has_group(led.key.group_id):
            led.drop(Errors.NOT_LEADER_OR_FOLLOWER)

    def due(self, led: LedSharePartition) -> None:
        self._due.append(led)
        if len(self._due) == 1:
            self._view.loop.call_soon(self._expire_some)

    def _expire_some(self) -> None:
        try:
            for _ in range(min(len(self._due), SHARE_PARTITIONS_ENDED_PER_TURN_MAX)):
                self._due.popleft().expire()
        finally:
            if self._due:
                self._view.loop.call_soon(self._expire_some)

    def stop(self) -> None:
        for led in self:
            led.drop(Errors.NOT_LEADER_OR_FOLLOWER)


def _dropped(gone: list[LedSharePartition]) -> Pieces[None]:
    """Drops those of topics that are gone."""
    for count, led in enumerate(gone, 1):
        led.drop(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        if count % SHARE_PARTITIONS_ENDED_PER_TURN_MAX == 0:
            yield
