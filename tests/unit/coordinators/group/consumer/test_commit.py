"""Commits within transactions."""

from __future__ import annotations

from kaa.coordinators.group.consumer.commit import validate_transactional_commit
from kaa.coordinators.machine import CoordinatorError
from kaa.wire.errors import Errors
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinators.group.consumer.bench import ConsumerBench


def error(
    bench: ConsumerBench, member_id: str, epoch: int, topic: str = "t", partition: int = 0
) -> Errors:
    request = TxnOffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id=epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
                ],
            )
        ],
    )
    try:
        validate_transactional_commit(bench.consumer_group(), request, bench.topics)
    except CoordinatorError as refusal:
        return refusal.error
    return Errors.NONE


def test_members_and_others() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    assert error(bench, "", -1) is Errors.NONE
    assert error(bench, "a", 2) is Errors.NONE
    assert error(bench, "a", 3) is Errors.ILLEGAL_GENERATION
    assert error(bench, "b", 2) is Errors.UNKNOWN_MEMBER_ID


def test_older_epochs() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.beat("b")
    bench.settle("a", "b")
    kept, lost = bench.owned("a")["t"][0], bench.owned("b")["t"][0]
    assert error(bench, "a", 2, partition=kept) is Errors.NONE
    assert error(bench, "a", 2, partition=lost) is Errors.ILLEGAL_GENERATION
    assert error(bench, "a", 2, topic="absent") is Errors.ILLEGAL_GENERATION
