"""Share partitions at their leader, over share state that answers when a test says so."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.share.state import ShareState
from kaa.serving.share.acquisition import Fetched, FetchedBatch, acquire
from kaa.serving.share.led import LedSharePartition
from kaa.serving.share.manager import SharePartitions
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId
from tests.unit.handlers.share_requests import share_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.coordinators.share.machine import StateChange
    from kaa.coordinators.share.state import SharePartitionKey
    from tests.unit.handlers.support import Node


class HeldPersister:
    """Share state whose calls wait until they are answered, unless it is open."""

    def __init__(self) -> None:
        self.is_open = True
        self.start_offset = 0
        self.error: Errors | None = None
        self.reads: list[tuple[SharePartitionKey, int]] = []
        self.writes: list[tuple[SharePartitionKey, StateChange]] = []
        self._held: list[asyncio.Event] = []

    async def _pass(self) -> None:
        if not self.is_open:
            event = asyncio.Event()
            self._held.append(event)
            await event.wait()
        if self.error is not None:
            raise CoordinatorError(self.error)

    async def answer(self) -> None:
        """Answers what is held, and lets what follows from it happen."""
        held, self._held = self._held, []
        for event in held:
            event.set()
        await turns()

    async def initialise(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        await self._pass()

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        self.reads.append((key, leader_epoch))
        await self._pass()
        return ShareState(0, 3, leader_epoch, self.start_offset, 0, ())

    async def write(self, key: SharePartitionKey, change: StateChange) -> None:
        self.writes.append((key, change))
        await self._pass()

    async def delete(self, key: SharePartitionKey) -> None:
        await self._pass()

    async def summary(self, key: SharePartitionKey) -> ShareState:
        await self._pass()
        return ShareState(0, 3, 0, self.start_offset, 0, ())


def take(led: LedSharePartition, member_id: str = "m", now_ms: int = 0) -> None:
    """A member takes all that there is."""
    fetched = Fetched(member_id, 0, [FetchedBatch(0, 9)], 100, 100)
    assert acquire(led.machine, fetched, now_ms)
    led.keep_deadline()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Leading:
    """A node with a topic t of two partitions with ten records each, and a session of group g."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.persister = HeldPersister()
        services = node.services
        self.shares = SharePartitions(
            services.view, services.replicas, services.batch_work, self.persister
        )
        node.services = replace(services, share_partitions=self.shares)
        node.create_topic("t", 2)
        for number in (0, 1):
            node.append("t", 10, number)
        topic_id = node.services.image.topics["t"].id
        self.ids = [PartitionId(topic_id, number) for number in (0, 1)]
        self.session = self.shares.sessions.open("g", "m", self.ids, "connection")

    def lead(self, number: int = 0) -> LedSharePartition:
        found = self.shares.lead("g", self.ids[number])
        assert isinstance(found, LedSharePartition)
        return found

    async def loaded(self, number: int = 0) -> LedSharePartition:
        led = self.lead(number)
        await turns()
        assert led.is_loaded
        return led


@contextmanager
def leading(*settings: str) -> Iterator[Leading]:
    with share_node(*settings) as node:
        yield Leading(node)
