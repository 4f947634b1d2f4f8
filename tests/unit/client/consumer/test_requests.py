from __future__ import annotations

import asyncio

from kaa.client.cluster import Cluster
from kaa.client.consumer.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kaa.client.consumer.requests import FetchBounds, aborted_of, fetch_batches, fetch_request
from kaa.client.metadata import Metadata
from kaa.config.client import consumer_values
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from kaa.wire.messages.k01_fetch import AbortedTransaction, PartitionData
from kaa.wire.primitives import UUID_ZERO


def test_partitions_of_a_topic_are_together() -> None:
    bounds = FetchBounds(10, 20, 30, 5, READ_COMMITTED, "rack")
    wanted = {TopicPartition("a", 0): 1, TopicPartition("b", 0): 2, TopicPartition("a", 1): 3}
    request = fetch_request(Metadata(), wanted, bounds)
    assert [topic.topic for topic in request.topics] == ["a", "b"]
    assert [one.fetch_offset for one in request.topics[0].partitions] == [1, 3]
    assert request.topics[0].topic_id == UUID_ZERO
    assert request.topics[0].partitions[0].current_leader_epoch == -1
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (30, 5, 20)
    assert request.rack_id == "rack"


def test_aborted_transactions_matter_to_readers_of_committed_records() -> None:
    answer = PartitionData(aborted_transactions=[AbortedTransaction(producer_id=7, first_offset=3)])
    assert aborted_of(answer, READ_UNCOMMITTED) is None
    assert aborted_of(answer, READ_COMMITTED) == [(3, 7)]


def test_brokers_that_name_topics_rather_than_give_ids() -> None:
    async def run(servers: str) -> None:
        values = consumer_values({"bootstrap.servers": servers})
        async with Cluster(values) as cluster:
            bounds = FetchBounds(1 << 20, 1 << 20, 0)
            partition = TopicPartition("t", 0)
            batches = await fetch_batches(cluster, partition, 0, bounds, 10_000)
            assert (batches.next_offset, batches.high_watermark) == (2, 2)

    with Broker() as broker:
        broker.topic("t").seed(["x", "y"])
        broker.cap_versions({"Fetch": 12})
        asyncio.run(run(broker.bootstrap_servers))
