"""Members of a share group that work a queue off, and what they saw of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kaa.client import (
    AcknowledgeType,
    Admin,
    ConfigChange,
    NewTopic,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from kaa.client.errors import ClientError, KafkaError
from kaa.model.kinds import ResourceType
from tests.support.queue_history import DELIVERED, ENDED, Event

if TYPE_CHECKING:
    from random import Random

    from kaa.client.share.session import NodeSession
    from kaa.wire.primitives import PartitionId

RECORDS, PARTITIONS = 120, 2
DELIVERIES_MAX = 10
TOPIC, GROUP = "jobs", "workers"
# What the queue has when it is filled.
EVERYTHING = {(number % PARTITIONS, number // PARTITIONS) for number in range(RECORDS)}
# On any of the nodes.
SPREAD = NewTopic(TOPIC, PARTITIONS)
QUICK = (
    "group.share.min.heartbeat.interval.ms=200",
    "group.share.heartbeat.interval.ms=200",
    "group.share.assignment.interval.ms=100",
    "group.share.max.delivery.count.limit=10",
)


class Watched(ShareConsumer):
    """Notes what it is handed in the moment in which it comes: a poll may give it much later, when
    another node leads and others have got the records.
    """

    def __init__(self, settings: dict[str, Any], name: str, history: list[Event]) -> None:
        super().__init__(settings)
        self._name = name
        self._history = history

    def _receive(self, session: NodeSession, node_id: int, place: PartitionId, one: Any) -> None:
        before = len(self._ready)
        super()._receive(session, node_id, place, one)
        for record, count, _ in tuple(self._ready)[before:]:
            seen = (record.partition, record.offset)
            self._history.append(Event(DELIVERED, seen, self._name, count))


class Workers:
    """Members that say what became of records, and the history of what they saw."""

    def __init__(self, bootstrap: str, random: Random) -> None:
        self.bootstrap = bootstrap
        self.random = random
        self.history: list[Event] = []
        self.ended: set[tuple[int, int]] = set()
        self.progress = asyncio.Event()

    async def has_ended(self, count: int) -> None:
        """Returns when so many records were accepted or rejected."""
        while len(self.ended) < count:
            self.progress.clear()
            await self.progress.wait()

    async def work(self, name: str) -> None:
        """One member after the other under this name; some die without a word."""
        while True:
            settings = {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": 7,
                "fetch.max.wait.ms": 100,
            }
            consumer = Watched(settings, name, self.history)
            async with consumer:
                consumer.subscribe([TOPIC])
                await self._take(consumer, name, self.random.randint(3, 12))
                if self.random.random() < 0.5:
                    # Gone without a word: what it holds comes back when the broker notices.
                    consumer.cluster.close()

    async def _take(self, consumer: ShareConsumer, name: str, polls: int) -> None:
        said: dict[tuple[int, int], AcknowledgeType] = {}

        def committed(partition: TopicPartition, offsets: frozenset[int], error: object) -> None:
            for offset in offsets:
                place = (partition.partition, offset)
                if error is None and said.get(place) != AcknowledgeType.RELEASE:
                    self.history.append(Event(ENDED, place, name))
                    self.ended.add(place)
                    self.progress.set()

        consumer.set_acknowledgement_commit_callback(committed)
        for _ in range(polls):
            try:
                records = await consumer.poll(500)
            except KafkaError as error:
                if not error.retriable:
                    raise
                continue
            await asyncio.sleep(self.random.random() * 0.05)
            for record in records:
                kind = self.random.choices(list(AcknowledgeType)[:3], [8, 1, 1])[0]
                said[record.partition, record.offset] = kind
                consumer.acknowledge(record, kind)
            if self.random.random() < 0.5:
                await consumer.commit()


async def prepare(bootstrap: str, topic: NewTopic = SPREAD, records: int = RECORDS) -> None:
    """Makes the topic with the first records, for a group that begins with the first of them."""
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        await admin.create_topics([topic])
        await admin.alter_configs(
            ResourceType.GROUP,
            GROUP,
            [
                ConfigChange("share.auto.offset.reset", "earliest"),
                ConfigChange("share.delivery.count.limit", DELIVERIES_MAX),
            ],
        )
    await fill(bootstrap, range(records))


async def fill(bootstrap: str, numbers: range) -> None:
    async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
        for number in numbers:
            await producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)


async def is_done(workers: Workers) -> bool:
    """Whether the broker has nothing left for the group."""
    try:
        async with Admin(
            {"bootstrap.servers": workers.bootstrap, "default.api.timeout.ms": 5_000}
        ) as admin:
            found = await admin.list_share_group_offsets(GROUP)
    except ClientError:
        return False
    return len(found) == PARTITIONS and all(position.lag == 0 for position in found.values())
