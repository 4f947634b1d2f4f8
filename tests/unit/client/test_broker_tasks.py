"""A client among several brokers: leaders and coordinators move, brokers come and go.

Two brokers play a cluster: their answers to Metadata and FindCoordinator are rules of the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kaa.client import Admin, Consumer, Producer, TopicPartition, sync
from kaa.client.broker_tasks import STALE_METADATA
from kaa.testing import Broker
from kaa.wire.errors import Errors
from kaa.wire.messages import k00_produce as produce
from kaa.wire.messages import k01_fetch as fetch
from kaa.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kaa.wire.messages.k10_find_coordinator import Coordinator, FindCoordinatorResponse

T0 = TopicPartition("t", 0)


def address(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.partition(":")
    return host, int(port)


class Pair:
    """Brokers 1 and 2 of a cluster; `leader` leads t-0 as far as Metadata says."""

    def __init__(self, one: Broker, two: Broker) -> None:
        self.brokers = {1: one, 2: two}
        # Below the epoch that both brokers have, so that a hint is news and they accept it.
        self.leader, self.epoch = 1, -1
        for broker in (one, two):
            # Up to these versions topics go by names; both brokers have an id of their own.
            broker.cap_versions({"Produce": 12, "Fetch": 12})
            broker.topic("t")
            broker.on("Metadata").answer(lambda _: self.metadata())

    def metadata(self) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=number, host=address(one)[0], port=address(one)[1])
            for number, one in self.brokers.items()
        ]
        partition = MetadataResponsePartition(
            partition_index=0,
            leader_id=self.leader,
            leader_epoch=self.epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
        )
        topic = MetadataResponseTopic(name="t", partitions=[partition])
        return MetadataResponse(brokers=brokers, topics=[topic], controller_id=1)


def moved_produce(leader: int, epoch: int, two: Broker) -> Callable[[Any], Any]:
    host, port = address(two)
    hint = produce.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    row = produce.PartitionProduceResponse(
        index=0, error_code=Errors.NOT_LEADER_OR_FOLLOWER, base_offset=-1, current_leader=hint
    )
    topic = produce.TopicProduceResponse(name="t", partition_responses=[row])
    endpoint = produce.NodeEndpoint(node_id=leader, host=host, port=port)
    return lambda _: produce.ProduceResponse(responses=[topic], node_endpoints=[endpoint])


def moved_fetch(leader: int, epoch: int) -> Callable[[Any], Any]:
    hint = fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    row = fetch.PartitionData(
        partition_index=0,
        error_code=Errors.NOT_LEADER_OR_FOLLOWER,
        high_watermark=-1,
        current_leader=hint,
        records=b"",
    )
    topic = fetch.FetchableTopicResponse(topic="t", partitions=[row])
    return lambda _: fetch.FetchResponse(responses=[topic])


def test_a_refusal_that_names_the_leader_is_followed_without_metadata() -> None:
    """KIP-951, for the producer and the consumer."""

    async def run(pair: Pair, one: Broker, two: Broker) -> None:
        settings = {"bootstrap.servers": one.bootstrap_servers, "auto.offset.reset": "earliest"}
        async with Producer(settings) as producer:
            await producer.partitions_for("t")
            refused = one.on("Produce").answer(moved_produce(2, 0, two), times=1)
            assert (await (await producer.send("t", b"x"))).offset == 0
            assert refused.count == 1
            assert producer.cluster.metadata.leader_of("t", 0) == 2
        async with Consumer(settings) as consumer:
            refused = one.on("Fetch").answer(moved_fetch(2, 0), times=1)
            consumer.assign([T0])
            consumer.seek(T0, 0)
            async with asyncio.timeout(60):
                (record,) = (await consumer.poll())[T0]
            assert record.value == b"x"
            assert refused.count == 1

    with Broker() as one, Broker() as two:
        pair = Pair(one, two)
        asyncio.run(run(pair, one, two))
        # Metadata never said that the leader moved: only the refusals did.
        assert (pair.leader, pair.epoch) == (1, -1)


def test_a_refusal_without_a_name_asks_for_metadata() -> None:
    async def run(pair: Pair, one: Broker) -> None:
        async with Producer({"bootstrap.servers": one.bootstrap_servers}) as producer:
            await producer.partitions_for("t")
            pair.leader, pair.epoch = 2, 0
            refused = one.on("Produce").fail("NOT_LEADER_OR_FOLLOWER", times=1)
            await (await producer.send("t", b"x"))
            assert refused.count == 1

    with Broker() as one, Broker() as two:
        asyncio.run(run(Pair(one, two), one))
        assert [record.value for record in two.existing_topic("t").records()] == [b"x"]


def test_a_coordinator_that_is_gone_is_looked_for_again() -> None:
    async def run(pair: Pair, one: Broker, two: Broker) -> None:
        async with Admin({"bootstrap.servers": one.bootstrap_servers}) as admin:
            assert await admin.list_group_offsets("g") == {}
            coordinator["of"] = one
            await asyncio.to_thread(two.kill)
            async with asyncio.timeout(30):
                assert await admin.list_group_offsets("g") == {}

    def find(request: Any) -> FindCoordinatorResponse:
        host, port = address(coordinator["of"])
        number = 1 if coordinator["of"] is pair.brokers[1] else 2
        rows = [
            Coordinator(key=key, node_id=number, host=host, port=port)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=rows)

    with Broker() as one, Broker() as two:
        for broker in (one, two):
            # The topic that makes it a coordinator.
            with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                assert admin.list_group_offsets("g") == {}
        pair, coordinator = Pair(one, two), {"of": two}
        for broker in (one, two):
            broker.on("FindCoordinator").answer(find)
        asyncio.run(run(pair, one, two))


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_when_all_that_were_known_are_gone_the_list_has_its_turn(strategy: str) -> None:
    """KIP-899: the addresses of the list lead to a cluster whose brokers all moved."""

    async def run(old: Broker, new: Broker) -> None:
        settings = {
            "bootstrap.servers": [old.bootstrap_servers, new.bootstrap_servers],
            "metadata.recovery.strategy": strategy,
            "default.api.timeout.ms": 5000,
        }
        async with Admin(settings) as admin:
            # Whichever it asked first, it knows of the old one alone.
            assert [one.name for one in await admin.list_topics()] == ["t"]
            new_metadata.remove()
            await asyncio.to_thread(old.kill)
            if strategy == "rebootstrap":
                assert [one.name for one in await admin.list_topics()] == ["new"]
            else:
                for connection in admin.cluster._connections.values():
                    connection.close()
                with pytest.raises(Exception, match="cannot connect"):
                    await admin.list_topics()

    with Broker() as old, Broker() as new:
        host, port = address(old)
        known = MetadataResponseBroker(node_id=1, host=host, port=port)
        topic = MetadataResponseTopic(name="t", partitions=[])
        only_old = MetadataResponse(brokers=[known], topics=[topic], controller_id=1)
        old.on("Metadata").answer(lambda _: only_old)
        new.topic("new")
        new_metadata = new.on("Metadata").answer(lambda _: only_old)
        asyncio.run(run(old, new))


def test_a_broker_may_ask_for_another_bootstrap() -> None:
    """KIP-1102."""

    async def run(broker: Broker) -> None:
        async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            await admin.list_topics()
            first = await admin.cluster.any_connection()
            refusal = MetadataResponse(
                brokers=[], topics=[], error_code=Errors.REBOOTSTRAP_REQUIRED
            )
            rule = broker.on("Metadata").answer(lambda _: refusal, times=1)
            await admin.list_topics()
            assert rule.count == 1
            assert not first.is_open

    with Broker() as broker:
        asyncio.run(run(broker))


def test_errors_after_which_metadata_is_fetched_may_pass() -> None:
    assert all(error.retriable for error in STALE_METADATA)
