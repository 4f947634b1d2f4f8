"""Clients of the tier: one reads the whole history again and again, one keeps archives.

| Client | What it does |
|---|---|
| historian | reads the topic of the history from its start to its end, over and over |
| archivist | makes a tiered topic, writes, reads it back from the tier, trims it, and deletes it |

Segments end after a second or two and leave the disk as soon as they are in the store, so that what
is read from the start comes from there. What an archivist reads it compares with what it wrote; of
topics whose deletion was answered nothing may stay in the store (`store`).
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from kaa.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.histories.model import Operation, Outcome
from tests.simulation.world.committed import InvariantError
from tests.simulation.world.workload import PARTITIONS, TOPIC, Client, polled

if TYPE_CHECKING:
    from tests.simulation.world.processes import ClientProcess
    from tests.simulation.world.workload import Workload

EARLIEST_LOCAL = -4
BURSTS = 6
SETTINGS = (
    "remote.log.storage.system.enable=true",
    "remote.log.manager.task.interval.ms=500",
    "remote.log.manager.task.retry.backoff.ms=200",
    "remote.log.manager.task.retry.backoff.max.ms=1000",
    "log.retention.check.interval.ms=1000",
    "rlmm.config.remote.log.metadata.topic.num.partitions=2",
    "rlmm.config.remote.log.metadata.consume.wait.ms=10000",
    "rlmm.config.remote.log.metadata.common.client.request.timeout.ms=5000",
    "rlmm.config.remote.log.metadata.common.client.default.api.timeout.ms=10000",
    "rlmm.config.remote.log.metadata.common.client.delivery.timeout.ms=10000",
    "rlmm.config.remote.log.metadata.common.client.linger.ms=0",
)
SINGLE = (
    *SETTINGS,
    "rlmm.config.remote.log.metadata.topic.replication.factor=1",
    "rlmm.config.remote.log.metadata.topic.min.isr=1",
)
REPLICATED = (
    *SETTINGS,
    "rlmm.config.remote.log.metadata.topic.replication.factor=3",
    "rlmm.config.remote.log.metadata.topic.min.isr=2",
)
TIERED = {
    "remote.storage.enable": "true",
    "segment.ms": "1500",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}


class Archives:
    """What is certain about the topics of archivists."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.deleted: list[str] = []

    def a_name(self) -> str:
        return f"archive-{next(self._numbers)}"


class Historian(Client):
    """Reads all that is committed, from the start on."""

    async def work(self) -> None:
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        settings = self.workload.settings(
            isolation_level="read_committed", auto_offset_reset="none"
        )
        async with Consumer(settings, **self.given) as consumer:
            while not self.is_over:
                await self._read_all(consumer, places)
                await asyncio.sleep(self.random.expovariate(1))

    async def _read_all(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        ends = await consumer.end_offsets(places)
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        is_first = True
        while not await _has_read(consumer, ends):
            if self.is_over:
                return
            steps = tuple(await polled(consumer, 200))
            operation = Operation(self.number, Outcome.OK, steps, position_kept=not is_first)
            self.workload.note(operation)
            is_first = False
        consumer.assign([])
        self.workload.counts["histories read"] += 1


async def _has_read(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    return all([await consumer.position(place) >= end for place, end in ends.items()])


class Archivist(Client):
    """One archive after the other."""

    def __init__(
        self, workload: Workload, process: ClientProcess, number: int, archives: Archives
    ) -> None:
        super().__init__(workload, process, number)
        self._archives = archives

    async def work(self) -> None:
        async with Admin(self.workload.settings(), **self.given) as admin:
            while not self.is_over:
                await self._archive(admin, self._archives.a_name())

    async def _archive(self, admin: Admin, name: str) -> None:
        counts = self.workload.counts
        topic = NewTopic(name, 1, self.workload.replicas, TIERED)
        problem = (await admin.create_topics([topic]))[name]
        if problem is not None:
            raise problem
        place = TopicPartition(name, 0)
        known = await self._fill(name)
        await self._read(place, known, 0)
        (local,) = (await admin.list_offsets({place: EARLIEST_LOCAL})).values()
        counts["archives tiered"] += local.offset > 0
        start = self.random.randrange(max(known) + 1)
        await admin.delete_records({place: start})
        counts["archives trimmed"] += 1
        await self._read(place, known, start)
        if self.random.random() < 0.8:
            problem = (await admin.delete_topics([name]))[name]
            if problem is not None:
                raise problem
            counts["archives deleted"] += 1
            self._archives.deleted.append(name)

    async def _fill(self, name: str) -> dict[int, int]:
        """Writes in bursts, so that segments end; what is where, by offset."""
        settings = self.workload.settings(delivery_timeout_ms="15000", max_block_ms="15000")
        known: dict[int, int] = {}
        async with Producer(settings, **self.given) as producer:
            for number in range(BURSTS):
                sends = []
                for _ in range(self.random.randint(2, 6)):
                    value = next(self.workload.values)
                    padding = b" " * self.random.choice((0, 200, 5_000))
                    delivery = await producer.send(name, b"%d" % value + padding, partition=0)
                    sends.append((value, delivery))
                for value, delivery in sends:
                    known[(await delivery).offset] = value
                await asyncio.sleep(self.random.uniform(0.4, 1.6) if number else 0)
        # -1: it is in the log, and the broker that was started again does not say where.
        known.pop(-1, None)
        return known

    async def _read(self, place: TopicPartition, known: dict[int, int], start: int) -> None:
        """Everything that is known to be there is there, from `start` on."""
        settings = self.workload.settings(auto_offset_reset="none")
        wanted = {offset: value for offset, value in known.items() if offset >= start}
        found: dict[int, int] = {}
        async with Consumer(settings, **self.given) as consumer:
            consumer.assign([place])
            consumer.seek(place, start)
            while wanted and await consumer.position(place) <= max(wanted):
                for poll in await polled(consumer, 200):
                    found |= dict(poll.records)
        wrong = {
            offset: (value, found.get(offset))
            for offset, value in wanted.items()
            if found.get(offset) != value
        }
        if wrong:
            raise InvariantError("archive", f"{place}: {wrong}, from {start}")
        self.workload.counts["archives read"] += 1
