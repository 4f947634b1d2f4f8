from __future__ import annotations

import asyncio

import pytest

from kaa.client.cluster import Cluster
from kaa.client.errors import KafkaError
from kaa.client.group.offsets import (
    OffsetAndMetadata,
    commit_offsets,
    commit_request,
    fetch_offsets,
    group_failure,
)
from kaa.config.client import admin_values
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from kaa.wire.errors import Errors
from kaa.wire.registry import ApiKey

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_request_names_topics() -> None:
    offsets = {A0: OffsetAndMetadata(1, "x", 4), B0: OffsetAndMetadata(2), A1: OffsetAndMetadata(3)}
    request = commit_request("g", offsets, member_id="m", epoch=5, instance_id="i")
    assert [topic.name for topic in request.topics] == ["a", "b"]
    first = request.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_metadata) == (1, "x")
    assert first.committed_leader_epoch == 4
    assert request.generation_id_or_member_epoch == 5


def test_failure_of_the_group() -> None:
    of_a_partition = KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "p")
    of_the_group = KafkaError(Errors.ILLEGAL_GENERATION, "g")
    assert group_failure([None, of_a_partition]) is None
    assert group_failure([None, of_a_partition, of_the_group]) is of_the_group


@pytest.mark.parametrize("highest", [9, 7, 1])
def test_versions_of_brokers(highest: int) -> None:
    """Older brokers know one group per request, and no text with the error."""
    versions: dict[ApiKey | str, int] = {
        "OffsetFetch": highest,
        "FindCoordinator": 3 if highest < 8 else 6,
    }

    async def run(servers: str) -> None:
        values = admin_values({"bootstrap.servers": servers})
        async with Cluster(values) as cluster:
            offsets = {A0: OffsetAndMetadata(1, "note")}
            assert await commit_offsets(cluster, "g", offsets, 10_000) == {A0: None}
            found = await fetch_offsets(cluster, "g", [A0, A1], 10_000, require_stable=highest > 6)
            assert found == offsets
            if highest > 1:
                assert await fetch_offsets(cluster, "g", None, 10_000) == offsets
            absent = await commit_offsets(cluster, "g", {B0: OffsetAndMetadata(1)}, 10_000)
            error = absent[B0]
            assert error is not None
            assert error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION

    with Broker() as broker:
        broker.cap_versions(versions)
        broker.topic("a", partitions=2)
        asyncio.run(run(broker.bootstrap_servers))
