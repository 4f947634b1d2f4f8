"""Offsets of share groups: described with their lag, altered, deleted.

The group coordinator says which partitions there are and notes what is changed; the state itself is
with the share coordinators, and the end of a partition with its leader. Each of them may be on
another broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.coordinators.share.state import UNKNOWN_START_OFFSET, SharePartitionKey
from kaa.replication.partition import Partition
from kaa.serving.turns import gathered
from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping
    from typing import Any

    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.group.share.offsets import Alteration
    from kaa.coordinators.shard import Command
    from kaa.coordinators.share.persister import Persister
    from kaa.replication.manager import ReplicaManager
    from kaa.serving.transactions.peers import RemoteBrokers
    from kaa.serving.view import NodeView
    from kaa.wire.primitives import Uuid

UNKNOWN_LAG = -1
_LATEST = -1


class ShareOffset(NamedTuple):
    """Where a group is in a partition, and how much is left for it; -1 is not known."""

    error: Errors = Errors.NONE
    start_offset: int = -1
    leader_epoch: int = 0
    lag: int = UNKNOWN_LAG


class ShareGroupOffsets:
    """Answers the three requests of administrators about offsets of share groups. Errors are part
    of the responses.
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

    def topics_of(self, group_id: str) -> asyncio.Future[dict[str, frozenset[int]]]:
        """The partitions that a group has state of. CoordinatorError if there is no such group."""
        groups = self._groups
        return groups.runtime.read(
            groups.partition_for(group_id),
            lambda machine: machine.share_offsets.initialised(group_id),
            Promise(self._view.loop),
        )

    async def describe(
        self, group_id: str, topics: Mapping[str, Iterable[int]]
    ) -> dict[str, dict[int, ShareOffset]]:
        described: dict[str, dict[int, ShareOffset]] = {
            topic: dict.fromkeys(numbers, ShareOffset()) for topic, numbers in topics.items()
        }

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

    # --- changes; CoordinatorError refuses one as a whole

    async def alter(
        self, group_id: str, wanted: Mapping[str, Mapping[int, int]]
    ) -> dict[Uuid, dict[int, Errors]]:
        """What became of the partitions that exist, by topic id."""
        change: Alteration = await self._write(
            group_id, lambda machine, now: machine.share_offsets.alter(group_id, wanted, now)
        )
        names = [(key, number) for key, numbers in change.offsets.items() for number in numbers]
        errors = await gathered(
            lambda name: self._begin(
                SharePartitionKey(group_id, *name),
                change.state_epoch,
                change.offsets[name[0]][name[1]],
            ),
            names,
        )
        outcomes: dict[Uuid, dict[int, Errors]] = {}
        for (key, number), error in zip(names, errors, strict=True):
            outcomes.setdefault(key, {})[number] = error
        done, failed = _parted(outcomes)
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

    async def delete(self, group_id: str, names: Iterable[str]) -> dict[Uuid, Errors]:
        """What became of the topics that the group has state of, by topic id."""
        asked = tuple(names)
        found: dict[Uuid, frozenset[int]] = await self._write(
            group_id, lambda machine, _: machine.share_offsets.begin_delete(group_id, asked)
        )
        keys = [
            SharePartitionKey(group_id, key, number)
            for key, numbers in found.items()
            for number in sorted(numbers)
        ]
        errors = await gathered(self._delete, keys)
        outcomes = dict.fromkeys(found, Errors.NONE)
        for key, error in zip(keys, errors, strict=True):
            if error is not Errors.NONE:
                outcomes[key.topic_id] = error
        gone = [key for key, error in outcomes.items() if error is Errors.NONE]
        if gone:
            await self._write(
                group_id, lambda machine, _: machine.share_offsets.finish_delete(group_id, gone)
            )
        return outcomes

    async def _delete(self, key: SharePartitionKey) -> Errors:
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
) -> tuple[dict[Uuid, frozenset[int]], dict[Uuid, frozenset[int]]]:
    """The partitions that went well, and those that did not."""
    done, failed = {}, {}
    for key, errors in outcomes.items():
        good = frozenset(number for number, error in errors.items() if error is Errors.NONE)
        bad = frozenset(errors) - good
        if good:
            done[key] = good
        if bad:
            failed[key] = bad
    return done, failed
