"""Commands on groups as a whole, and records of other versions."""

from __future__ import annotations

from kaa.coordinators.group.machine import RECORD_TYPES
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import encode_key, encode_value
from kaa.wire.errors import Errors
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kaa.wire.messages.offsets_classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
)
from tests.unit.coordinators.group.bench import GROUP, GroupBench, code, subscription
from tests.unit.coordinators.group.test_offsets import offsets


def delete_groups(bench: GroupBench, *groups: str) -> list[Errors]:
    results = bench.run("delete", lambda machine, _: machine.delete_groups(groups))
    return [code(result.error_code) for result in results]


def test_only_groups_without_members_are_deleted() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    bench.commit_offset("t", member_id=ids["a"], generation=1)
    assert delete_groups(bench, GROUP, "nothing") == [
        Errors.NON_EMPTY_GROUP,
        Errors.GROUP_ID_NOT_FOUND,
    ]
    bench.leave((ids["a"], None))
    assert delete_groups(bench, GROUP) == [Errors.NONE]
    assert bench.group is None
    assert offsets(bench) == {}
    bench.restart()
    assert bench.group is None
    assert offsets(bench) == {}


def delete_offset(bench: GroupBench, topic: str = "t") -> Errors:
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    answer = bench.run("delete", lambda machine, _: machine.delete_offsets(request))
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


def test_listing() -> None:
    bench = GroupBench()
    bench.stable("a")
    bench.commit_offset(group="simple")

    def names(states: list[str], types: list[str]) -> set[str]:
        return {group.group_id for group in bench.machine.list_groups(states, types)}

    assert names([], []) == {GROUP, "simple"}
    assert names(["stable "], []) == {GROUP}
    assert names(["EMPTY", "Dead"], []) == {"simple"}
    assert names([], ["Classic"]) == {GROUP, "simple"}
    assert names([], ["consumer"]) == set()
    listed = {group.group_id: group for group in bench.machine.list_groups([], [])}
    assert (listed[GROUP].protocol_type, listed[GROUP].group_state) == ("consumer", "Stable")
    assert listed["simple"].protocol_type == ""


def test_describing() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    (group,) = bench.machine.describe_groups([GROUP], 5)
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        ids["a"],
        "a",
        "/127.0.0.1",
    )
    assert member.member_metadata == subscription("t")
    assert member.member_assignment == ids["a"].encode()
    bench.join("a", ids["a"])
    (group,) = bench.machine.describe_groups([GROUP], 5)
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_metadata == b""


def test_describing_what_does_not_exist() -> None:
    bench = GroupBench()
    (old,) = bench.machine.describe_groups([GROUP], 5)
    assert (old.group_state, old.error_code) == ("Dead", Errors.NONE)
    (new,) = bench.machine.describe_groups([GROUP], 6)
    assert (new.group_state, new.error_code) == ("Dead", Errors.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group g not found."


def test_a_group_that_is_not_committed_is_not_seen() -> None:
    bench = GroupBench()
    bench.is_holding = True
    bench.join("a")
    assert bench.machine.list_groups([], []) == []
    assert bench.machine.describe_groups([GROUP], 5)[0].group_state == "Dead"
    bench.commit()
    assert len(bench.machine.list_groups([], [])) == 1


def test_records_of_old_versions_are_read() -> None:
    bench = GroupBench()
    for version in range(5):
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=4,
            protocol="range",
            leader="m",
            members=[
                MemberMetadata(
                    member_id="m",
                    client_id="c",
                    client_host="/h",
                    session_timeout=9,
                    subscription=subscription("t"),
                    assignment=b"A",
                )
            ],
        )
        record = NewRecord(GroupMetadataKey(group=GROUP), value, version)
        bench.load(record)
        assert bench.state == "Stable"
        assert bench.group.rebalance_timeout_ms == 9, "as long as the session"
        assert bench.group.subscribed_topics == {"t"}


def test_offsets_of_the_first_format_are_read() -> None:
    bench = GroupBench()
    key = LegacyOffsetCommitKey(group=GROUP, topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=8, metadata="m", commit_timestamp=5)
    record = NewRecord(key, value)
    assert RECORD_TYPES.decode(encode_key(key), encode_value(record)) == (key, value)
    bench.load(record)
    assert offsets(bench) == {"t-0": 8}
    bench.load(record, NewRecord(key, None))
    assert offsets(bench) == {}
