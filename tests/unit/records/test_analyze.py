"""What a follower learns of fetched batches, and what it refuses."""

from __future__ import annotations

import pytest

from kaa.records import (
    AppendableExtent,
    BatchBuilder,
    CorruptRecordsError,
    InvalidRecordError,
    analyze_raft_leader,
    analyze_replicated,
)


def batch(base_offset: int, count: int, epoch: int, timestamp: int = 5) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, partition_leader_epoch=epoch)
    for _ in range(count):
        builder.append(timestamp, None, b"x")
    return bytes(builder.build())


def test_extent_of_several_batches() -> None:
    records = batch(10, 3, 1, 50) + batch(13, 2, 1, 99) + batch(20, 1, 2, 60)
    info = analyze_replicated(records + batch(21, 1, 2)[:40], 2)
    assert info == AppendableExtent(10, 20, 2, 99, len(records), 3)


def test_nothing_whole() -> None:
    assert (
        analyze_replicated(b"", 1)
        == analyze_replicated(batch(0, 1, 1)[:-1], 1)
        == AppendableExtent()
    )


def test_stops_before_a_newer_epoch() -> None:
    first = batch(0, 1, 3)
    info = analyze_replicated(first + batch(1, 1, 4) + batch(2, 1, 3), 3)
    assert (info.valid_bytes, info.last_offset) == (len(first), 0)
    assert analyze_replicated(batch(0, 1, 9), 3).valid_bytes == 0


def test_batches_without_epoch() -> None:
    info = analyze_replicated(batch(0, 1, -1), 3)
    assert info.last_leader_epoch is None
    assert info.batch_count == 1


def test_offsets_must_rise() -> None:
    for second in (batch(0, 3, 1), batch(2, 1, 1)):
        with pytest.raises(InvalidRecordError, match="follows"):
            analyze_replicated(batch(0, 3, 1) + second, 1)


def test_checksum() -> None:
    data = bytearray(batch(0, 1, 1))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordsError, match="checksum"):
        analyze_replicated(data, 1)


def test_raft_leader_writes_its_own_epoch_only() -> None:
    assert analyze_raft_leader(batch(0, 2, 5), 5).last_offset == 1
    for epoch in (4, 6):
        with pytest.raises(InvalidRecordError, match="epoch"):
            analyze_raft_leader(batch(0, 2, epoch), 5)
