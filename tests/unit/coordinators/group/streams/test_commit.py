"""Offsets of streams groups: who may commit, fetch and delete them."""

from __future__ import annotations

from functools import partial
from typing import Any

from kaa.coordinators.group.offsets.commands import delete_offsets
from kaa.coordinators.group.offsets.fetch import fetch_offsets
from kaa.coordinators.group.offsets.transactional import commit_offsets
from kaa.coordinators.machine import CoordinatorError
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
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
from tests.unit.coordinators.group.bench import fetched
from tests.unit.coordinators.group.streams.bench import StreamsBench


def behind() -> StreamsBench:
    """A member at epoch 3 that has partitions 0 to 3 of t since epoch 2, and 4 since epoch 3."""
    bench = StreamsBench()
    bench.ask("a")
    bench.create("t", 5, start=4)
    assert bench.ask("a", 2, {"0": [0, 1, 2, 3]}).member_epoch == 3
    return bench


def test_commits_count_for_what_the_member_had_by_then() -> None:
    bench = behind()
    commit = partial(bench.commit_offset, member_id="a", version=9)
    assert commit("t", 4, generation=3) is Errors.NONE
    assert commit("t", 0, generation=2) is Errors.NONE
    for topic, partition, epoch in (("t", 4, 2), ("t", 0, 1), ("u", 0, 2), ("t", 0, 4)):
        assert commit(topic, partition, generation=epoch) is Errors.STALE_MEMBER_EPOCH
    assert bench.commit_offset("t", 0, member_id="a", generation=3) is Errors.UNSUPPORTED_VERSION
    assert bench.commit_offset("t", 0) is Errors.UNKNOWN_MEMBER_ID
    bench.ask("a", -1)
    assert bench.commit_offset("t", 0) is Errors.NONE


def test_commits_of_transactions() -> None:
    bench = behind()

    def commit(partition: int, epoch: int, member: str = "a") -> Any:
        request = TxnOffsetCommitRequest(
            group_id="g",
            generation_id=epoch,
            member_id=member,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=1
                        )
                    ],
                )
            ],
        )
        try:
            commit_offsets(bench.machine, request, bench.now)
        except CoordinatorError as refusal:
            return refusal.error
        return Errors.NONE

    assert [commit(4, 3), commit(0, 2), commit(0, -1, "")] == [Errors.NONE] * 3
    assert [commit(4, 2), commit(0, 9)] == [Errors.ILLEGAL_GENERATION] * 2
    assert commit(0, 3, "b") is Errors.UNKNOWN_MEMBER_ID


def test_who_may_fetch() -> None:
    bench = behind()

    def fetch(member: str | None, epoch: int, *, is_stable: bool) -> Any:
        request = OffsetFetchRequestGroup(
            group_id="g", member_id=member, member_epoch=epoch, topics=None
        )
        try:
            finish(fetch_offsets(bench.machine, request, fetched, is_stable=is_stable))
        except CoordinatorError as refusal:
            return refusal.error
        return Errors.NONE

    for is_stable in (True, False):
        assert fetch(None, -1, is_stable=is_stable) is Errors.NONE
        assert fetch("a", 3, is_stable=is_stable) is Errors.NONE
        assert fetch("a", 2, is_stable=is_stable) is Errors.STALE_MEMBER_EPOCH
        assert fetch("b", 3, is_stable=is_stable) is Errors.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_are_read_stay() -> None:
    bench = behind()
    for topic in ("t", "u"):
        bench.commit_offset(topic, 0, member_id="a", generation=3, version=9)
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in ("t", "u")
        ],
    )
    answer = bench.run("delete", lambda machine, _: delete_offsets(machine, request))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [
        Errors.GROUP_SUBSCRIBED_TO_TOPIC,
        Errors.NONE,
    ]
    # They expire once nobody is there, and the group with them.
    bench.ask("a", -1)
    bench.advance(bench.settings.offsets_retention_ms + 600_001)
    assert "g" not in bench.machine.groups
