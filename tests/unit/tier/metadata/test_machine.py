from __future__ import annotations

import pytest

from kaa.tier.metadata.machine import (
    BrokenMetadataError,
    MetadataMachine,
    NotAssignedError,
    NotReadyError,
)
from kaa.tier.metadata.model import (
    PartitionDeleteState,
    PartitionDeletion,
    SegmentState,
    TopicIdPartition,
)
from kaa.tier.metadata.records import encode_event, metadata_partition
from kaa.wire.primitives import Uuid
from tests.unit.tier.metadata.samples import PARTITION, segment, update

COUNT = 50
NUMBER = metadata_partition(PARTITION, COUNT)
ANNOUNCED = encode_event(segment(1, 0, 9))
FINISHED = encode_event(update(1, SegmentState.COPY_SEGMENT_FINISHED))


def reading() -> MetadataMachine:
    machine = MetadataMachine(COUNT)
    assert machine.assign([PARTITION]).added == (NUMBER,)
    return machine


def test_nothing_is_answered_before_it_is_ready() -> None:
    machine = MetadataMachine(COUNT)
    with pytest.raises(NotAssignedError):
        machine.user(PARTITION)
    machine = reading()
    with pytest.raises(NotReadyError, match="not known yet"):
        machine.user(PARTITION)
    machine.set_target(NUMBER, 2)
    machine.apply(NUMBER, 0, ANNOUNCED)
    with pytest.raises(NotReadyError, match="up to 1, not up to 2"):
        machine.user(PARTITION)
    assert not machine.is_ready(PARTITION)
    machine.apply(NUMBER, 1, FINISHED)
    assert machine.is_ready(PARTITION)
    assert machine.user(PARTITION).cache.find(0, 5) is not None
    # The end moves on; what was ready stays so.
    machine.set_target(NUMBER, 1_000)
    assert machine.is_ready(PARTITION)


def test_an_empty_topic_is_ready_at_once() -> None:
    machine = reading()
    machine.set_target(NUMBER, 0)
    assert len(machine.user(PARTITION).cache) == 0


def test_a_record_counts_once() -> None:
    machine = reading()
    machine.apply(NUMBER, 0, ANNOUNCED)
    machine.apply(NUMBER, 1, FINISHED)
    # Fetched again, after a connection was lost.
    machine.apply(NUMBER, 0, ANNOUNCED)
    machine.set_target(NUMBER, 2)
    found = machine.user(PARTITION).cache.find(0, 5)
    assert found is not None
    assert machine.is_applied(NUMBER, 1)
    assert not machine.is_applied(NUMBER, 2)


@pytest.mark.parametrize("value", [None, b"", b"\x01\x63\x00\x00"])
def test_a_record_that_cannot_be_read_stops_its_partition(value: bytes | None) -> None:
    machine = reading()
    machine.set_target(NUMBER, 3)
    machine.apply(NUMBER, 0, ANNOUNCED)
    why = machine.apply(NUMBER, 1, value)
    assert "record 1 of partition" in why
    # What comes after it does not count either.
    assert machine.apply(NUMBER, 2, FINISHED) == ""
    assert not machine.is_applied(NUMBER, 2)
    with pytest.raises(BrokenMetadataError, match="record 1"):
        machine.user(PARTITION)
    assert list(machine.reading()) == []


def test_a_partition_that_comes_later_finds_its_history() -> None:
    same = next(
        one
        for number in range(1_000)
        if metadata_partition(one := PARTITION._replace(partition=number + 10), COUNT) == NUMBER
    )
    machine = reading()
    theirs = segment(7, 0, 9)._replace(partition=same)
    machine.apply(NUMBER, 0, encode_event(theirs))
    machine.set_target(NUMBER, 1)
    assert machine.assign([same]).added == ()
    assert machine.user(same).cache.segments() == (theirs,)
    # It is given up when the last of the two is.
    assert machine.unassign([PARTITION]).removed == ()
    assert machine.unassign([same]).removed == (NUMBER,)
    with pytest.raises(NotAssignedError):
        machine.user(same)
    # Unassigned in the middle of a batch: the rest of it changes nothing.
    assert machine.apply(NUMBER, 1, FINISHED) == ""


def test_a_topic_that_is_created_again_is_another_one() -> None:
    machine = MetadataMachine(1)
    again = TopicIdPartition(Uuid(b"u" * 16), PARTITION.topic, PARTITION.partition)
    machine.assign([PARTITION, again])
    machine.apply(0, 0, ANNOUNCED)
    machine.set_target(0, 1)
    assert len(machine.user(PARTITION).cache) == 1
    assert len(machine.user(again).cache) == 0


def test_a_trimmed_topic_goes_on_at_its_start() -> None:
    machine = reading()
    machine.set_target(NUMBER, 10)
    assert machine.trimmed(NUMBER, 8)
    assert not machine.trimmed(NUMBER, 8)
    # The announcement is gone; the update of it means nothing any more.
    machine.apply(NUMBER, 8, FINISHED)
    machine.apply(NUMBER, 9, ANNOUNCED)
    assert len(machine.user(PARTITION).cache) == 1


def test_deletions_follow_their_steps() -> None:
    machine = MetadataMachine(1)
    machine.assign([PARTITION])
    machine.set_target(0, 0)

    def step(offset: int, state: PartitionDeleteState) -> PartitionDeleteState | None:
        machine.apply(0, offset, encode_event(PartitionDeletion(PARTITION, state, 1, 1)))
        return machine.user(PARTITION).deletion

    marked, started, finished = PartitionDeleteState
    assert step(0, started) is None
    assert step(1, marked) is marked
    assert step(2, finished) is marked
    assert step(3, started) is started
    # Then nothing is known any more: the topic may come back to the tier.
    assert step(4, finished) is None
    assert step(5, marked) is marked
