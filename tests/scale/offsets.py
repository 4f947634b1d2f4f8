"""Requests about the offsets of one group in all of ten thousand partitions."""

from __future__ import annotations

from kaa.controller.image import ClusterImage
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.scale.requests import NAMES, NUMBERS

GROUP = "g"


def commit(
    image: ClusterImage, names: list[str] = NAMES, numbers: list[int] = NUMBERS
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=0)
        for number in numbers
    ]
    return OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(topic_id=image.topics[name].id, partitions=partitions)
            for name in names
        ],
    )


def commit_in_transaction(
    producer: tuple[int, int], names: list[str] = NAMES, numbers: list[int] = NUMBERS
) -> TxnOffsetCommitRequest:
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=0)
        for number in numbers
    ]
    return TxnOffsetCommitRequest(
        transactional_id="id",
        group_id=GROUP,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name in names],
    )


def fetch(*, is_stable: bool) -> OffsetFetchRequest:
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    return OffsetFetchRequest(groups=[group], require_stable=is_stable)


def delete(names: list[str] = NAMES, numbers: list[int] = NUMBERS) -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
    return OffsetDeleteRequest(
        group_id=GROUP,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in names],
    )
