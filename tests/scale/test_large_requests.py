"""Requests that are large where others are not: very many partitions of one topic, or very many
topics without any, which cost no more than a few bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kaa.controller.image import ClusterImage
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import ProduceRequest, TopicProduceData
from kaa.wire.messages.k01_fetch import FetchRequest, FetchTopic, ForgottenTopic
from kaa.wire.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsTopic
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kaa.wire.primitives import Uuid
from tests.scale.offsets import GROUP
from tests.scale.requests import NAMES, TIMEOUT_MS
from tests.scale.steps import Scale

MANY = 100_000
MANY_EMPTY = 250_000
UNKNOWN = Uuid(b"0123456789abcdef")


def commit(topic_id: Uuid, numbers: Sequence[int]) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=number) for number in numbers]
    topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)
    return OffsetCommitRequest(group_id=GROUP, topics=[topic])


def commits(image: ClusterImage) -> dict[str, OffsetCommitRequest]:
    known = image.topics[NAMES[0]].id
    return {
        "of no topic": commit(UNKNOWN, range(MANY)),
        "of absent partitions": commit(known, range(MANY, 2 * MANY)),
        "that is too large": commit(known, [0] * MANY),
    }


@pytest.mark.parametrize("name", ["of no topic", "of absent partitions", "that is too large"])
def test_commits_in_one_topic(scale: Scale, name: str) -> None:
    scale.wait_for_coordinator(0, GROUP)
    request = commits(scale.node.broker.services.image)[name]
    answer = scale.node.client.ask(request)
    assert [len(topic.partitions) for topic in answer.topics] == [MANY]
    assert Errors.NONE not in {one.error_code for one in answer.topics[0].partitions}
    scale.ask(f"OffsetCommit {name}", request)


def test_commits_in_a_transaction_that_are_refused(scale: Scale) -> None:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0) for _ in range(MANY)]
    request = TxnOffsetCommitRequest(
        transactional_id="id",
        topics=[TxnOffsetCommitRequestTopic(name=NAMES[0], partitions=partitions)],
    )
    (topic,) = scale.node.client.ask(request).topics
    errors = [one.error_code for one in topic.partitions]
    assert errors == [Errors.INVALID_GROUP_ID] * MANY
    scale.ask("TxnOffsetCommit", request)


EMPTY = {
    "Fetch": FetchRequest(max_wait_ms=0, topics=[FetchTopic()] * MANY_EMPTY),
    "Fetch that forgets": FetchRequest(
        max_wait_ms=0, forgotten_topics_data=[ForgottenTopic()] * MANY_EMPTY
    ),
    "ListOffsets": ListOffsetsRequest(topics=[ListOffsetsTopic()] * MANY_EMPTY),
    "OffsetForLeaderEpoch": OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic()] * MANY_EMPTY
    ),
    "AddPartitionsToTxn": AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="id", topics=[AddPartitionsToTxnTopic()] * MANY_EMPTY
            )
        ]
    ),
    "AddPartitionsToTxn, version 3": AddPartitionsToTxnRequest(
        v3_and_below_topics=[AddPartitionsToTxnTopic()] * MANY_EMPTY
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_topics_without_partitions(scale: Scale, name: str) -> None:
    version = 3 if name.endswith("3") else None
    scale.ask(f"{name} of empty topics", EMPTY[name], version)


@pytest.mark.parametrize("version", [12, 13])
def test_produces_of_topics_without_partitions(scale: Scale, version: int) -> None:
    topics = [TopicProduceData()] * MANY_EMPTY
    request = ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=topics)
    assert scale.node.client.ask(request, version).responses == []
    scale.ask(f"Produce v{version} of empty topics", request, version)
