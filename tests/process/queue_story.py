"""What a queue goes through on three nodes, whichever systems they are of: the node that leads it,
and those that keep its state and its group, are killed and stand still while members work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.process.queue_workers import (
    DELIVERIES_MAX,
    EVERYTHING,
    GROUP,
    QUICK,
    RECORDS,
    TOPIC,
    Workers,
    is_done,
    prepare,
)
from tests.support.pace import PATIENCE_SECONDS
from tests.support.queue_history import ENDED, problems
from tests.support.raw import RawClient

MEMBERS = 3
SETTINGS = (
    *QUICK,
    "share.coordinator.state.topic.num.partitions=3",
    "share.coordinator.state.topic.replication.factor=3",
    "share.coordinator.state.topic.min.isr=2",
)
# Shorter than the session of a broker, and longer: then others lead what it led.
SHORT_SECONDS, LONG_SECONDS = 1.5, 6.0
_GROUP_KEY, _SHARE_KEY = 0, 2


class Nodes(Protocol):
    """A cluster of which all nodes run, but for what happens here."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def ids(self) -> list[int]: ...
    def address(self, node_id: int, /) -> str: ...
    def start(self, *node_ids: int) -> None: ...
    def kill(self, node_id: int, /) -> None: ...
    def pause(self, node_id: int, /) -> None: ...
    def resume(self, node_id: int, /) -> None: ...


# Finds the node in a role; -1 while nobody has it.
Find = Callable[[], int]
# What is done, and to the node in which role.
Step = tuple[Callable[[Find], Coroutine[Any, Any, None]], Find]


class Roles:
    """Which node has a say in the queue, as any node knows it."""

    def __init__(self, nodes: Nodes) -> None:
        self._address = nodes.address(nodes.ids[0])

    def leader(self) -> int:
        """Of the first partition."""
        leader, _ = self._first_partition()
        return leader

    def state_coordinator(self) -> int:
        _, share_key = self._first_partition()
        return self._coordinator(_SHARE_KEY, share_key)

    def group_coordinator(self) -> int:
        return self._coordinator(_GROUP_KEY, GROUP)

    def _first_partition(self) -> tuple[int, str]:
        """Its leader, and its name among the share partitions."""
        with RawClient(self._address) as client:
            topic = MetadataRequestTopic(name=TOPIC)
            (found,) = client.ask(MetadataRequest(topics=[topic])).topics
        first = min(found.partitions, key=lambda one: one.partition_index)
        return first.leader_id, f"{GROUP}:{found.topic_id}:0"

    def _coordinator(self, kind: int, key: str) -> int:
        with RawClient(self._address) as client:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            node_id: int = client.ask(request).coordinators[0].node_id
            return node_id


class Harm:
    """What is done to nodes while members work, one thing after the other."""

    def __init__(self, nodes: Nodes, pause_seconds: float) -> None:
        self._nodes = nodes
        self._pause_seconds = pause_seconds
        self.done: Counter[tuple[str, int]] = Counter()

    async def kill(self, find: Find) -> None:
        node_id = await asyncio.to_thread(find)
        if node_id < 0:
            # Nobody has the role at the moment, after the harm before.
            return
        self.done["kill", node_id] += 1
        await asyncio.to_thread(self._nodes.kill, node_id)
        await asyncio.to_thread(self._nodes.start, node_id)

    async def pause(self, find: Find) -> None:
        node_id = await asyncio.to_thread(find)
        if node_id < 0:
            return
        self.done["pause", node_id] += 1
        await asyncio.to_thread(self._nodes.pause, node_id)
        await asyncio.sleep(self._pause_seconds)
        await asyncio.to_thread(self._nodes.resume, node_id)

    async def kill_all(self, _: Find) -> None:
        for node_id in self._nodes.ids:
            await asyncio.to_thread(self._nodes.kill, node_id)
        await asyncio.to_thread(self._nodes.start, *self._nodes.ids)


async def tell(nodes: Nodes, workers: Workers, pause_seconds: float) -> Harm:
    """The whole story, until the broker has nothing left for the group."""
    await prepare(nodes.bootstrap_servers)
    roles, harm = Roles(nodes), Harm(nodes, pause_seconds)
    steps: list[Step] = [
        (do, find)
        for do in (harm.kill, harm.pause)
        for find in (roles.leader, roles.state_coordinator, roles.group_coordinator)
    ]
    workers.random.shuffle(steps)
    steps.append((harm.kill_all, roles.leader))
    async with working(workers):
        for place, (do, find) in enumerate(steps, 1):
            await workers.has_ended(RECORDS * place // (2 * len(steps)))
            await do(find)
    return harm


@asynccontextmanager
async def working(workers: Workers) -> AsyncIterator[None]:
    """Members work during a block, and after it until the queue is worked off."""
    async with asyncio.timeout(PATIENCE_SECONDS * 6), asyncio.TaskGroup() as tasks:
        members = [tasks.create_task(workers.work(f"m{number}")) for number in range(MEMBERS)]
        yield
        done = False
        while not done:
            await asyncio.sleep(0.2)
            done = await is_done(workers)
        for member in members:
            member.cancel()


def check(workers: Workers, pause_seconds: float = SHORT_SECONDS) -> None:
    """The history is one that a queue may have."""
    found = problems(workers.history, EVERYTHING, DELIVERIES_MAX)
    # What ended without an answer to its member is not known here, but the broker has ended it.
    found = [text for text in found if "never ended" not in text]
    if pause_seconds == LONG_SECONDS:
        # A node that stood still hands out what it knew, until it hears of its successor; nothing
        # that is said of it counts.
        found = [text for text in found if "then came again" not in text]
    ended = Counter(event.place for event in workers.history if event.kind == ENDED)
    found += [f"{place} ended {count} times" for place, count in ended.items() if count > 1]
    assert not found, "\n".join(found)
    assert len(workers.ended) > RECORDS // 2
