from __future__ import annotations

import asyncio
from random import Random

import pytest

from kaa.broker.node import running
from kaa.client.connection import ConnectionSettings
from kaa.client.peer import Peer
from kaa.controller.port import ControllerRequestContext
from kaa.log.append import append_as_leader
from kaa.model.nodes import HostPort
from kaa.replication.follower.link import (
    LeaderOffsets,
    LocalStart,
    RemoteLeader,
    ReplicaFetchBounds,
    make_request,
)
from kaa.replication.follower.session import FetchPlan, FetchPosition
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import ReplicaState
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.ids import uuid
from tests.unit.broker.support import config, formatted, node
from tests.unit.log.batches import batch

BOUNDS = ReplicaFetchBounds(wait_ms=10, bytes_min=1, bytes_max=1_000_000)


def connect(address: HostPort) -> Peer:
    return Peer(address, ConnectionSettings(), Random(1))


def test_a_leader_that_moved_gets_another_connection() -> None:
    places = [HostPort("one", 1), HostPort("one", 1), HostPort("two", 1)]
    link = RemoteLeader(9, lambda: 77, lambda: places.pop(0), connect)
    first = link.peer()
    assert link.peer() is first
    assert link.peer().address == HostPort("two", 1)
    link.close()


def test_a_leader_over_a_connection() -> None:
    settings = config()

    async def main() -> None:
        async with running(node(settings, formatted(settings))) as broker:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            await broker.services.controller.submit(
                CreateTopicsRequest(topics=[topic], timeout_ms=1000), ControllerRequestContext(7)
            )
            partition = broker.services.replicas.find("t", 0)
            assert isinstance(partition, Partition)
            partition.append(batch(5), now_ms=0)
            partition.online_log().increment_log_start_offset(2)
            host, _, port = broker.bootstrap_servers.rpartition(":")
            address = HostPort(host, int(port))
            link = RemoteLeader(9, lambda: 77, lambda: address, connect)
            assert await link.offsets("t", 0, 0) == LeaderOffsets(2, 5)
            assert await link.offsets("t", 0, 8) is Errors.UNKNOWN_LEADER_EPOCH
            # Records of two epochs, of which the second began on the disk.
            log = partition.online_log()
            append_as_leader(log, batch(5), leader_epoch=3, now_ms=0)
            log.local_log_start_offset = 5
            found = await link.local_start("t", 0, 0, after_tier=False)
            assert found == LocalStart(offset=5, epoch_before=0, log_start_offset=2)
            log.local_log_start_offset = 6
            # Nothing is tiered, so that nothing lies after it.
            found = await link.local_start("t", 0, 0, after_tier=True)
            assert found == LocalStart(offset=6, epoch_before=3, log_start_offset=2)
            stale = await link.local_start("t", 0, 8, after_tier=False)
            assert stale is Errors.UNKNOWN_LEADER_EPOCH
            key = (partition.topic_id, 0)
            plan = FetchPlan(0, 0, {key: FetchPosition(2, 0, 0, 2, 1_000)}, [])
            response = await link.fetch(plan, BOUNDS)
            # Broker 9 is not a replica, which only the leader can tell.
            ((answer,),) = [topic.partitions for topic in response.responses]
            assert answer.error_code == Errors.UNKNOWN_LEADER_EPOCH
            link.close()

    asyncio.run(main())


def test_a_leader_that_is_not_there() -> None:
    async def main() -> None:
        plan = FetchPlan(0, 0, {}, [])
        unknown = RemoteLeader(9, lambda: 77, lambda: None, connect)
        with pytest.raises(ConnectionError):
            await unknown.fetch(plan, BOUNDS)
        # Nothing listens at the port of discard.
        silent = RemoteLeader(9, lambda: 77, lambda: HostPort("127.0.0.1", 9), connect)
        with pytest.raises(ConnectionError):
            await silent.fetch(plan, BOUNDS)
        with pytest.raises(ConnectionError):
            await silent.offsets("t", 0, 0)

    asyncio.run(main())


def test_a_request_names_topics_once() -> None:
    one, two = uuid(1), uuid(2)
    position = FetchPosition(5, 4, 3, 2, 1_000)
    plan = FetchPlan(7, 3, {(one, 0): position, (two, 0): position, (one, 1): position}, [(two, 9)])
    request = make_request(plan, BOUNDS, ReplicaState(replica_id=9, replica_epoch=77))
    assert [(topic.topic_id, len(topic.partitions)) for topic in request.topics] == [
        (one, 2),
        (two, 1),
    ]
    asked = request.topics[0].partitions[1]
    assert (asked.partition, asked.fetch_offset, asked.current_leader_epoch) == (1, 5, 4)
    assert (asked.last_fetched_epoch, asked.log_start_offset) == (3, 2)
    (forgotten,) = request.forgotten_topics_data
    assert (forgotten.topic_id, list(forgotten.partitions)) == (two, [9])
    assert (request.session_id, request.session_epoch) == (7, 3)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (10, 1, 1_000_000)
