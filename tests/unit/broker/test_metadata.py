"""Nodes of every role as one cluster, in one process."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from kaa.broker.lifecycle.machine import SendHeartbeat
from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.peer import Peer, peer_settings
from kaa.controller.port import ControllerRequestContext, ForwardedClient
from kaa.log.files import read_whole
from kaa.model.nodes import HostPort, SecurityProtocol
from kaa.wire.errors import Errors
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest
from kaa.wire.messages.k56_alter_partition import AlterPartitionRequest
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tests.support.cluster import BOTH, Cluster, cluster
from tests.support.pace import PATIENCE_SECONDS


async def create_topic(made: Cluster, at: int, name: str, replicas: int = 1) -> None:
    async with Admin({"bootstrap.servers": made.nodes[at].bootstrap_servers}) as admin:
        topic = NewTopic(name, partitions=2, replication_factor=replicas)
        assert await admin.create_topics([topic]) == {name: None}


def test_three_nodes_elect_register_and_follow_one_log() -> None:
    async def scenario() -> None:
        async with cluster() as made:
            leader = made.leader()
            assert leader is not None
            other = next(node_id for node_id in made.nodes if node_id != leader)
            # A broker whose controller is not active passes it on.
            await create_topic(made, other, "orders", replicas=3)
            images = [node.services.image for node in made.nodes.values()]
            await made.until(lambda: all("orders" in image.topics for image in images))
            await made.until(lambda: all(len(image.controllers) == 3 for image in images))
            assert len({image.topics["orders"].id for image in images}) == 1
            for image in images:
                assert sorted(image.brokers) == sorted(image.controllers) == [1, 2, 3]
                assert not any(broker.is_fenced for broker in image.brokers.values())

    asyncio.run(scenario())


def test_a_leader_that_goes_is_replaced_and_nothing_committed_is_lost() -> None:
    async def scenario() -> None:
        async with cluster() as made:
            first = made.leader()
            assert first is not None
            await create_topic(made, first, "before")
            await made.stop(first)
            await made.until(made.leader)
            second = made.leader()
            assert second is not None
            assert second != first
            await create_topic(made, second, "after")
            await made.start(first)
            images = [node.services.metadata.image for node in made.nodes.values()]
            await made.until(lambda: all(len(image.topics) == 2 for image in images))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "roles",
    [{1: "controller", 2: "broker"}, {1: "controller", 2: BOTH, 3: "controller", 4: "broker"}],
    ids=["one-each", "mixed"],
)
def test_each_role_runs_what_it_needs(roles: dict[int, str]) -> None:
    async def scenario() -> None:
        async with cluster(roles) as made:
            broker = max(roles)
            await create_topic(made, broker, "t")
            images = [node.services.metadata.image for node in made.nodes.values()]
            await made.until(lambda: all("t" in image.topics for image in images))
            brokers = [node_id for node_id, role in roles.items() if "broker" in role]
            controllers = [node_id for node_id, role in roles.items() if "controller" in role]
            assert sorted(images[0].brokers) == brokers
            await made.until(lambda: sorted(images[0].controllers) == controllers)
            for node_id, role in roles.items():
                assert hasattr(made.nodes[node_id].services, "replicas") is ("broker" in role)

    asyncio.run(scenario())


@pytest.mark.parametrize("voters", [(1,), None], ids=["dynamic", "static"])
def test_nodes_find_each_other_at_addresses_of_version_six(voters: tuple[int, ...] | None) -> None:
    async def scenario() -> None:
        made = Cluster({1: "controller", 2: "controller", 3: "broker"}, first_voters=voters)
        controllers = [(each, f"[::1]:{made.endpoint(each).port}") for each in (1, 2)]
        quorum = (
            "controller.quorum.voters=" + ",".join(f"{each}@{at}" for each, at in controllers)
            if voters is None
            else "controller.quorum.bootstrap.servers=" + ",".join(at for _, at in controllers)
        )
        for node_id, at in controllers:
            made.own_settings[node_id] = (f"listeners=CONTROLLER://{at}", quorum)
        made.own_settings[3] = ("listeners=PLAINTEXT://[::1]:0", quorum)
        try:
            await made.start()
            await create_topic(made, 3, "t")
            image = made.nodes[3].services.metadata.image
            assert image.brokers[3].endpoints[0].host == "::1"
            leader = made.nodes[3].services.quorum.leader_node()
            assert leader is not None
            assert leader.host == "::1"
        finally:
            await made.stop()

    asyncio.run(scenario())


def test_a_broker_talks_to_dedicated_controllers_over_one_kept_connection() -> None:
    async def scenario() -> None:
        async with cluster({1: "controller", 2: "broker"}) as made:
            lifecycle = made.nodes[2]._lifecycle
            assert lifecycle is not None
            send, sent = lifecycle._beat, list[SendHeartbeat]()

            async def counted(beat: SendHeartbeat) -> None:
                await send(beat)
                sent.append(beat)

            lifecycle._beat = counted  # type: ignore[method-assign]
            await made.until(lambda: sent, PATIENCE_SECONDS)
            counts = made.nodes[1].listeners.by_name["CONTROLLER"].counts
            accepted = counts.accepted
            await made.until(lambda: len(sent) > 5, PATIENCE_SECONDS)
            assert counts.accepted == accepted
            image = made.nodes[1].services.metadata.image
            assert {beat.broker_epoch for beat in sent} == {image.brokers[2].epoch}
            assert not image.brokers[2].is_fenced

    asyncio.run(scenario())


def test_what_clients_ask_for_holds_up_nothing_of_the_broker() -> None:
    async def scenario() -> None:
        async with cluster() as made:
            leader = made.leader()
            assert leader is not None
            controller = made.nodes[leader].services.metadata
            submit, is_released = controller.submit, asyncio.Event()

            async def slow(request: Any, context: ControllerRequestContext) -> Any:
                if isinstance(request, CreateTopicsRequest | AssignReplicasToDirsRequest):
                    await is_released.wait()
                return await submit(request, context)

            controller.submit = slow  # type: ignore[method-assign]
            node = next(node for node_id, node in made.nodes.items() if node_id != leader)
            metadata, broker_id, epoch = node._metadata, node.config.node_id, node._broker_epoch()
            assert metadata is not None
            client = ForwardedClient("client", 7, bytes([127, 0, 0, 1]))
            async with asyncio.TaskGroup() as tasks:
                creation = CreateTopicsRequest(topics=[])
                tasks.create_task(
                    metadata.forwarding.submit(creation, ControllerRequestContext(7, client))
                )
                moved = AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch)
                tasks.create_task(metadata.directories.submit(moved, ControllerRequestContext(0)))
                await asyncio.sleep(0.1)
                async with asyncio.timeout(5):
                    isr = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch)
                    changes = node._isr_changes._controller
                    changed = await changes.submit(isr, ControllerRequestContext(3))
                    beat = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch)
                    assert node._lifecycle is not None
                    heartbeats = node._lifecycle._controller
                    beaten = await heartbeats.submit(beat, ControllerRequestContext(1))
                is_released.set()
            assert (changed.error_code, beaten.error_code) == (Errors.NONE, Errors.NONE)

    asyncio.run(scenario())


async def leaders(made: Cluster, node_id: int) -> list[tuple[int, list[int]]]:
    """The leader and the offline replicas of each partition of a topic, as a broker tells them."""
    host, _, port = made.nodes[node_id].bootstrap_servers.rpartition(":")
    settings = peer_settings(SecurityProtocol.PLAINTEXT, client_id="t", request_timeout_ms=30_000)
    peer = Peer(HostPort(host, int(port)), settings, Random(1))
    answer = await peer.request(MetadataRequest(topics=None))
    peer.close()
    (topic,) = answer.topics
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return [(each.leader_id, each.offline_replicas) for each in partitions]


def test_every_broker_tells_the_same_of_partitions_without_a_leader() -> None:
    """Also one without the active controller, which alone has heartbeats of the others."""

    async def scenario() -> None:
        made = Cluster({1: "controller", 2: BOTH, 3: "broker", 4: "broker"})
        try:
            await made.start()
            async with Admin({"bootstrap.servers": made.nodes[2].bootstrap_servers}) as admin:
                placed = NewTopic("t", assignments={0: [2], 1: [3], 2: [4]})
                assert await admin.create_topics([placed]) == {"t": None}
            await made.stop(4)
            expected = [(2, []), (3, []), (-1, [4])]
            for node_id in (2, 3):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while await leaders(made, node_id) != expected:  # noqa: ASYNC110  Nobody tells.
                        await asyncio.sleep(0.01)
        finally:
            await made.kill()

    asyncio.run(scenario())


def test_a_broker_stops_cleanly_though_no_controller_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kaa.broker.node.NODE_LEAVE_SECONDS_MAX", 0.2)

    async def scenario() -> None:
        made = Cluster({1: "controller", 2: "broker"})
        try:
            await made.start()
            await create_topic(made, 2, "t")
        finally:
            await made.kill(1)
            await made.stop(2)
        assert b"brokerEpoch" in read_whole(made.files[2], "/data/2/.kafka_cleanshutdown")
        assert made.files[2].open_handles == 0

    asyncio.run(scenario())
