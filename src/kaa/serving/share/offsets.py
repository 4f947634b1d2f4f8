"""Offsets of share groups: described with their lag, altered, deleted.

The group coordinator says which partitions there are and notes what is changed; the state itself is
with the share coordinators, and the end of a partition with its leader. Each of them may be on
another broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.coordinators.share.state import UNKNOWN_START_OFFSET, SharePartitionKey
from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX, SHARE_PARTITIONS_PER_TURN_MAX
from kaa.model.pieces import mapped
from kaa.model.turns import Turns, gathered, in_turns
from kaa.replication.partition import Partition
from kaa.serving.applied import until_applied
from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.group.share.offsets import Alteration
    from kaa.coordinators.shard import Command
    from kaa.coordinators.share.persister import Persister
    from kaa.model.pieces import Pieces
    from kaa.replication.manager import ReplicaManager
    from kaa.serving.transactions.peers import RemoteBrokers
    from kaa.serving.view import NodeView
    from kaa.wire.primitives import Uuid

R = TypeVar("R")

UNKNOWN_LAG = -1
_LATEST = -1


class ShareOffset(NamedTuple):
    """Where a group is in a partition, and how much is left for it; -1 is not known."""

    error: Errors = Errors.NONE
    start_offset: int = -1
    leader_epoch: int = 0
    lag: int = UNKNOWN_LAG


# By topic and number of the partition.
Described = dict[str, dict[int, ShareOffset]]


class ShareGroupOffsets:
    """Answers the three requests of administrators about offsets of share groups. As with the
    coordinators, what is asked for says how a refusal of the whole reads (`refused`), and what the
    response is made of (`respond`).
    """

    def __init__(
        self,
        view: NodeView,
        groups: GroupCoordinator,
        replicas: ReplicaManager,
        persister: Persister,
        brokers: RemoteBrokers,
    ) -> None:
        self._view = view
        self._groups = groups
        self._replicas = replicas
        self._persister = persister
        self._brokers = brokers

    # --- description

    async def describe(
        self,
        group_id: str,
        topics: Mapping[str, Iterable[int]] | None,
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[Described], Pieces[R]],
    ) -> R:
        """Where the group is in these partitions; without any, in all that it has state of."""
        try:
            if topics is None:
                known = await self._topics_of(group_id)
                topics = {name: sorted(some) for name, some in known.items()}
        except CoordinatorError as refusal:
            return refused(refusal.for_clients())
        return await in_turns(respond(await self._describe_all(group_id, topics)))

    def _topics_of(self, group_id: str) -> asyncio.Future[dict[str, frozenset[int]]]:
        """The partitions that a group has state of. CoordinatorError if there is no such group."""
        groups = self._groups
        return groups.runtime.read(
            groups.partition_for(group_id),
            lambda machine: machine.share_offsets.initialised(group_id),
            Promise(self._view.loop),
        )

    async def _describe_all(self, group_id: str, topics: Mapping[str, Iterable[int]]) -> Described:
        described: Described = {}
        turns = Turns(GROUPS_DESCRIBED_PER_SLICE_MAX)
        for topic, numbers in topics.items():
            await turns.next()
            described[topic] = dict.fromkeys(numbers, ShareOffset())

        async def describe(name: tuple[str, int]) -> None:
            topic, number = name
            described[topic][number] = await self._describe(group_id, topic, number)

        names = ((topic, number) for topic, numbers in described.items() for number in numbers)
        await gathered(describe, names)
        return described

    async def _describe(self, group_id: str, topic: str, number: int) -> ShareOffset:
        image = self._view.image.topics.get(topic)
        if image is None:
            return ShareOffset()
        try:
            state = await self._persister.summary(SharePartitionKey(group_id, image.id, number))
        except CoordinatorError as refusal:
            return ShareOffset(refusal.error)
        begin, done = state.start_offset, state.delivery_complete_count
        if begin == UNKNOWN_START_OFFSET:
            return ShareOffset()
        lag = UNKNOWN_LAG
        if done >= 0:
            end = await self._end(topic, number)
            lag = UNKNOWN_LAG if end is None else end - begin - done
        return ShareOffset(Errors.NONE, begin, state.leader_epoch, lag)

    async def _end(self, topic: str, number: int) -> int | None:
        """The end of what readers see of a partition, as its leader says; None if it does not."""
        await until_applied(self._replicas, [(topic, number)])
        local = self._replicas.find(topic, number)
        if isinstance(local, Partition) and local.is_leader and local.log is not None:
            return local.log.high_watermark
        leader = self._brokers.leader((topic, number))
        if leader is None or leader < 0 or leader == self._view.node_id:
            return None
        asked = ListOffsetsPartition(partition_index=number, timestamp=_LATEST)
        wanted = ListOffsetsTopic(name=topic, partitions=[asked])
        try:
            request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
            answer = await self._brokers.at(leader).ask(request)
        except ConnectionError:
            return None
        found = answer.topics[0].partitions[0]
        return found.offset if found.error_code == Errors.NONE else None

    # --- changes

    async def alter(
        self,
        group_id: str,
        wanted: Mapping[str, Mapping[int, int]],
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[dict[Uuid, dict[int, Errors]]], Pieces[R]],
    ) -> R:
        """Responds with what became of the partitions that exist, by topic id."""
        try:
            outcomes = await self._alter(group_id, wanted)
        except CoordinatorError as refusal:
            return refused(refusal.for_clients())
        return await in_turns(respond(outcomes))

    async def delete(
        self,
        group_id: str,
        names: Sequence[str],
        refused: Callable[[CoordinatorError], R],
        respond: Callable[[dict[Uuid, Errors]], Pieces[R]],
    ) -> R:
        """Responds with what became of the topics that the group has state of, by topic id."""
        try:
            outcomes = await self._delete(group_id, names)
        except CoordinatorError as refusal:
            return refused(refusal.for_clients())
        return await in_turns(respond(outcomes))

    async def _alter(
        self, group_id: str, wanted: Mapping[str, Mapping[int, int]]
    ) -> dict[Uuid, dict[int, Errors]]:
        change: Alteration = await self._write(
            group_id, lambda machine, now: machine.share_offsets.alter(group_id, wanted, now)
        )
        names = await in_turns(
            mapped(
                lambda name: name,
                ((key, number) for key, numbers in change.offsets.items() for number in numbers),
            )
        )
        errors = await gathered(
            lambda name: self._begin(
                SharePartitionKey(group_id, *name),
                change.state_epoch,
                change.offsets[name[0]][name[1]],
            ),
            names,
        )
        outcomes: dict[Uuid, dict[int, Errors]] = {}
        turns = Turns(SHARE_PARTITIONS_PER_TURN_MAX)
        for (key, number), error in zip(names, errors, strict=True):
            await turns.next()
            outcomes.setdefault(key, {})[number] = error
        done, failed = await in_turns(_parted(outcomes))
        if failed:
            await self._write(
                group_id, lambda machine, _: machine.share.not_initialised(group_id, failed)
            )
        await self._write(group_id, lambda machine, _: machine.share.initialised(group_id, done))
        return outcomes

    async def _begin(self, key: SharePartitionKey, epoch: int, offset: int) -> Errors:
        try:
            await self._persister.initialise(key, epoch, offset)
        except CoordinatorError as refusal:
            return refusal.for_clients().error
        return Errors.NONE

    async def _delete(self, group_id: str, names: Sequence[str]) -> dict[Uuid, Errors]:
        found: dict[Uuid, frozenset[int]] = await self._write(
            group_id, lambda machine, _: machine.share_offsets.begin_delete(group_id, names)
        )
        keys = [
            SharePartitionKey(group_id, key, number)
            for key, numbers in found.items()
            for number in sorted(numbers)
        ]
        errors = await gathered(self._forget, keys)
        outcomes = dict.fromkeys(found, Errors.NONE)
        turns = Turns(SHARE_PARTITIONS_PER_TURN_MAX)
        for key, error in zip(keys, errors, strict=True):
            await turns.next()
            if error is not Errors.NONE:
                outcomes[key.topic_id] = error
        gone = [key for key, error in outcomes.items() if error is Errors.NONE]
        if gone:
            await self._write(
                group_id, lambda machine, _: machine.share_offsets.finish_delete(group_id, gone)
            )
        return outcomes

    async def _forget(self, key: SharePartitionKey) -> Errors:
        try:
            await self._persister.delete(key)
        except CoordinatorError as refusal:
            return refusal.for_clients().error
        return Errors.NONE

    def _write(self, group_id: str, command: Command[GroupMachine]) -> asyncio.Future[Any]:
        groups = self._groups
        return groups.runtime.write(
            groups.partition_for(group_id), command, Promise(self._view.loop)
        )


def _parted(
    outcomes: Mapping[Uuid, Mapping[int, Errors]],
) -> Pieces[tuple[dict[Uuid, frozenset[int]], dict[Uuid, frozenset[int]]]]:
    """The partitions that went well, and those that did not."""
    done, failed = {}, {}
    for count, (key, errors) in enumerate(outcomes.items(), 1):
        if count % SHARE_PARTITIONS_PER_TURN_MAX == 0:
            yield
        good = frozenset(number for number, error in errors.items() if error is Errors.NONE)
        bad = frozenset(errors) - good
        if good:
            done[key] = good
        if bad:
            failed[key] = bad
    return done, failed
