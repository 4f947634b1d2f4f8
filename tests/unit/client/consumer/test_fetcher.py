from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kaa.client.cluster import Cluster
from kaa.client.consumer.consumer import Consumer
from kaa.client.consumer.fetcher import Fetcher
from kaa.client.errors import ClientError
from kaa.config.client import consumer_values
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kaa.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@asynccontextmanager
async def fetcher_of(
    broker: Broker,
    committed: Mapping[TopicPartition, int] | None = None,
    reset: str = "earliest",
    rack: str = "",
) -> AsyncIterator[Fetcher]:
    async def find(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        assert committed is not None
        return {one: committed[one] for one in partitions if one in committed}

    values = consumer_values(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "auto.offset.reset": reset,
            "client.rack": rack,
        }
    )
    async with Cluster(values) as cluster, asyncio.TaskGroup() as tasks:
        fetcher = Fetcher(values, cluster, None if committed is None else find)
        fetcher.start(tasks)
        try:
            yield fetcher
        finally:
            fetcher.stop()


async def read(fetcher: Fetcher, count: int) -> list[tuple[int, int]]:
    """Partition and offset of the next records."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            for partition, records in fetcher.take(count - len(found)).items():
                found += [(partition.partition, record.offset) for record in records]
            if len(found) < count:
                fetcher.arrived.clear()
                await fetcher.arrived.wait()
    return sorted(found)


def test_positions_come_from_commits_else_from_the_policy() -> None:
    async def run(broker: Broker) -> None:
        async with fetcher_of(broker, {T0: 2}) as fetcher:
            fetcher.assign([T0, T1])
            assert await read(fetcher, 4) == [(0, 2), (1, 0), (1, 1), (1, 2)]
            # What stays keeps its place; what comes back begins again.
            fetcher.assign([T1])
            fetcher.assign([T0, T1])
            assert await read(fetcher, 1) == [(0, 2)]

    with Broker() as broker:
        broker.topic("t", partitions=2).seed(
            [{"value": "x", "partition": number % 2} for number in range(6)]
        )
        asyncio.run(run(broker))


def test_no_position_and_no_policy_is_told() -> None:
    async def run(broker: Broker) -> None:
        async with fetcher_of(broker, {}, reset="none") as fetcher:
            fetcher.assign([T0])
            with pytest.raises(ClientError, match=r"auto\.offset\.reset is none"):
                await read(fetcher, 1)
            with pytest.raises(ClientError, match="is not assigned"):
                fetcher.state(T1)

    with Broker() as broker:
        broker.topic("t", partitions=2)
        asyncio.run(run(broker))


def test_busy_partition_does_not_starve_the_other() -> None:
    async def run(broker: Broker) -> None:
        async with fetcher_of(broker) as fetcher:
            fetcher.assign([T0, T1])
            async with asyncio.timeout(60):
                while not all(state.chunks for state in fetcher.assigned.values()):
                    fetcher.arrived.clear()
                    await fetcher.arrived.wait()
            assert {next(iter(fetcher.take(1))).partition for _ in range(2)} == {0, 1}

    with Broker() as broker:
        broker.topic("t", partitions=2).seed(
            [{"value": "x", "partition": number % 2} for number in range(6)]
        )
        asyncio.run(run(broker))


def test_a_nearer_replica_is_fetched_from_until_it_fails() -> None:
    """The leader sends the consumer to a second broker, which has the topic too (KIP-392)."""

    async def run(leader: Broker, replica: Broker) -> None:
        async with fetcher_of(leader, rack="here") as fetcher:
            fetcher.assign([T0])
            assert await read(fetcher, 2) == [(0, 0), (0, 1)]
            # The replica has no such offset, as if it lagged behind: the leader goes on.
            guide.remove()
            sent_back = replica.on("Fetch").answer(lambda _: out_of_range(), times=1)
            assert await read(fetcher, 1) == [(0, 2)]
            assert sent_back.count == 1

    with Broker() as leader, Broker() as replica:
        for broker, values in ((leader, "abc"), (replica, "ab")):
            broker.cap_versions({"Fetch": 12})
            broker.topic("t").seed(list(values))
        metadata = leader.on("Metadata").answer(metadata_of(leader, replica))
        guide = leader.on("Fetch").answer(send_to_replica)
        asyncio.run(run(leader, replica))
        assert metadata.count > 0


def metadata_of(leader: Broker, replica: Broker) -> Callable[[Any], MetadataResponse]:
    addresses = {1: leader.bootstrap_servers, 2: replica.bootstrap_servers}
    brokers = [
        MetadataResponseBroker(
            node_id=number,
            host=address.partition(":")[0],
            port=int(address.partition(":")[2]),
            rack="there" if number == 1 else "here",
        )
        for number, address in addresses.items()
    ]
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1, 2], isr_nodes=[1, 2]
    )
    topic = MetadataResponseTopic(name="t", partitions=[partition])
    return lambda _: MetadataResponse(brokers=brokers, topics=[topic], controller_id=1)


def out_of_range() -> FetchResponse:
    code = Errors.OFFSET_OUT_OF_RANGE
    row = PartitionData(partition_index=0, error_code=code, high_watermark=-1, records=b"")
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])


def send_to_replica(request: Any) -> FetchResponse:
    assert request.rack_id == "here"
    row = PartitionData(partition_index=0, preferred_read_replica=2, records=b"")
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])


def test_raw_batches_come_from_the_nearer_replica_too() -> None:
    async def run(leader: Broker, replica: Broker) -> None:
        settings = {"bootstrap.servers": leader.bootstrap_servers, "client.rack": "here"}
        async with Consumer(settings) as consumer:
            found = await consumer.fetch_batches(T0, 0, 1000)
            assert (guide.count, found.next_offset) == (1, 2)
            lagging = replica.on("Fetch").answer(lambda _: out_of_range(), times=1)
            found = await consumer.fetch_batches(T0, 0, 1000)
            assert (guide.count, lagging.count, found.next_offset) == (2, 1, 3)

    with Broker() as leader, Broker() as replica:
        for broker, values in ((leader, "abc"), (replica, "ab")):
            broker.cap_versions({"Fetch": 12})
            broker.topic("t").seed(list(values))
        leader.on("Metadata").answer(metadata_of(leader, replica))
        guide = leader.on("Fetch").answer(send_to_replica, times=2)
        asyncio.run(run(leader, replica))
