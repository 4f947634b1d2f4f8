from __future__ import annotations

import pytest

from kaa.coordinators.group.modern.group import can_compute, partitions_by_topic
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import Timeline
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_share import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from kaa.wire.primitives import Uuid

TOPIC = Uuid(b"1" * 16)


@pytest.mark.parametrize(
    ("timestamp", "interval", "now", "expected"),
    [
        (0, 1_000, 5, True),
        (100, 0, 5, True),
        (100, 1_000, 1_099, False),
        (100, 1_000, 1_100, True),
        # The date was set back since.
        (100, 1_000, 99, True),
    ],
)
def test_pauses(timestamp: int, interval: int, now: int, expected: bool) -> None:
    assert can_compute(timestamp, interval, now) is expected


def test_records_become_memory_in_any_order_and_go_again() -> None:
    group = ShareGroup("g", Timeline())
    current = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        assigned_partitions=[TopicPartitions(topic_id=TOPIC, partitions=[1])],
    )
    finish(group.replay_current("m", current))
    metadata = ShareGroupMemberMetadataValue(
        client_id="c", client_host="h", subscribed_topic_names=["t"]
    )
    finish(group.replay_member("m", metadata))
    target = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[TopicPartition(topic_id=TOPIC, partitions=[1])]
    )
    finish(group.replay_target("m", target))
    group.replay_epoch(ShareGroupMetadataValue(epoch=3, metadata_hash=9))
    group.replay_target_epoch(
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=3, assignment_timestamp=7)
    )
    member = group.member("m")
    assert (member.client_id, member.member_epoch) == ("c", 3)
    assert member.assigned == group.targets["m"] == {TOPIC: frozenset({1})}
    assert group.epochs == (3, 9, 3, 7)
    finish(group.replay_current("m", None))
    assert (group.member("m").member_epoch, group.member("m").assigned) == (-1, {})
    finish(group.replay_target("m", None))
    group.replay_target_epoch(None)
    finish(group.replay_member("m", None))
    finish(group.replay_current("m", None))
    assert (group.is_empty, dict(group.targets.items())) == (True, {})
    assert group.epochs == (3, 9, -1, 0)


def test_nothing_is_committed_until_the_timeline_says_so() -> None:
    timeline = Timeline()
    group = ShareGroup("g", timeline)
    group.replay_epoch(ShareGroupMetadataValue(epoch=3, metadata_hash=9))
    assert (group.epochs.group_epoch, group.committed_epochs.group_epoch) == (3, 1)
    timeline.commit(1)
    assert group.committed_epochs.group_epoch == 3


def test_a_look_at_topics_counts_until_topics_change_or_it_is_taken_back() -> None:
    group = ShareGroup("g", Timeline())
    assert not group.has_checked_topics(5)
    group.topics_checked = (5, 1)
    assert group.has_checked_topics(5)
    assert not group.has_checked_topics(6)
    # The bump of the epoch that came with it is not in memory.
    group.topics_checked = (5, 2)
    assert not group.has_checked_topics(5)


def test_a_member_that_is_not_there_and_a_group_that_is_not_empty() -> None:
    group = ShareGroup("g", Timeline())
    group.validate_delete()
    with pytest.raises(CoordinatorError) as refusal:
        group.member("m")
    assert refusal.value.error == Errors.UNKNOWN_MEMBER_ID
    finish(group.replay_member("m", ShareGroupMemberMetadataValue()))
    with pytest.raises(CoordinatorError) as refusal:
        group.validate_delete()
    assert refusal.value.error == Errors.NON_EMPTY_GROUP


def test_partitions_by_topic() -> None:
    listed = [TopicPartition(topic_id=TOPIC, partitions=[2, 1])]
    assert finish(partitions_by_topic(listed)) == {TOPIC: frozenset({1, 2})}
