"""Records of a group are what Kafka writes: the bytes are compared in `tests/conformance`."""

from __future__ import annotations

from typing import Any

from kaa.coordinators.group.consumer.group import ResolvedRegex
from kaa.coordinators.group.consumer.records import (
    CONSUMER_RECORDS,
    group_tombstones,
    regex_record,
)
from kaa.model.pieces import finish
from kaa.wire.messages.offsets_consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id


def test_the_records_of_a_join() -> None:
    bench = ConsumerBench()
    bench.beat("a", instance="i", topics=["u", "t"])
    assert [type(record.key) for record in bench.log] == [
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
    ]
    member, epoch, _, target_epoch, current = (record.value for record in bench.log)
    assert isinstance(member, ConsumerGroupMemberMetadataValue)
    assert member.subscribed_topic_names == ["t", "u"]
    assert (member.subscribed_topic_regex, member.classic_member_metadata) == ("", None)
    values: Any = (epoch, target_epoch, current)
    assert values[0].epoch == values[1].assignment_epoch == values[2].member_epoch == 2
    assert values[1].assignment_timestamp == bench.now.wall_ms
    assert values[2].previous_member_epoch == 0
    assert values[2].assigned_partitions[0].assignment_epochs is not None


def test_values() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    member = bench.consumer_group().members["a"]
    current: Any = finish(CONSUMER_RECORDS.current_record("g", member)).value
    assert current.assigned_partitions[0].partitions == [0, 1, 2, 3]
    wanted = {topic_id("t"): frozenset({3, 1})}
    target: Any = finish(CONSUMER_RECORDS.target_record("g", "a", wanted)).value
    assert target.topic_partitions[0].partitions == [1, 3]
    regex: Any = regex_record("g", "x", ResolvedRegex(frozenset({"b", "a"}), 4, 5)).value
    assert (regex.topics, regex.version, regex.timestamp) == (["a", "b"], 4, 5)


def test_a_member_is_removed_in_three_parts() -> None:
    records = CONSUMER_RECORDS.remove_member("g", "a")
    assert [type(record.key) for record in records] == [
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupMemberMetadataKey,
    ]
    assert all(record.value is None for record in records)


def test_the_records_that_end_a_group() -> None:
    bench = ConsumerBench()
    bench.beat("a", regex="t")
    bench.advance(0)
    assert len(group_tombstones(bench.consumer_group())) == 7
