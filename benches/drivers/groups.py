"""Consumer groups: how soon they are settled, and how many commits a coordinator takes.

A member is a connection that does what clients do, but looks for news every 20 ms instead of every
few seconds, so that what is timed is the coordinator and not the pause between two heartbeats.

`classic` and `consumer` (KIP-848) let members join all at once and wait until each has its share of
one generation; then one leaves, and the others must have settled again. `commits` keeps one commit
in flight on each of several connections. `fill` commits once for each of very many groups.
"""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from array import array
from typing import TYPE_CHECKING, Any, Final

from benches.drivers.frames import frame
from benches.drivers.program import run
from benches.histogram import Latencies
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_response
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kaa.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.wire.messages.k68_consumer_group_heartbeat import (
        TopicPartitions,
    )
    from kaa.wire.schema import Request

NEWS_SECONDS: Final = 0.02
SETTLE_SECONDS_MAX: Final = 60.0
JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, CONSUMER_HEARTBEAT, FIND = 7, 5, 4, 4, 8, 0, 3
# What a coordinator answers while its topic is being made or loaded.
_NOT_READY: Final = frozenset(
    {
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
    }
)
_SIZE: Final = struct.Struct(">i")


class Peer:
    """One connection with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, bootstrap_servers: str) -> Peer:
        host, _, port = bootstrap_servers.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, request: Request, version: int) -> Any:
        self._writer.write(frame(request, version))
        (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        answer = await self._reader.readexactly(size)
        return decode_response(answer, api(request.api_key), version)[1]

    def close(self) -> None:
        self._writer.close()


class Group:
    """What the members know together, since one process plays them all."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.id = task["group"]
        self.topic = task["topic"]
        self.partitions = task["partitions"]
        self.size = task["members"]
        self.settled = asyncio.Event()
        self.requests = 0
        # Classic: by generation, who has its assignment. KIP-848: by member, its partitions.
        self.synced: dict[int, set[str]] = {}
        self.owned: dict[str, set[int]] = {}

    def has_synced(self, generation: int, member_id: str) -> None:
        members = self.synced.setdefault(generation, set())
        members.add(member_id)
        if len(members) == self.size:
            self.settled.set()

    def owns(self, member_id: str, partitions: set[int]) -> None:
        self.owned[member_id] = partitions
        shares = [share for share in self.owned.values() if share]
        if len(shares) == self.size and sum(map(len, shares)) == self.partitions:
            self.settled.set()


class ClassicMember:
    def __init__(self, group: Group, peer: Peer) -> None:
        self.group, self.peer = group, peer
        self.id = ""
        self.generation = -1

    async def live(self) -> None:
        while True:
            if await self._join():
                await self._watch()

    async def _ask(self, request: Request, version: int) -> Any:
        self.group.requests += 1
        return await self.peer.ask(request, version)

    async def _join(self) -> bool:
        name = self.group.topic.encode()
        metadata = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)
        request = JoinGroupRequest(
            group_id=self.group.id,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = await self._ask(request, JOIN)
        if joined.error_code == Errors.MEMBER_ID_REQUIRED:
            self.id = joined.member_id
            return False
        if joined.error_code:
            _raise_unless_retriable(joined.error_code)
            return False
        self.generation = joined.generation_id
        shares = [
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=bytes(32))
            for each in joined.members
        ]
        sync = SyncGroupRequest(
            group_id=self.group.id,
            generation_id=self.generation,
            member_id=self.id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=shares,
        )
        synced = await self._ask(sync, SYNC)
        if synced.error_code:
            _raise_unless_retriable(synced.error_code)
            return False
        self.group.has_synced(self.generation, self.id)
        return True

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(NEWS_SECONDS)
            request = HeartbeatRequest(
                group_id=self.group.id, generation_id=self.generation, member_id=self.id
            )
            answer = await self._ask(request, HEARTBEAT)
            if answer.error_code:
                _raise_unless_retriable(answer.error_code)
                return

    async def leave(self) -> None:
        members = [MemberIdentity(member_id=self.id)]
        await self._ask(LeaveGroupRequest(group_id=self.group.id, members=members), LEAVE)


class ConsumerMember:
    def __init__(self, group: Group, peer: Peer) -> None:
        self.group, self.peer = group, peer
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: list[TopicPartitions] = []

    async def live(self) -> None:
        is_told = True
        while True:
            answer = await self._beat(self.epoch, is_full=self.epoch == 0, is_told=is_told)
            is_told = False
            if answer.error_code:
                _raise_unless_retriable(answer.error_code)
            else:
                self.id, self.epoch = answer.member_id or self.id, answer.member_epoch
                if answer.assignment is not None:
                    self.owned = answer.assignment.topic_partitions
                    # What was taken away or given is confirmed in the next heartbeat.
                    is_told = True
                numbers = {number for topic in self.owned for number in topic.partitions}
                self.group.owns(self.id, numbers)
            if not is_told:
                await asyncio.sleep(NEWS_SECONDS)

    async def _beat(self, epoch: int, *, is_full: bool = False, is_told: bool = False) -> Any:
        self.group.requests += 1
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.id,
            member_id=self.id,
            member_epoch=epoch,
            rebalance_timeout_ms=300_000 if is_full else -1,
            subscribed_topic_names=[self.group.topic] if is_full else None,
            topic_partitions=self.owned if is_told or is_full else None,
        )
        return await self.peer.ask(request, CONSUMER_HEARTBEAT)

    async def leave(self) -> None:
        await self._beat(-1)


