"""The shards of one coordinator on this broker, as leadership comes and goes.

A shard is made when this broker begins to lead a partition of the coordinator's topic, and closed
when it does not any more. Partitions are loaded one after the other by one task (`run`), in slices
between which the loop serves clients.

One that could not be loaded is loaded again after a pause, which doubles with each failure in a
row: a disk may have been slow to answer, and nothing else would bring its groups back before the
leader epoch changes. The failure costs that partition alone; its clients get NOT_COORDINATOR. One
whose log has records of another writer is loaded again at once.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kaa.coordinators.java_hash import java_hash
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise, keep_in_pieces
from kaa.coordinators.shard import MachineType, Shard, ShardState, found
from kaa.limits import (
    COORDINATOR_KEY_HASHES_MAX,
    COORDINATOR_LOAD_RETRY_SECONDS_MAX,
    COORDINATOR_LOAD_RETRY_SECONDS_MIN,
)
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.coordinators.loading import Host
    from kaa.coordinators.records import RecordTypes
    from kaa.coordinators.shard import Command, TransactionalWriter
    from kaa.model.pieces import Pieces
    from kaa.records.control import EndTransactionMarker
    from kaa.replication.partition import Partition

R = TypeVar("R")

# Every request asks for the partition of its key, and most keys come again and again.
_hash = lru_cache(COORDINATOR_KEY_HASHES_MAX)(java_hash)


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a coordinator's topic that a key lives in, as Kafka places it."""
    value = _hash(key)
    # Java's Math.abs, except that the one number without a positive twin counts as 0.
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def no_effects(effect: object) -> None:
    """For machines that have none."""
    raise AssertionError(f"nobody performs {effect!r}")


class Runtime(Generic[MachineType]):
    """Routes commands to the shards of one coordinator. A key whose partition is not led here is
    refused with NOT_COORDINATOR; `run` has to be running for shards to load.
    """

    def __init__(
        self,
        topic: str,
        make_machine: Callable[[], MachineType],
        types: RecordTypes,
        host: Host,
        perform: Callable[[Any], None] = no_effects,
    ) -> None:
        self.topic = topic
        self._make_machine = make_machine
        self._types = types
        self._host = host
        # Does what the results of machines ask for (`CoordinatorResult.effects`).
        self._perform = perform
        self._shards: dict[int, Shard[MachineType]] = {}
        self._to_load: asyncio.Queue[Shard[MachineType]] = asyncio.Queue()
        # By partition that could not be loaded, the pause before the next attempt.
        self._pauses: dict[int, float] = {}

    def __iter__(self) -> Iterator[Shard[MachineType]]:
        return iter(self._shards.values())

    # --- requests

    def write(
        self,
        number: int,
        command: Command[MachineType],
        answer: Promise[R],
        writer: TransactionalWriter | None = None,
    ) -> Promise[R]:
        """The answer to a command, when it is committed; it may come from another command. With a
        writer, the records count when its transaction commits.
        """
        shard = self._shard_for(number, answer)
        if shard is not None:
            shard.write(command, answer, writer)
        return answer

    def end_transaction(
        self,
        number: int,
        producer: TransactionalWriter,
        marker: EndTransactionMarker,
        transaction_version: int,
    ) -> Promise[Errors]:
        """Ends a transaction on a partition; done when that is committed."""
        answer: Promise[Errors] = Promise(self._host.loop)
        shard = self._shard_for(number, answer)
        if shard is not None:
            shard.end_transaction(producer, marker, transaction_version, answer)
        return answer

    def read(
        self,
        number: int,
        query: Callable[[MachineType], Any | Pieces[Any]],
        answer: Promise[R],
    ) -> Promise[R]:
        """The answer to a question about committed state: at once, or with turns for others in
        between if the query gives it in pieces.
        """
        shard = self._shard_for(number, answer)
        if shard is not None:
            shard.read(query, answer)
        return answer

    def read_all(
        self, query: Callable[[list[MachineType]], Any | Pieces[Any]], answer: Promise[R]
    ) -> Promise[R]:
        """The answer to a question about all that this broker coordinates, as `read` gives it.
        Refused while a part of it is loading; what is closed meanwhile still counts.
        """
        if any(shard.state is ShardState.LOADING for shard in self):
            return answer.refuse(CoordinatorError(Errors.COORDINATOR_LOAD_IN_PROGRESS))
        active = [shard.machine for shard in self if shard.state is ShardState.ACTIVE]
        keep_in_pieces(self._host.loop, found(query, active), answer)
        return answer

    def write_all(self, command: Command[MachineType]) -> None:
        """Runs a command that nobody waits for on every active shard, of which there may be fifty:
        one in each round of the loop.
        """
        self._write_each(command, iter(tuple(self._shards.values())))

    def _write_each(
        self, command: Command[MachineType], rest: Iterator[Shard[MachineType]]
    ) -> None:
        for shard in rest:
            if shard.state is ShardState.ACTIVE:
                self._host.loop.call_soon(self._write_each, command, rest)
                shard.write_unasked(command)
                return

    def shard(self, number: int) -> Shard[MachineType] | None:
        return self._shards.get(number)

    def _shard_for(self, number: int, answer: Promise[Any]) -> Shard[MachineType] | None:
        """None if this broker does not lead the partition, which then is the answer."""
        shard = self._shards.get(number)
        if shard is None:
            answer.refuse(CoordinatorError(Errors.NOT_COORDINATOR))
        return shard

    # --- leadership

    def leadership_changed(self, partition: Partition) -> None:
        """This broker leads a partition, or does so no more, or in another epoch."""
        if partition.topic != self.topic:
            return
        shard = self._shards.get(partition.number)
        if not partition.is_leader:
            if shard is not None:
                del self._shards[partition.number]
                shard.close()
            return
        if shard is not None and shard.partition is partition:
            is_newer = partition.leader_epoch > shard.leader_epoch
            shard.leader_epoch = partition.leader_epoch
            if shard.state is not ShardState.FAILED or not is_newer:
                return
        if shard is not None:
            shard.close()
        self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        shard = Shard(
            partition,
            self._make_machine(),
            self._types,
            self._host,
            self._perform,
            self._begin_again,
        )
        self._shards[partition.number] = shard
        self._to_load.put_nowait(shard)

    async def run(self) -> None:
        """Loads what is to be loaded, for as long as the broker lives."""
        while True:
            await self.load_next()

    async def load_next(self) -> None:
        """Loads the partition whose turn it is; waits for one if there is none."""
        shard = await self._to_load.get()
        await shard.load()
        number = shard.partition.number
        if shard.state is not ShardState.FAILED:
            self._pauses.pop(number, None)
            return
        pause = self._pauses.get(number, COORDINATOR_LOAD_RETRY_SECONDS_MIN)
        self._pauses[number] = min(2 * pause, COORDINATOR_LOAD_RETRY_SECONDS_MAX)
        self._host.loop.call_later(pause, self._begin_again, shard)

    def _begin_again(self, failed: Shard[MachineType]) -> None:
        if self._shards.get(failed.partition.number) is failed:
            self._begin(failed.partition)

    def stop(self) -> None:
        """Closes every shard; the broker is stopping."""
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()
