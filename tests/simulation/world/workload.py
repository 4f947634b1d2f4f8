"""What clients do in the world, and what they know of it.

| Client | What it does |
|---|---|
| transactor | transactions of sends and polls, most of them committed; reads committed records |
| sender | idempotent sends, several under way |
| member | reads as a member of a group and commits; half of them by the classic protocol |
| operator | creates and deletes topics, moves replicas and leaders, changes settings |
| worker | takes records as a member of a share group, and says what became of each (`queues`) |
| elector | adds, removes and replaces voters of the quorum (`voters`) |
| historian | reads the whole history again and again, out of the store (`archives`) |
| archivist | writes, reads back, trims and deletes tiered topics (`archives`) |

Every client has a process of its own, which may be killed and begun anew. What was done goes into
a history (`tests/histories`) with what is certain about its outcome. Commits of groups and topics
of the operator have small models of their own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from kaa.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kaa.client.admin.configs import ConfigChange
from kaa.client.errors import ClientError
from kaa.model.kinds import ResourceType
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.histories.model import Operation, Outcome, Poll, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from tests.simulation.world.processes import ClientProcess

TOPIC = "history"
PARTITIONS = 3
COMMITTED_SHARE = 0.75
READER = -1
_SCRATCH_TOPICS = 5
_PLACES = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]

TIMEOUTS = {
    "request.timeout.ms": "5000",
    "default.api.timeout.ms": "15000",
    "socket.connection.setup.timeout.ms": "3000",
    "reconnect.backoff.max.ms": "1000",
}


class Workload:
    """What all clients share."""

    def __init__(
        self, bootstrap: str, replicas: int, acknowledged: Callable[[str, int, int], None]
    ) -> None:
        self.bootstrap = bootstrap
        self.replicas = replicas
        # Called with topic, partition and offset of every record that is acknowledged.
        self.acknowledged = acknowledged
        self.operations: list[Operation] = []
        self.values = itertools.count(1)
        self.counts: Counter[str] = Counter()
        # The highest offset of each group and partition whose commit was answered.
        self.committed: dict[tuple[str, int], int] = {}
        self.topics = TopicModel()
        self.is_over = False

    def settings(self, **more: str) -> dict[str, str]:
        named = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.bootstrap, **TIMEOUTS, **named}

    def note(self, operation: Operation) -> None:
        self.operations.append(operation)
        kind = "transaction" if operation.is_transaction else "operation"
        self.counts[f"{kind} {operation.outcome.name}"] += 1
        self.counts["acknowledged"] += sum(
            operation.outcome is Outcome.OK and send.offset is not None
            for send in operation.sends()
        )
        self.counts["polled"] += sum(len(poll.records) for poll in operation.polls())


class Client:
    """A client that starts again after whatever ends it, until the work is over."""

    def __init__(self, workload: Workload, process: ClientProcess, number: int) -> None:
        self.workload = workload
        self.process = process
        self.number = number
        self.random = process.random
        self.is_done = False
        # Sent, and not in the history yet.
        self.unsettled: list[Send] = []
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = self.process.begin(self.run())

    def check(self) -> None:
        """Raises what a client did not expect, which would be seen as silence later."""
        if self._task is not None and self._task.done():
            self._task.result()

    @property
    def given(self) -> Any:
        return {"random": self.process.random, "clock": self.process.clock}

    @property
    def is_over(self) -> bool:
        return self.workload.is_over

    async def run(self) -> None:
        while not self.is_over:
            try:
                await self.work()
            except ClientError as error:
                self.complain(error)
            except BaseExceptionGroup as group:
                if not all(isinstance(error, ClientError) for error in group.exceptions):
                    raise
                self.complain(group.exceptions[0])
            self.killed()
            await asyncio.sleep(self.random.uniform(0.05, 0.5))
        self.is_done = True

    def killed(self) -> None:
        """Nobody knows any more what has become of what was under way."""
        if self.unsettled:
            is_transaction = isinstance(self, Transactor)
            operation = Operation(
                self.number, Outcome.UNKNOWN, tuple(self.unsettled), is_transaction
            )
            self.workload.note(operation)
            self.unsettled = []

    def complain(self, error: BaseException) -> None:
        self.workload.counts[type(error).__name__] += 1
        self.process.kernel.say(self.process.name, f"starts again: {error!r}"[:160])

    async def work(self) -> None:
        raise AssertionError("a client does something")


class Transactor(Client):
    """Transactions of sends and polls; with an id number, under the id of another client."""

    def __init__(
        self,
        workload: Workload,
        process: ClientProcess,
        number: int,
        id_number: int | None = None,
    ) -> None:
        super().__init__(workload, process, number)
        self.id_number = number if id_number is None else id_number

    async def work(self) -> None:
        workload = self.workload
        writing = workload.settings(
            transactional_id=f"transactor-{self.id_number}",
            transaction_timeout_ms="20000",
            delivery_timeout_ms="15000",
            max_block_ms="15000",
        )
        reading = workload.settings(isolation_level="read_committed", auto_offset_reset="none")
        async with Producer(writing, **self.given) as producer:
            await producer.init_transactions()
            async with Consumer(reading, **self.given) as consumer:
                consumer.assign(_PLACES)
                for place in _PLACES:
                    consumer.seek(place, 0)
                position_kept = False
                while not workload.is_over:
                    await asyncio.sleep(self.random.expovariate(4))
                    if self.random.random() < 0.3:
                        steps: tuple[Send | Poll, ...] = tuple(await polled(consumer))
                        outcome, is_transaction = Outcome.OK, False
                    else:
                        outcome, steps = await self.transact(producer, consumer)
                        is_transaction = True
                    self.unsettled = []
                    workload.note(
                        Operation(self.number, outcome, steps, is_transaction, position_kept)
                    )
                    position_kept = True
                    if outcome is Outcome.UNKNOWN:
                        return

    async def transact(
        self, producer: Producer, consumer: Consumer
    ) -> tuple[Outcome, tuple[Send | Poll, ...]]:
        steps: list[Send | Poll] = []
        sent: list[tuple[int, Any]] = []
        is_sent = True
        producer.begin_transaction()
        try:
            for _ in range(self.random.randint(1, 6)):
                if self.random.random() < 0.25:
                    steps.extend(await polled(consumer))
                    continue
                send = Send(self.random.randrange(PARTITIONS), next(self.workload.values))
                steps.append(send)
                self.unsettled.append(send)
                delivery = await producer.send(TOPIC, b"%d" % send.value, partition=send.partition)
                sent.append((len(steps) - 1, delivery))
            await producer.flush()
            for index, delivery in sent:
                made = await delivery
                self.workload.acknowledged(TOPIC, made.partition, made.offset)
                found = steps[index]
                assert isinstance(found, Send)
                steps[index] = Send(found.partition, found.value, made.offset)
        except ClientError:
            is_sent = False
        is_committing = is_sent and self.random.random() < COMMITTED_SHARE
        return await self._end(producer, is_committing=is_committing), tuple(steps)

    async def _end(self, producer: Producer, *, is_committing: bool) -> Outcome:
        try:
            if is_committing:
                await producer.commit_transaction()
                return Outcome.OK
            await producer.abort_transaction()
        except ClientError as error:
            # Only the next one with this transactional id finds out what has become of it.
            self.complain(error)
            return Outcome.UNKNOWN
        return Outcome.FAILED


class Sender(Client):
    """Idempotent sends, up to five requests under way."""

    async def work(self) -> None:
        workload = self.workload
        settings = workload.settings(
            delivery_timeout_ms="15000", max_block_ms="15000", linger_ms="2"
        )
        async with Producer(settings, **self.given) as producer:
            while not workload.is_over:
                sends: list[tuple[Send, Any]] = []
                for _ in range(self.random.randint(1, 12)):
                    send = Send(self.random.randrange(PARTITIONS), next(workload.values))
                    size = self.random.choice((0, 0, 0, 200, 20_000))
                    value = b"%d" % send.value + b" " * size
                    self.unsettled.append(send)
                    delivery = await producer.send(TOPIC, value, partition=send.partition)
                    sends.append((send, delivery))
                    await asyncio.sleep(self.random.expovariate(200))
                await self._settle(sends)
                await asyncio.sleep(self.random.expovariate(2))

    async def _settle(self, sends: list[tuple[Send, Any]]) -> None:
        for send, delivery in sends:
            try:
                made = await delivery
            except ClientError as error:
                self.workload.counts[type(error).__name__] += 1
                operation = Operation(self.number, Outcome.UNKNOWN, (send,))
            else:
                known = send
                # -1: it is in the log, and the broker that was started again does not say where.
                if made.offset >= 0:
                    self.workload.acknowledged(TOPIC, made.partition, made.offset)
                    known = Send(send.partition, send.value, made.offset)
                operation = Operation(self.number, Outcome.OK, (known,))
            self.unsettled.remove(send)
            self.workload.note(operation)


class Member(Client):
    """A member of a group, which commits what it has read."""

    @property
    def protocol(self) -> str:
        return "classic" if self.number % 2 else "consumer"

    @property
    def group(self) -> str:
        return f"group-{self.protocol}"

    async def work(self) -> None:
        workload = self.workload
        settings = workload.settings(
            group_id=self.group,
            group_protocol=self.protocol,
            enable_auto_commit="false",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        if self.protocol == "classic":
            settings |= {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
        async with Consumer(settings, **self.given) as consumer:
            consumer.subscribe([TOPIC])
            while not workload.is_over:
                await asyncio.sleep(self.random.expovariate(4))
                steps = await polled(consumer, 500)
                if steps:
                    operation = Operation(
                        self.number, Outcome.OK, tuple(steps), position_kept=False
                    )
                    workload.note(operation)
                if steps and self.random.random() < 0.5:
                    await self._commit(consumer, steps)
                if self.random.random() < 0.01:
                    # It leaves, and comes again as another member.
                    return

    async def _commit(self, consumer: Consumer, steps: list[Poll]) -> None:
        # The positions as they are now: a rebalance may take place inside the commit.
        wanted = {poll.partition: poll.records[-1][0] + 1 for poll in steps}
        await consumer.commit()
        self.workload.counts["group commits"] += 1
        for partition, offset in wanted.items():
            key = (self.group, partition)
            self.workload.committed[key] = max(self.workload.committed.get(key, 0), offset)


class TopicModel:
    """What is certain about the topics of the operator.

    A request without an answer may take effect at any later time, so that its name is never certain
    again; another name takes its place.
    """

    def __init__(self) -> None:
        # True if it certainly exists, False if it certainly does not.
        self.exists: dict[str, bool] = {}
        self._count = itertools.count(1)

    def a_name(self, random: Random) -> str:
        while len(self.exists) < _SCRATCH_TOPICS:
            self.exists[f"scratch-{next(self._count)}"] = False
        return random.choice(list(self.exists))

    def problems(self, found: Mapping[str, object]) -> list[str]:
        return [
            f"topic {name} {'is gone' if is_there else 'exists again'}"
            for name, is_there in sorted(self.exists.items())
            if is_there != (name in found)
        ]


class Operator(Client):
    """Creates and deletes topics under a few names; moves and changes the one that is read."""

    async def work(self) -> None:
        workload = self.workload
        async with Admin(workload.settings(), **self.given) as admin:
            while not workload.is_over:
                await asyncio.sleep(self.random.expovariate(1.5))
                chance = self.random.random()
                if chance < 0.7:
                    await self._create_or_delete(admin)
                elif chance < 0.8:
                    await self._reassign(admin)
                elif chance < 0.9:
                    await self._elect(admin)
                else:
                    await self._configure(admin)

    async def _create_or_delete(self, admin: Admin) -> None:
        workload, topics = self.workload, self.workload.topics
        name = topics.a_name(self.random)
        was_there = topics.exists.pop(name)
        if was_there:
            problem = (await admin.delete_topics([name]))[name]
        else:
            replicas = self.random.choice((1, workload.replicas))
            problem = (await admin.create_topics([NewTopic(name, 2, replicas)]))[name]
        if problem is None:
            workload.counts["topics deleted" if was_there else "topics created"] += 1
            topics.exists[name] = not was_there
        else:
            self.complain(problem)

    async def _reassign(self, admin: Admin) -> None:
        """Other replicas, in another order, or fewer: as many as must be in sync at least."""
        brokers = list(range(1, self.workload.replicas + 1))
        self.random.shuffle(brokers)
        wanted = brokers[: self.random.choice((min(2, len(brokers)), len(brokers)))]
        number = self.random.randrange(PARTITIONS)
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=TOPIC,
                    partitions=[ReassignablePartition(partition_index=number, replicas=wanted)],
                )
            ]
        )
        await admin._change(request, "reassignment")
        self.workload.counts["reassignments asked for"] += 1

    async def _elect(self, admin: Admin) -> None:
        numbers = list(range(PARTITIONS))
        request = ElectLeadersRequest(
            election_type=0, topic_partitions=[TopicPartitions(topic=TOPIC, partitions=numbers)]
        )
        await admin._change(request, "election of preferred leaders")
        self.workload.counts["elections asked for"] += 1

    async def _configure(self, admin: Admin) -> None:
        """Segments that end soon, or late."""
        change = ConfigChange("segment.ms", self.random.choice(("2000", "600000")))
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, [change])
        self.workload.counts["settings changed"] += 1


async def polled(consumer: Consumer, timeout_ms: int = 100) -> list[Poll]:
    """At most a few records."""
    found = await consumer.poll(timeout_ms, 20)
    return [
        Poll(
            partition.partition,
            tuple((record.offset, int(bytes(record.value or b""))) for record in records),
        )
        for partition, records in found.items()
        if records
    ]


async def create_topic(
    workload: Workload,
    process: ClientProcess,
    replicas: int,
    settings: Mapping[str, str] | None = None,
) -> None:
    given: Any = {"random": process.random, "clock": process.clock}
    async with Admin(workload.settings(), **given) as admin:
        topic = NewTopic(TOPIC, PARTITIONS, replicas, dict(settings or {}))
        outcome = await admin.create_topics([topic])
        assert outcome[TOPIC] is None, outcome


async def read_all(workload: Workload, process: ClientProcess) -> Operation:
    """Everything that is committed, in one operation."""
    given: Any = {"random": process.random, "clock": process.clock}
    settings = workload.settings(isolation_level="read_committed", auto_offset_reset="none")
    records: dict[int, list[tuple[int, int]]] = {number: [] for number in range(PARTITIONS)}
    async with Consumer(settings, **given) as consumer:
        ends = await consumer.end_offsets(_PLACES)
        consumer.assign(_PLACES)
        for place in _PLACES:
            consumer.seek(place, 0)
        for place in _PLACES:
            while await consumer.position(place) < ends[place]:
                for poll in await polled(consumer, 200):
                    records[poll.partition] += poll.records
    polls = tuple(Poll(number, tuple(found)) for number, found in records.items())
    return Operation(READER, Outcome.OK, polls, position_kept=False)


async def committed_offsets(
    workload: Workload, process: ClientProcess, group: str
) -> dict[int, int]:
    given: Any = {"random": process.random, "clock": process.clock}
    async with Consumer(workload.settings(group_id=group), **given) as consumer:
        found = await consumer.committed(_PLACES)
    return {place.partition: offset.offset for place, offset in found.items()}


async def topic_names(workload: Workload, process: ClientProcess) -> dict[str, object]:
    given: Any = {"random": process.random, "clock": process.clock}
    async with Admin(workload.settings(), **given) as admin:
        return {topic.name: topic for topic in await admin.list_topics()}
