"""Records that somebody else wrote, in any state of compaction."""

from __future__ import annotations

from typing import Any

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.records import (
    CONSUMER_RECORDS,
    group_tombstones,
    partition_metadata_tombstone,
    regex_tombstone,
)
from kaa.coordinators.group.kinds import Group
from kaa.coordinators.group.modern.records import ModernRecords, tombstone
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.share.records import SHARE_RECORDS
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.model.pieces import finish
from kaa.wire.messages.offsets_consumer import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tests.unit.coordinators.group.consumer.bench import ConsumerBench


def test_tombstones_of_what_is_not_there() -> None:
    bench = ConsumerBench()
    bench.load(
        tombstone(CONSUMER_RECORDS.member, group_id="g", member_id="a"),
        tombstone(CONSUMER_RECORDS.target_epoch, group_id="g"),
        regex_tombstone("g", "x"),
        partition_metadata_tombstone("g"),
    )
    assert bench.group is None


def test_a_group_that_only_committed_gives_way() -> None:
    bench = ConsumerBench()
    bench.commit_offset(offset=3)
    assert isinstance(bench.group, ClassicGroup)
    bench.load(*bench.log, CONSUMER_RECORDS.epoch_record("g", 7, 0))
    assert bench.consumer_group().group_epoch == 7


def test_a_group_that_is_deleted() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.beat("a", -1)
    bench.load(*bench.log, *group_tombstones(bench.consumer_group()))
    assert bench.group is None


def test_what_versions_before_the_hash_wrote_is_removed() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    old = NewRecord(
        ConsumerGroupPartitionMetadataKey(group_id="g"),
        ConsumerGroupPartitionMetadataValue(topics=[]),
    )
    bench.load(*bench.log, old)
    assert bench.consumer_group().epochs.has_partition_metadata
    bench.beat("a", 2)
    assert bench.log[-1] == partition_metadata_tombstone("g")
    assert not bench.consumer_group().epochs.has_partition_metadata


def test_the_first_record_makes_a_group_and_a_tombstone_does_not() -> None:
    timeline = Timeline()
    groups: TimelineDict[str, Group] = TimelineDict(timeline)
    tombstones = SHARE_RECORDS.remove_member("g", "m")
    first = SHARE_RECORDS.epoch_record("g", 1, 0)

    def replay(kind: ModernRecords[Any, Any], *records: NewRecord) -> Group | None:
        for record in records:
            kind.replay(groups, timeline, record.key, record.value)
        return groups.get("g")

    assert replay(SHARE_RECORDS, *tombstones) is None
    made = replay(SHARE_RECORDS, first)
    assert made is not None
    assert replay(SHARE_RECORDS, *tombstones) is made
    # One of another kind takes its place.
    assert replay(CONSUMER_RECORDS, *CONSUMER_RECORDS.remove_member("g", "m")) is made
    assert isinstance(
        replay(CONSUMER_RECORDS, CONSUMER_RECORDS.epoch_record("g", 1, 0)), ConsumerGroup
    )


def test_targets_that_did_not_change_are_not_written() -> None:
    group = ShareGroup("g", Timeline())
    group.targets["same"] = {}
    found = finish(SHARE_RECORDS.target_records(group, 4, {"same": {}, "new": {}}, 77))
    assert [type(record.key) for record in found] == [
        SHARE_RECORDS.target.key,
        SHARE_RECORDS.target_epoch.key,
    ]
