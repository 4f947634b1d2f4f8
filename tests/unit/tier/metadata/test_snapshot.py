from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest
from crc32c import crc32c

from kaa.tier.metadata import snapshot
from kaa.tier.metadata.machine import MetadataMachine, MetadataPartition
from kaa.tier.metadata.model import PartitionDeleteState, PartitionDeletion, SegmentState
from kaa.tier.metadata.records import RemoteLogEvent, encode_event
from kaa.tier.metadata.snapshot import SnapshotError
from tests.unit.tier.metadata.samples import PARTITION, segment, update

Done = TypeVar("Done")

EVENTS: tuple[RemoteLogEvent, ...] = (
    segment(1, 10, 90),
    update(1, SegmentState.COPY_SEGMENT_FINISHED),
    segment(2, 5, 100),
    update(2, SegmentState.COPY_SEGMENT_FINISHED),
    segment(3, 101, 120),
    update(1, SegmentState.DELETE_SEGMENT_STARTED),
    PartitionDeletion(PARTITION, PartitionDeleteState.DELETE_PARTITION_MARKED, 1, 1),
    PartitionDeletion(PARTITION, PartitionDeleteState.DELETE_PARTITION_STARTED, 1, 1),
)


def finish(work: Generator[None, None, Done]) -> Done:
    while True:
        try:
            next(work)
        except StopIteration as stop:
            done: Done = stop.value
            return done


def encode_snapshot(partitions: int, machine: MetadataMachine) -> bytes:
    return bytes(finish(snapshot.encode_snapshot(partitions, machine.reading())))


def decode_snapshot(data: bytes, partitions: int) -> dict[int, MetadataPartition]:
    return finish(snapshot.decode_snapshot(data, partitions))


def filled() -> MetadataMachine:
    machine = MetadataMachine(1)
    machine.assign([PARTITION])
    for offset, event in enumerate(EVENTS):
        machine.apply(0, offset, encode_event(event))
    machine.set_target(0, len(EVENTS))
    return machine


def test_it_brings_back_what_was_known() -> None:
    before = filled()
    data = encode_snapshot(1, before)
    after = MetadataMachine(1)
    after.assign([PARTITION])
    for number, state in decode_snapshot(data, 1).items():
        assert after.restore(number, state)
    after.set_target(0, len(EVENTS))
    old, new = before.user(PARTITION), after.user(PARTITION)
    assert set(new.cache.segments()) == set(old.cache.segments())
    assert [new.cache.find(0, offset) for offset in (4, 50, 110)] == [
        old.cache.find(0, offset) for offset in (4, 50, 110)
    ]
    assert new.deletion is PartitionDeleteState.DELETE_PARTITION_STARTED
    # Records that the snapshot has do not count twice.
    assert after.apply(0, 0, encode_event(EVENTS[0])) == ""
    assert after.is_applied(0, len(EVENTS) - 1)


def test_it_is_not_taken_where_it_is_not_wanted() -> None:
    states = decode_snapshot(encode_snapshot(1, filled()), 1)
    machine = MetadataMachine(1)
    assert not machine.restore(0, states[0])
    machine.assign([PARTITION])
    machine.apply(0, 0, encode_event(EVENTS[0]))
    assert not machine.restore(0, states[0])


def test_every_damage_is_seen() -> None:
    data = encode_snapshot(1, filled())
    for place in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(SnapshotError):
            decode_snapshot(bytes(damaged), 1)
    for size in (0, 10, len(data) - 1):
        with pytest.raises(SnapshotError):
            decode_snapshot(data[:size], 1)


def test_another_version_or_topic_counts_as_none() -> None:
    data = encode_snapshot(1, filled())
    with pytest.raises(SnapshotError, match="had 1 partition then, and has 50"):
        decode_snapshot(data, 50)
    newer = bytearray(data[:-4])
    newer[7] = 1
    with pytest.raises(SnapshotError, match="version"):
        decode_snapshot(bytes(newer) + crc32c(newer).to_bytes(4, "big"), 1)
    # Whole by its checksum, and still cut off within.
    short = data[:-30]
    with pytest.raises(SnapshotError):
        decode_snapshot(short + crc32c(short).to_bytes(4, "big"), 1)
