from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from kaa.broker.metadata import NodeMetadata
from kaa.client.connection import ConnectionSettings
from kaa.client.peer import Peers
from kaa.controller.channel import ControllerChannel
from kaa.controller.port import ControllerRequestContext, ForwardedClient
from kaa.controller.result import ControllerError
from kaa.limits import CONTROLLER_RETRY_PAUSE_MS
from kaa.serving.producer_ids import ProducerIds
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from kaa.wire.messages.k55_describe_quorum import DescribeQuorumRequest, RequestTopicData
from kaa.wire.messages.k55_describe_quorum import RequestPartitionData as QuorumPartition
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from tests.support.cluster import Cluster, cluster
from tests.unit.controller.cluster import NODE_ID, topic
from tests.unit.controller.replica_node import Node, running
from tests.unit.quorum.disk_replica import HeldExecutor, new_disk, settle

CLIENT = ForwardedClient("client", 7, bytes([127, 0, 0, 1]))


def follower(made: Cluster) -> NodeMetadata:
    """The metadata of a node that does not lead."""
    leader = made.leader()
    node = next(node for node_id, node in made.nodes.items() if node_id != leader)
    assert node._metadata is not None
    return node._metadata


def test_requests_reach_the_controller_of_another_node() -> None:
    async def scenario() -> None:
        async with cluster() as made:
            channel = follower(made).forwarding
            wanted = CreateTopicsRequest(topics=[topic("t"), topic("not legal!")])
            created = await channel.submit(wanted, ControllerRequestContext(7, CLIENT))
            assert [each.error_code for each in created.topics] == [
                Errors.NONE,
                Errors.INVALID_TOPIC_EXCEPTION,
            ]
            partition = QuorumPartition(partition_index=0)
            quorum = await channel.submit(
                DescribeQuorumRequest(
                    topics=[
                        RequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
                    ]
                ),
                ControllerRequestContext(2, CLIENT),
            )
            assert quorum.topics[0].partitions[0].leader_id == made.leader()
            # What a broker asks for itself needs no envelope.
            refused = await follower(made).heartbeats.submit(
                AllocateProducerIdsRequest(broker_id=1, broker_epoch=-5),
                ControllerRequestContext(0),
            )
            assert refused.error_code == Errors.STALE_BROKER_EPOCH
            broker = made.nodes[1]
            ids = ProducerIds(follower(made).heartbeats, 1, broker._broker_epoch)
            assert [await ids.next_id() for _ in range(3)] == [0, 1, 2]

    asyncio.run(scenario())


def test_a_request_waits_for_the_next_controller() -> None:
    async def scenario() -> None:
        async with cluster() as made:
            leader = made.leader()
            assert leader is not None
            channel = follower(made).forwarding
            stopping = asyncio.ensure_future(made.stop(leader))  # noqa: TID251
            await made.until(lambda: made.nodes[leader].services.metadata.active is None)
            wanted = CreateTopicsRequest(topics=[topic("t")])
            created = await channel.submit(wanted, ControllerRequestContext(7, CLIENT))
            assert created.topics[0].error_code == Errors.NONE
            await stopping

    asyncio.run(scenario())


def test_a_deadline_ends_the_search() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            node.replica.follow(9, None)
            channel = ControllerChannel(
                node.replica,
                Peers(ConnectionSettings(), Random(1)),
                Random(1),
                node_id=1,
                timeout_ms=10_000,
            )
            wanted = CreateTopicsRequest(topics=[topic("t")])
            begun = asyncio.get_running_loop().time()
            answer = await channel.submit(wanted, ControllerRequestContext(7, timeout_ms=120))
            assert answer.topics[0].error_code == Errors.REQUEST_TIMED_OUT
            assert 0.1 < asyncio.get_running_loop().time() - begun < 2

    asyncio.run(scenario())


