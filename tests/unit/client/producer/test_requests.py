from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kaa.client.metadata import Metadata
from kaa.client.producer.requests import answers_of, produce_request, produce_version
from kaa.model.topics import TopicPartition
from kaa.wire.messages.k00_produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kaa.wire.messages.k03_metadata import MetadataResponse, MetadataResponseTopic
from kaa.wire.primitives import UUID_ZERO, Uuid
from kaa.wire.registry import ApiKey

ID = Uuid(bytes(range(16)))


class OldAndNew:
    """A connection whose broker serves Produce up to 13."""

    def version_of(self, key: ApiKey, highest: int | None = None) -> int:
        assert key is ApiKey.PRODUCE
        return 13 if highest is None else min(13, highest)


def metadata_with(topic_id: Uuid) -> Metadata:
    metadata = Metadata()
    topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[])
    metadata.update(MetadataResponse(brokers=[], topics=[topic]))
    return metadata


def batch(topic: str, partition: int) -> Any:
    return SimpleNamespace(partition=TopicPartition(topic, partition), data=b"records")


@pytest.mark.parametrize(
    ("topic", "is_implicit", "version"),
    [("t", None, 13), ("unknown", None, 12), ("t", True, 13), ("t", False, 11)],
)
def test_versions(topic: str, is_implicit: bool | None, version: int) -> None:
    connection: Any = OldAndNew()
    transaction: Any = None if is_implicit is None else SimpleNamespace(is_implicit=is_implicit)
    found = produce_version(connection, metadata_with(ID), [batch(topic, 0)], transaction)
    assert found == version
    if is_implicit is None:
        nameless = metadata_with(UUID_ZERO)
        assert produce_version(connection, nameless, [batch("t", 0)], None) == 12


def test_a_request_has_a_batch_per_partition() -> None:
    batches = [batch("t", 0), batch("u", 3), batch("t", 1)]
    transaction: Any = SimpleNamespace(transactional_id="x")
    request = produce_request(metadata_with(ID), batches, transaction, acks=-1, timeout_ms=7)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 7, "x")
    found = [
        (one.name, one.topic_id, [row.index for row in one.partition_data])
        for one in request.topic_data
    ]
    assert found == [("t", ID, [0, 1]), ("u", UUID_ZERO, [3])]
    alone = produce_request(metadata_with(ID), batches, None, acks=1, timeout_ms=7)
    assert alone.transactional_id is None


def test_answers_by_name_and_by_id() -> None:
    rows = [PartitionProduceResponse(index=number, base_offset=number) for number in (0, 1)]
    by_id = TopicProduceResponse(name="", topic_id=ID, partition_responses=rows)
    by_name = TopicProduceResponse(name="u", topic_id=UUID_ZERO, partition_responses=rows[:1])
    gone = TopicProduceResponse(name="", topic_id=Uuid(bytes(15) + b"x"), partition_responses=rows)
    found = answers_of(ProduceResponse(responses=[by_id, by_name, gone]), metadata_with(ID))
    assert [(str(name), answer.base_offset) for name, answer in found.items() if name.topic] == [
        ("t-0", 0),
        ("t-1", 1),
        ("u-0", 0),
    ]
