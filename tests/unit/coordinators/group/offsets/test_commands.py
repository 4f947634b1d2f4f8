"""Deleting offsets: who may, and what is left."""

from __future__ import annotations

from kaa.coordinators.group.offsets.commands import delete_offsets
from kaa.wire.errors import Errors
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.coordinators.group.bench import GROUP, GroupBench, code
from tests.unit.coordinators.group.offsets.test_committed import offsets


def delete_offset(bench: GroupBench, topic: str = "t") -> Errors:
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    answer = bench.run("delete", lambda machine, _: delete_offsets(machine, request))
    if isinstance(answer, Errors):
        return answer
    return code(answer.topics[0].partitions[0].error_code)


def test_offsets_are_deleted_unless_somebody_reads_the_topic() -> None:
    bench = GroupBench()
    assert delete_offset(bench) is Errors.GROUP_ID_NOT_FOUND
    ids = bench.stable("a")
    for topic in ("t", "u"):
        bench.commit_offset(topic, member_id=ids["a"], generation=1)
    assert delete_offset(bench, "t") is Errors.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offset(bench, "u") is Errors.NONE
    assert delete_offset(bench, "u") is Errors.NONE, "nothing is there, which is well"
    assert offsets(bench) == {"t-0": 1}
    bench.leave((ids["a"], None))
    assert delete_offset(bench, "t") is Errors.NONE


def test_a_group_of_another_protocol_must_be_empty() -> None:
    bench = GroupBench()
    bench.join_new("w", protocol_type="connect")
    assert delete_offset(bench) is Errors.NON_EMPTY_GROUP
