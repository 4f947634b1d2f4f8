"""A queue in the world: workers of a share group, and what may become of its records.

Workers take records of the topic that the other clients write, under read_committed, and accept
most of them; some are released or rejected, some are held until their locks run out. What must be
so:

| Name | What may not happen |
|---|---|
| acknowledged-again | the end of a record was answered as stored, and its leader offers it again |
| deliveries | a delivery whose count is not between one and the limit |
| never-committed | a record was delivered that readers of committed records do not have |
| not-drained | after healing, a committed record is neither acknowledged nor given up in the end |

The first is looked at where it is decided, at the leader of the newest epoch, over and over: a
record that has ended lies before the start of the window or is done with in it. Workers cannot tell
by themselves. A leader that was cut off and does not know of its successor may hand records out
that have ended there, which is Kafka's too: nothing that is said of them counts.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

from kaa.client import AcknowledgeType, Admin, ShareConsumer
from kaa.client.admin.configs import ConfigChange
from kaa.model.kinds import ResourceType
from tests.simulation.world.committed import InvariantError
from tests.simulation.world.workload import PARTITIONS, TOPIC, Client

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.client import TopicPartition
    from kaa.client.share.fetched import ShareRecord
    from kaa.serving.share.machine import SharePartition
    from tests.histories.model import Operation
    from tests.simulation.world.processes import ClientProcess
    from tests.simulation.world.workload import Workload

GROUP = "workers"
# What the names of other groups begin with.
VISITORS = "visitors"
DELIVERIES_MAX = 4
LOCK_SECONDS = 3.0
# With visitors workers are late so often that they meet those who have their records by then.
SLOW_SHARE, VISITED_SLOW_SHARE = 0.02, 0.3
SETTINGS = (
    "share.coordinator.state.topic.num.partitions=2",
    "share.coordinator.snapshot.update.records.per.snapshot=10",
    "share.coordinator.state.topic.prune.interval.ms=5000",
    "group.share.min.heartbeat.interval.ms=500",
    "group.share.heartbeat.interval.ms=500",
    "group.share.min.session.timeout.ms=5000",
    "group.share.session.timeout.ms=5000",
    "group.share.min.record.lock.duration.ms=1000",
    f"group.share.record.lock.duration.ms={int(LOCK_SECONDS * 1000)}",
    "group.share.initialize.retry.interval.ms=3000",
)
SINGLE = (
    *SETTINGS,
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)
REPLICATED = (
    *SETTINGS,
    "share.coordinator.state.topic.replication.factor=3",
    "share.coordinator.state.topic.min.isr=2",
)
_KINDS = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
_WEIGHTS = (8, 1, 1)


class Queue:
    """What is certain about the records of the group."""

    def __init__(self, slow_share: float = SLOW_SHARE) -> None:
        """`slow_share`: how often workers take longer than they may hold records."""
        self.slow_share = slow_share
        # The offsets whose end was answered as stored, by partition, in order.
        self.ended: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self.delivered: dict[tuple[int, int], int] = {}
        # Nothing is written any more: workers accept what they get.
        self.is_draining = False
        self.is_over = False

    def was_delivered(self, record: ShareRecord) -> None:
        place = f"{TOPIC}-{record.partition} offset {record.offset}"
        if not 1 <= record.delivery_count <= DELIVERIES_MAX:
            raise InvariantError("deliveries", f"{place}: delivery {record.delivery_count}")
        value = int(bytes(record.value or b""))
        if self.delivered.setdefault((record.partition, record.offset), value) != value:
            raise InvariantError("never-committed", f"{place}: {value} and something else")

    def has_ended(self, partition: int, offset: int) -> None:
        some = self.ended[partition]
        place = bisect_left(some, offset)
        if place == len(some) or some[place] != offset:
            insort(some, offset)

    def check_leader(self, number: int, machine: SharePartition, name: str) -> None:
        """What has ended is done with at the leader of the newest epoch."""
        some = self.ended[number]
        later = some[bisect_left(some, machine.start_offset) :]
        if not later:
            return
        done = set(_done(machine, later[-1]))
        for offset in later:
            if offset not in done:
                detail = f"{name} offers {TOPIC}-{number} offset {offset}: {_told(machine)}"
                raise InvariantError("acknowledged-again", detail)

    def check_delivered(self, everything: Operation) -> None:
        committed = {
            (poll.partition, offset): value
            for poll in everything.polls()
            for offset, value in poll.records
        }
        for place, value in sorted(self.delivered.items()):
            if committed.get(place) != value:
                detail = f"{place} was delivered as {value}, committed is {committed.get(place)}"
                raise InvariantError("never-committed", detail)


def is_drained(machine: SharePartition, offsets: Iterable[int]) -> bool:
    """Whether these offsets are all done with."""
    wanted = [offset for offset in offsets if offset >= machine.start_offset]
    return not wanted or set(wanted) <= set(_done(machine, wanted[-1]))


def _done(machine: SharePartition, last_offset: int) -> Iterator[int]:
    """The offsets of the window that are done with."""
    for batch in machine.window:
        for first, last, state in batch.states():
            if state.state.is_terminal and not state.is_ongoing:
                yield from range(max(first, machine.start_offset), min(last, last_offset) + 1)


def _told(machine: SharePartition) -> str:
    states = [
        f"{first}-{last} {state.state.name} {state.delivery_count}"
        for batch in machine.window
        for first, last, state in batch.states()
    ]
    return f"{machine.start_offset} to {machine.end_offset}, {'; '.join(states)}"


class Worker(Client):
    """A member of the share group."""

    def __init__(
        self, workload: Workload, process: ClientProcess, number: int, queue: Queue
    ) -> None:
        super().__init__(workload, process, number)
        self.queue = queue

    @property
    def is_over(self) -> bool:
        return self.queue.is_over

    async def work(self) -> None:
        settings = self.workload.settings(
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            max_poll_records="10",
            fetch_max_wait_ms="300",
        )
        async with ShareConsumer(settings, **self.given) as consumer:
            said: dict[tuple[int, int], AcknowledgeType] = {}

            def answered(place: TopicPartition, offsets: frozenset[int], error: object) -> None:
                for offset in offsets if error is None else ():
                    kind = said[place.partition, offset]
                    self.workload.counts[f"records {kind.name}"] += 1
                    if kind is not AcknowledgeType.RELEASE:
                        self.queue.has_ended(place.partition, offset)

            consumer.set_acknowledgement_commit_callback(answered)
            consumer.subscribe([TOPIC])
            while not self.is_over:
                records = await consumer.poll(500)
                for record in records:
                    self.workload.counts["records delivered"] += 1
                    self.workload.counts["records delivered again"] += record.delivery_count > 1
                    self.queue.was_delivered(record)
                await self._pause()
                for record in records:
                    kind = self._kind()
                    said[record.partition, record.offset] = kind
                    consumer.acknowledge(record, kind)
                if self.random.random() < 0.5:
                    await consumer.commit()
                if self.random.random() < 0.02:
                    # It leaves, and comes again as another member.
                    return

    async def _pause(self) -> None:
        """Processing takes a while, now and then longer than a record may be held."""
        is_long = not self.queue.is_draining and self.random.random() < self.queue.slow_share
        await asyncio.sleep(LOCK_SECONDS * 1.2 if is_long else self.random.expovariate(10))

    def _kind(self) -> AcknowledgeType:
        if self.queue.is_draining:
            return AcknowledgeType.ACCEPT
        return self.random.choices(_KINDS, _WEIGHTS)[0]


class Visitor(Client):
    """Comes with a new group each time, which begins with the newest records, and takes a few.

    So share state is begun all through the story, and not before anything has gone wrong.
    """

    async def work(self) -> None:
        name = f"{VISITORS}-{self.number}-{self.random.randrange(1_000_000)}"
        settings = self.workload.settings(group_id=name, fetch_max_wait_ms="300")
        async with ShareConsumer(settings, **self.given) as consumer:
            consumer.subscribe([TOPIC])
            for _ in range(self.random.randrange(4, 12)):
                records = await consumer.poll(500)
                self.workload.counts["records visited"] += len(records)
                if self.is_over:
                    break
        self.workload.counts["visits"] += 1


async def configure_group(workload: Workload, process: ClientProcess) -> None:
    given: Any = {"random": process.random, "clock": process.clock}
    changes = [
        ConfigChange("share.auto.offset.reset", "earliest"),
        ConfigChange("share.isolation.level", "read_committed"),
        ConfigChange("share.delivery.count.limit", str(DELIVERIES_MAX)),
    ]
    async with Admin(workload.settings(), **given) as admin:
        await admin.alter_configs(ResourceType.GROUP, GROUP, changes)