def test_a_deadline_ends_the_wait_for_the_controller_of_this_node() -> None:
    """Whether its disk is stuck before it is active or in a command."""

    async def scenario() -> None:
        executor = HeldExecutor()
        node = Node(new_disk(), executor=executor)
        start = asyncio.ensure_future(node.start())  # noqa: TID251
        channel = ControllerChannel(
            node.replica,
            Peers(ConnectionSettings(), Random(1)),
            Random(1),
            node_id=NODE_ID,
            timeout_ms=10_000,
        )

        async def ask() -> CreateTopicsResponse:
            asked = CreateTopicsRequest(topics=[topic("t")])
            return await channel.submit(asked, ControllerRequestContext(7, timeout_ms=50))

        async with asyncio.timeout(5):
            await settle()
            while node.replica.active is None:
                executor.work()
                await settle()
            assert not node.replica.active.activated.done()
            assert (await ask()).topics[0].error_code == Errors.REQUEST_TIMED_OUT
            while not start.done():
                executor.work()
                await settle()
            registration = asyncio.ensure_future(node.register())  # noqa: TID251
            await settle()
            while not registration.done():
                executor.work()
                await settle()
            assert (await ask()).topics[0].error_code == Errors.REQUEST_TIMED_OUT
            while executor.jobs:
                executor.work()
                await settle()
            # It was written, and counts when the disk is back.
            assert list(node.replica.image.topics) == ["t"]
            stop = asyncio.ensure_future(node.replica.stop())  # noqa: TID251
            while not stop.done():
                await settle()
                if executor.jobs:
                    executor.work()

    asyncio.run(scenario())


def test_a_client_that_gives_up_leaves_the_connection_to_others() -> None:
    async def scenario() -> None:
        async with cluster() as made:
            channel = follower(made).forwarding
            leader = made.nodes[made.leader() or 0].services.metadata.active
            assert leader is not None
            context = ControllerRequestContext(7, CLIENT)
            created = await channel.submit(CreateTopicsRequest(topics=[topic("a")]), context)
            assert created.topics[0].error_code == Errors.NONE
            (peer,) = channel._peers._peers.values()
            connection = peer._connection
            async with leader._turn:
                patient = asyncio.ensure_future(  # noqa: TID251
                    channel.submit(CreateTopicsRequest(topics=[topic("b")]), context)
                )
                hurried = await channel.submit(
                    CreateTopicsRequest(topics=[topic("c")]), context._replace(timeout_ms=50)
                )
                assert hurried.topics[0].error_code == Errors.REQUEST_TIMED_OUT
                assert not patient.done()
            assert (await patient).topics[0].error_code == Errors.NONE
            assert peer._connection is connection

    asyncio.run(scenario())


class Outage:
    """A replica without a leader for a while; the next one is not active at once."""

    is_stopped = False

    def __init__(self, seconds: float) -> None:
        self.leader = SimpleNamespace(node_id=None)
        self.pauses: list[float] = []
        self._left = seconds

    async def leader_changed(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._left -= seconds
        if self._left < 0 and self.leader.node_id is None:
            self.leader = SimpleNamespace(node_id=1)
            self.pauses.clear()

    async def submit(self, request: CreateTopicsRequest, _: object) -> CreateTopicsResponse:
        if not self.pauses:
            raise ControllerError(Errors.NOT_CONTROLLER)
        return CreateTopicsResponse()


def test_a_new_controller_is_asked_again_at_once_however_long_there_was_none() -> None:
    async def scenario() -> None:
        outage = Outage(10)
        channel = ControllerChannel(
            cast("Any", outage),
            Peers(ConnectionSettings(), Random(1)),
            Random(1),
            node_id=1,
            timeout_ms=60_000,
        )
        wanted = CreateTopicsRequest(topics=[topic("t")])
        answer = await channel.submit(wanted, ControllerRequestContext(7))
        assert answer == CreateTopicsResponse()
        (pause,) = outage.pauses
        assert pause < 2 * CONTROLLER_RETRY_PAUSE_MS / 1000

    asyncio.run(scenario())
