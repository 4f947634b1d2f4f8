"""The share coordinator of a broker: one call for each share partition, answered when committed.

A call gives a future of the finished response: the handler says how the answer of the machine reads
in its API (`respond`), and how a refusal does (`refused`). For callers inside the node, which say
neither, it is the answer itself, or fails with a CoordinatorError. The log of each
partition of the state topic is deleted up to its oldest snapshot that counts, at intervals (`run`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kaa.coordinators.promise import Promise
from kaa.coordinators.runtime import Runtime, partition_for
from kaa.coordinators.shard import ShardState
from kaa.coordinators.share.machine import ShareMachine
from kaa.coordinators.share.state import RECORD_TYPES
from kaa.model.topics import SHARE_GROUP_STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.coordinators.loading import Host
    from kaa.coordinators.machine import CoordinatorError
    from kaa.coordinators.shard import Command
    from kaa.coordinators.share.machine import StateChange
    from kaa.coordinators.share.settings import ShareStateSettings
    from kaa.coordinators.share.state import SharePartitionKey, ShareState
    from kaa.replication.partition import Partition
    from kaa.wire.errors import Errors
    from kaa.wire.primitives import Uuid

R = TypeVar("R")

# The feature of a cluster that has share groups, from level 1 on.
SHARE_FEATURE: Final = "share.version"


class ShareCoordinator:
    """The share coordinator as handlers and the persister call it. Every call gives a future of
    what the caller makes of the answer; `run` has to be running.
    """

    def __init__(
        self,
        host: Host,
        settings: Callable[[], ShareStateSettings],
        partition_count: Callable[[], int],
        topic_partition_count: Callable[[Uuid], int],
        prune: Callable[[Mapping[int, int]], Iterable[int]],
    ) -> None:
        """`prune` deletes records before offsets, by partition; gives those where it did."""
        self._host = host
        self._settings = settings
        self._partition_count = partition_count
        self._prune = prune
        # By partition, up to where its log was deleted.
        self._pruned: dict[int, int] = {}
        self.runtime: Runtime[ShareMachine] = Runtime(
            SHARE_GROUP_STATE,
            lambda: ShareMachine(settings, topic_partition_count),
            RECORD_TYPES,
            host,
        )

    def partition_for(self, key: SharePartitionKey | str) -> int:
        return partition_for(str(key), self._partition_count())

    def leadership_changed(self, partition: Partition) -> None:
        if partition.topic == SHARE_GROUP_STATE:
            if not partition.is_leader:
                self._pruned.pop(partition.number, None)
            self.runtime.leadership_changed(partition)

    def topics_deleted(self, topic_ids: Iterable[Uuid]) -> None:
        gone = tuple(topic_ids)
        self.runtime.write_all(lambda machine, _: machine.topics_deleted(gone))

    def _write(
        self,
        key: SharePartitionKey,
        command: Command[ShareMachine],
        refused: Callable[[CoordinatorError], R] | None,
        respond: Callable[[Any], R] | None,
    ) -> asyncio.Future[R]:
        answer = Promise(self._host.loop, refused, respond)
        return self.runtime.write(self.partition_for(key), command, answer)

    # --- calls

    def initialise(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        refused: Callable[[CoordinatorError], R] | None = None,
        respond: Callable[[Errors], R] | None = None,
    ) -> asyncio.Future[R]:
        return self._write(
            key,
            lambda machine, now: machine.initialise(key, state_epoch, start_offset, now),
            refused,
            respond,
        )

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        refused: Callable[[CoordinatorError], R] | None = None,
        respond: Callable[[ShareState], R] | None = None,
    ) -> asyncio.Future[R]:
        return self._write(
            key, lambda machine, now: machine.read(key, leader_epoch, now), refused, respond
        )

    def write(
        self,
        key: SharePartitionKey,
        change: StateChange,
        refused: Callable[[CoordinatorError], R] | None = None,
        respond: Callable[[Errors], R] | None = None,
    ) -> asyncio.Future[R]:
        return self._write(
            key, lambda machine, now: machine.write(key, change, now), refused, respond
        )

    def delete(
        self,
        key: SharePartitionKey,
        refused: Callable[[CoordinatorError], R] | None = None,
        respond: Callable[[Errors], R] | None = None,
    ) -> asyncio.Future[R]:
        return self._write(key, lambda machine, _: machine.delete(key), refused, respond)

    def summary(
        self,
        key: SharePartitionKey,
        refused: Callable[[CoordinatorError], R] | None = None,
        respond: Callable[[ShareState], R] | None = None,
    ) -> asyncio.Future[R]:
        return self._write(key, lambda machine, _: machine.summary(key), refused, respond)

    # --- upkeep

    async def run(self) -> None:
        """Deletes what is not needed any more, for as long as the broker lives."""
        while True:
            await asyncio.sleep(self._settings().prune_interval_ms / 1000)
            self.prune()

    def prune(self) -> None:
        offsets: dict[int, int] = {}
        for shard in self.runtime:
            if shard.state is ShardState.ACTIVE:
                number = shard.partition.number
                offset = shard.machine.redundant_offset
                if offset is not None and offset != self._pruned.get(number):
                    offsets[number] = offset
        if offsets:
            self._pruned.update((number, offsets[number]) for number in self._prune(offsets))
