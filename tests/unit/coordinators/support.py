"""A small coordinator on real partitions: a counter per name, with deadlines and waiting clients.

Time is what the test says; the loop is a real one. A partition with two replicas commits when the
test lets the second one fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from kaa.coordinators.loading import Settings
from kaa.coordinators.machine import (
    CoordinatorError,
    CoordinatorResult,
    Moment,
    NewRecord,
    Reply,
    Waiter,
)
from kaa.coordinators.promise import Promise
from kaa.coordinators.records import RecordType, RecordTypes
from kaa.coordinators.runtime import Runtime
from kaa.coordinators.shard import Shard
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.coordinators.timers import Timers
from kaa.records.batch import CompressionType
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_classic import OffsetCommitKey, OffsetCommitValue
from kaa.wire.schema import CoordinatorKey, CoordinatorValue
from tests.unit.replication.support import NODE, Replicas, partition

if TYPE_CHECKING:
    from kaa.coordinators.shard import Command, TransactionalWriter

TOPIC = "__consumer_offsets"
TYPES = RecordTypes([RecordType(OffsetCommitKey, OffsetCommitValue)])


def counter_record(name: str, value: int | None) -> NewRecord:
    key = OffsetCommitKey(group=name, topic="", partition=0)
    return NewRecord(key, None if value is None else OffsetCommitValue(offset=value), 3)


class CounterMachine:
    """Counters by name."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.counters: TimelineDict[str, int] = TimelineDict(self.timeline)
        self.timers: Timers[str] = Timers()
        self.is_loaded = False
        self.outcomes: list[tuple[str, Errors]] = []
        self.waiters: list[Waiter] = []
        self.ended_transactions: list[tuple[int, bool]] = []

    # --- commands

    def add(self, name: str, amount: int = 1, *, copies: int = 1) -> CoordinatorResult:
        if amount == 0:
            raise CoordinatorError(Errors.INVALID_REQUEST)
        value = (self.counters.get(name) or 0) + amount
        records = [counter_record(name, value) for _ in range(copies)]
        return CoordinatorResult(records, response=value, then=name)

    def remove(self, name: str) -> CoordinatorResult:
        return CoordinatorResult([counter_record(name, None)], response=True)

    def newest(self, name: str) -> CoordinatorResult:
        return CoordinatorResult(response=self.counters.get(name) or 0)

    def wait(self, waiter: Waiter) -> CoordinatorResult:
        self.waiters.append(waiter)
        return CoordinatorResult()

    def wake(self) -> CoordinatorResult:
        waiters, self.waiters = self.waiters, []
        return CoordinatorResult(
            response=len(waiters), replies=[Reply(one, "woken") for one in waiters]
        )

    # --- machine

    def replay(
        self,
        offset: int,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        assert isinstance(key, OffsetCommitKey)
        if value is None:
            self.counters.pop(key.group)
        else:
            assert isinstance(value, OffsetCommitValue)
            self.counters[key.group] = value.offset

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> Iterable[None]:
        self.ended_transactions.append((producer_id, is_commit))
        return ()

    def loaded(self, now: Moment) -> CoordinatorResult:
        self.is_loaded = True
        return CoordinatorResult()

    def unloaded(self) -> Sequence[Reply]:
        return [Reply(waiter, "gone") for waiter in self.waiters]

    def appended(self, then: Any, error: Errors, now: Moment) -> CoordinatorResult:
        self.outcomes.append((then, error))
        return CoordinatorResult()

    def expire(self, now: Moment) -> CoordinatorResult | None:
        name = self.timers.take_due(now.monotonic_ms)
        return None if name is None else self.add(name)


class TestHost:
    """A node whose clock stands still unless it is moved."""

    __test__ = False

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.executor: Executor | None = None
        self.moment = Moment(1_000_000, 0)
        self.linger_ms = -1
        self.commit_timeout_ms = 5_000
        self.reports: list[str] = []

    def now(self) -> Moment:
        return self.moment

    def settings(self) -> Settings:
        return Settings(self.linger_ms, self.commit_timeout_ms, 1 << 20, CompressionType.NONE)

    def report(self, text: str) -> None:
        self.reports.append(text)


class FewInSync(Partition):
    """A partition that has too few replicas in sync."""

    __slots__ = ()

    def append_refusal(self, required_acks: int) -> Errors | None:
        del required_acks
        return Errors.NOT_ENOUGH_REPLICAS


class Cluster:
    """One broker's side of a coordinator's topic with one partition."""

    def __init__(self, *, replicas: tuple[int, ...] = (NODE,), old: Replicas | None = None) -> None:
        self.host = TestHost()
        self.runtime = Runtime(TOPIC, CounterMachine, TYPES, self.host)
        self.replicas = old or Replicas()
        self.replicas.manager._leadership_changed = self.runtime.leadership_changed
        if old is None:
            self.partition = self.replicas.create(topic=TOPIC, replicas=replicas)
        else:
            found = old.manager.find(TOPIC, 0)
            assert isinstance(found, Partition)
            self.partition = found
            self.runtime.leadership_changed(found)
        self.epoch = 0

    def set_enough_replicas(self, *, is_enough: bool) -> None:
        self.partition.__class__ = Partition if is_enough else FewInSync

    @property
    def shard(self) -> Shard[CounterMachine]:
        (shard,) = self.runtime
        return shard

    @property
    def machine(self) -> CounterMachine:
        return self.shard.machine

    async def load(self) -> None:
        await asyncio.wait_for(self.runtime.load_next(), 60)

    def write(self, command: Callable[[CounterMachine], CoordinatorResult]) -> asyncio.Future[Any]:
        return self.run(lambda machine, _: command(machine))

    def run(
        self,
        command: Command[CounterMachine],
        writer: TransactionalWriter | None = None,
        number: int = 0,
    ) -> asyncio.Future[Any]:
        answer: Promise[Any] = Promise(self.host.loop)
        return self.runtime.write(number, command, answer, writer)

    def read(self, query: Callable[[CounterMachine], Any]) -> asyncio.Future[Any]:
        answer: Promise[Any] = Promise(self.host.loop)
        return self.runtime.read(0, query, answer)

    def committed(self, name: str) -> int | None:
        value: int | None = self.read(lambda machine: machine.counters.committed(name)).result()
        return value

    def replicate(self) -> None:
        """The other replica has fetched everything."""
        log = self.partition.online_log()
        self.partition.replica_fetched(2, log.log_end_offset)

    def lead(self, leader: int) -> None:
        self.epoch += 1
        self.replicas.replay(
            partition(self.partition.image.replicas, leader=leader, epoch=self.epoch)
        )


async def turns(count: int = 5) -> None:
    """Lets the loop do what is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def error_of(answer: asyncio.Future[Any]) -> Errors:
    try:
        await asyncio.wait_for(answer, 60)
    except CoordinatorError as refusal:
        return refusal.error
    return Errors.NONE