def _raise_unless_retriable(error_code: int) -> None:
    error = Errors.of(error_code)
    if error not in {*_NOT_READY, Errors.REBALANCE_IN_PROGRESS, Errors.ILLEGAL_GENERATION}:
        raise AssertionError(f"the coordinator answered {error.name}")


async def _settle(
    task: dict[str, Any],
    begin: Callable[[], None],
    make: Callable[[Group, Peer], ClassicMember | ConsumerMember],
) -> dict[str, Any]:
    group = Group(task)
    peers = [await Peer.connect(task["bootstrap_servers"]) for _ in range(group.size)]
    members = [make(group, peer) for peer in peers]
    begin()
    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        lives = [tasks.create_task(member.live()) for member in members]
        async with asyncio.timeout(SETTLE_SECONDS_MAX):
            await group.settled.wait()
        formed = time.perf_counter() - started
        lives[-1].cancel()
        await asyncio.wait([lives[-1]])
        group.settled.clear()
        group.size -= 1
        group.owned.pop(members[-1].id, None)
        started = time.perf_counter()
        # A connection of its own: the last answer of the member may be under way on the other.
        members[-1].peer = await Peer.connect(task["bootstrap_servers"])
        await members[-1].leave()
        async with asyncio.timeout(SETTLE_SECONDS_MAX):
            await group.settled.wait()
        left = time.perf_counter() - started
        for life in lives:
            life.cancel()
    for peer in peers:
        peer.close()
    return {
        "requests": group.requests,
        "seconds": formed + left,
        "form_seconds": formed,
        "leave_seconds": left,
    }


def classic(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    return asyncio.run(_settle(task, begin, ClassicMember))


def consumer(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    return asyncio.run(_settle(task, begin, ConsumerMember))


async def _commit(task: dict[str, Any], number: int, peer: Peer) -> None:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=each, committed_offset=1, committed_metadata=""
        )
        for each in range(task["partitions"])
    ]
    request = OffsetCommitRequest(
        group_id=f"{task['group']}-{number}",
        topics=[OffsetCommitRequestTopic(name=task["topic"], partitions=partitions)],
    )
    while True:
        answer = await peer.ask(request, COMMIT)
        error = Errors.of(answer.topics[0].partitions[0].error_code)
        if error is Errors.NONE:
            return
        if error not in _NOT_READY:
            raise AssertionError(f"a commit was refused: {error.name}")
        # The first question makes the topic of offsets.
        await peer.ask(FindCoordinatorRequest(key=request.group_id), FIND)
        await asyncio.sleep(NEWS_SECONDS)


async def _at_coordinator(task: dict[str, Any], number: int) -> Peer:
    """A connection to the broker that coordinates a group. The first question makes the topic of
    offsets.
    """
    peer = await Peer.connect(task["bootstrap_servers"])
    request = FindCoordinatorRequest(key=f"{task['group']}-{number}")
    while (answer := await peer.ask(request, FIND)).error_code != Errors.NONE:
        error = Errors.of(answer.error_code)
        if error not in _NOT_READY:
            raise AssertionError(f"no coordinator was found: {error.name}")
        await asyncio.sleep(NEWS_SECONDS)
    peer.close()
    return await Peer.connect(f"{answer.host}:{answer.port}")


async def _commits(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    peers = [await _at_coordinator(task, number) for number in range(task["connections"])]
    latencies = array("d")

    async def keep_committing(number: int, peer: Peer, until: float) -> None:
        while (now := time.perf_counter()) < until:
            await _commit(task, number, peer)
            latencies.append((time.perf_counter() - now) * 1e6)

    for number, peer in enumerate(peers):
        await _commit(task, number, peer)
    begin()
    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number, peer in enumerate(peers):
            tasks.create_task(keep_committing(number, peer, started + task["seconds"]))
    seconds = time.perf_counter() - started
    for peer in peers:
        peer.close()
    return {
        "requests": len(latencies),
        "seconds": seconds,
        "commits_per_second": len(latencies) / seconds,
        "latencies": Latencies(latencies).to_text(),
    }


def commits(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    return asyncio.run(_commits(task, begin))


async def _fill(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    peers = [await Peer.connect(task["bootstrap_servers"]) for _ in range(task["connections"])]

    async def commit_some(first: int, peer: Peer) -> None:
        for number in range(first, task["groups"], len(peers)):
            await _commit(task, number, peer)

    begin()
    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for first, peer in enumerate(peers):
            tasks.create_task(commit_some(first, peer))
    for peer in peers:
        peer.close()
    return {"requests": task["groups"], "seconds": time.perf_counter() - started}


def fill(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    return asyncio.run(_fill(task, begin))


if __name__ == "__main__":
    run({"classic": classic, "consumer": consumer, "commits": commits, "fill": fill})
