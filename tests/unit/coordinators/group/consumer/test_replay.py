"""Records that somebody else wrote, in any state of compaction."""

from __future__ import annotations

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.consumer.describe import group_tombstones
from kaa.coordinators.group.consumer.records import (
    epoch_record,
    member_tombstone,
    partition_metadata_tombstone,
    regex_tombstone,
    target_epoch_tombstone,
)
from kaa.coordinators.machine import NewRecord
from kaa.wire.messages.offsets_consumer import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tests.unit.coordinators.group.consumer.bench import ConsumerBench


def test_tombstones_of_what_is_not_there() -> None:
    bench = ConsumerBench()
    bench.load(
        member_tombstone("g", "a"),
        target_epoch_tombstone("g"),
        regex_tombstone("g", "x"),
        partition_metadata_tombstone("g"),
    )
    assert bench.group is None


def test_a_group_that_only_committed_gives_way() -> None:
    bench = ConsumerBench()
    bench.commit_offset(offset=3)
    assert isinstance(bench.group, ClassicGroup)
    bench.load(*bench.log, epoch_record("g", 7, 0))
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
