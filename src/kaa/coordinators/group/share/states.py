"""Has the share coordinators begin and delete the state of share partitions, as groups ask for it.

A group may have thousands of partitions, and the coordinators of some may be away for a while: many
calls are under way at a time, and what is done is reported to the group while others still wait.

To begin the state of a partition forgets what was known of it. So one call begins it at a time, and
each try asks whether the group still waits for it here: it may have another coordinator by then,
whose members have begun to acknowledge records. A partition is not begun while it is deleted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.coordinators.shard import ShardState
from kaa.coordinators.share.state import UNKNOWN_START_OFFSET, SharePartitionKey
from kaa.limits import (
    SHARE_PARTITIONS_PER_TURN_MAX,
    SHARE_STATE_CALLS_MAX,
    SHARE_STATE_REPORT_SECONDS,
)
from kaa.model.turns import Turns
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.coordinators.group.machine import GroupMachine
    from kaa.coordinators.group.share.groups import InitialiseState, Partitions
    from kaa.coordinators.loading import Host
    from kaa.coordinators.runtime import Runtime
    from kaa.coordinators.share.persister import Persister
    from kaa.wire.primitives import Uuid


class ShareStates:
    """Begins and deletes share state for the groups that this broker coordinates."""

    def __init__(
        self,
        host: Host,
        runtime: Runtime[GroupMachine],
        partition_for: Callable[[str], int],
        persister: Persister,
    ) -> None:
        self._host = host
        self._runtime = runtime
        self._partition_for = partition_for
        self._persister = persister
        # The partitions whose state is being begun, and deleted, each until that is done.
        self._begun: dict[SharePartitionKey, asyncio.Future[None]] = {}
        self._deleted: dict[SharePartitionKey, asyncio.Future[None]] = {}

    # --- begin

    async def initialise(self, effect: InitialiseState) -> None:
        """Has share state begun for partitions; those that got none are tried again later."""
        keys: list[SharePartitionKey] = []
        turns = Turns(SHARE_PARTITIONS_PER_TURN_MAX)
        unreported = _Unreported()
        try:
            for key in _keys(effect):
                await turns.next()
                if key not in self._begun:
                    self._begun[key] = self._host.loop.create_future()
                    keys.append(key)
            rest = iter(keys)
            left: set[asyncio.Task[None]] = set()
            async with asyncio.TaskGroup() as tasks:
                for _ in keys[:SHARE_STATE_CALLS_MAX]:
                    await turns.next()
                    work = self._initialise_each(rest, effect.state_epoch, unreported)
                    left.add(tasks.create_task(work))
                while left:
                    _, left = await asyncio.wait(left, timeout=SHARE_STATE_REPORT_SECONDS)
                    await self._report(effect.group_id, unreported)
        finally:
            for key in keys:
                self._begun.pop(key).set_result(None)

    async def _initialise_each(
        self, rest: Iterator[SharePartitionKey], state_epoch: int, unreported: _Unreported
    ) -> None:
        for key in rest:
            await _wait_for(self._deleted, key)
            try:
                await self._persister.initialise(
                    key, state_epoch, UNKNOWN_START_OFFSET, partial(self._is_awaited, key)
                )
            except Exception as error:  # noqa: BLE001  Whatever it is, it is tried again.
                if self._is_awaited(key):
                    unreported.failed.setdefault(key.topic_id, set()).add(key.partition)
                    self._host.report(f"share state of {key} was not initialised: {error!r}")
            else:
                unreported.done.setdefault(key.topic_id, set()).add(key.partition)

    def _is_awaited(self, key: SharePartitionKey) -> bool:
        """Whether the group is coordinated here, and waits for the state of the partition."""
        shard = self._runtime.shard(self._partition_for(key.group_id))
        return (
            shard is not None
            and shard.state is ShardState.ACTIVE
            and shard.machine.share.is_initialising(key.group_id, key.topic_id, key.partition)
        )

    async def _report(self, group_id: str, unreported: _Unreported) -> None:
        done, failed = unreported.taken()
        number, loop = self._partition_for(group_id), self._host.loop
        with suppress(CoordinatorError):
            if failed:
                await self._runtime.write(
                    number,
                    lambda machine, _: machine.share.not_initialised(group_id, failed),
                    Promise(loop),
                )
            if done:
                await self._runtime.write(
                    number,
                    lambda machine, _: machine.share.initialised(group_id, done),
                    Promise(loop),
                )

    # --- delete

    async def delete(self, group_id: str) -> None:
        """Forgets what a share group is done with, before the group itself goes. CoordinatorError
        if some of it may be left; the group knows then that it is being deleted.
        """
        number, loop = self._partition_for(group_id), self._host.loop
        is_kept: bool = await self._runtime.read(
            number, lambda machine: machine.share.has_state(group_id), Promise(loop)
        )
        if not is_kept:
            return
        found: Partitions = await self._runtime.write(
            number,
            lambda machine, _: machine.share_offsets.begin_delete_group(group_id),
            Promise(loop),
        )
        rest = iter(
            [
                SharePartitionKey(group_id, topic_id, one)
                for topic_id, numbers in found.items()
                for one in sorted(numbers)
            ]
        )
        calls = min(SHARE_STATE_CALLS_MAX, sum(map(len, found.values())))
        refusals: list[CoordinatorError] = []
        async with asyncio.TaskGroup() as tasks:
            for _ in range(calls):
                tasks.create_task(self._delete_each(rest, refusals))
        if refusals:
            raise refusals[0]

    async def _delete_each(
        self, rest: Iterator[SharePartitionKey], refusals: list[CoordinatorError]
    ) -> None:
        for key in rest:
            await _wait_for(self._begun, key)
            await _wait_for(self._deleted, key)
            self._deleted[key] = self._host.loop.create_future()
            try:
                await self._persister.delete(key)
            except CoordinatorError as refusal:
                # The state of a topic that is gone goes with it.
                if refusal.error is not Errors.UNKNOWN_TOPIC_OR_PARTITION:
                    refusals.append(refusal)
            finally:
                self._deleted.pop(key).set_result(None)


class _Unreported:
    """What became of partitions that the group does not know yet."""

    def __init__(self) -> None:
        self.done: dict[Uuid, set[int]] = {}
        self.failed: dict[Uuid, set[int]] = {}

    def taken(self) -> tuple[Partitions, Partitions]:
        """What was done, and what failed; from then on it counts as reported."""
        done, failed = self.done, self.failed
        self.done, self.failed = {}, {}
        return _frozen(done), _frozen(failed)


async def _wait_for(
    calls: dict[SharePartitionKey, asyncio.Future[None]], key: SharePartitionKey
) -> None:
    while (other := calls.get(key)) is not None:
        await asyncio.wait([other])


def _frozen(partitions: dict[Uuid, set[int]]) -> Partitions:
    return {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}


def _keys(effect: InitialiseState) -> Iterator[SharePartitionKey]:
    for topic_id, numbers in effect.partitions.items():
        for number in sorted(numbers):
            yield SharePartitionKey(effect.group_id, topic_id, number)
