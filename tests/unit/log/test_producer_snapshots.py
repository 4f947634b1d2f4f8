"""Snapshot files of producer state."""

from __future__ import annotations

from struct import pack

import pytest
from crc32c import crc32c

from kaa.log.errors import CorruptFileError
from kaa.log.producer_snapshots import (
    ProducerSnapshots,
    decode_producer_snapshot,
    encode_producer_snapshot,
)
from kaa.log.producer_state import BatchMetadata, ProducerEntry
from kaa.log.sim_files import SimFiles

ENTRIES = [
    ProducerEntry(7, 1, 3, 99, 40, [BatchMetadata(1, 8, 1, 90), BatchMetadata(4, 12, 2, 99)]),
    ProducerEntry(8, 0, -1, 50),
]


def _rows(entries: list[ProducerEntry]) -> list[tuple[object, ...]]:
    return [
        (e.producer_id, e.epoch, e.coordinator_epoch, e.last_timestamp, e.transaction_first_offset)
        for e in entries
    ]


def test_bytes_are_kafkas() -> None:
    body = pack(">i", 2)
    body += pack(">qhiqiqiq", 7, 1, 4, 12, 2, 99, 3, 40)
    body += pack(">qhiqiqiq", 8, 0, -1, -1, 0, 50, -1, -1)
    assert encode_producer_snapshot(ENTRIES) == pack(">hI", 1, crc32c(body)) + body


def test_only_the_last_batch_is_remembered() -> None:
    decoded = decode_producer_snapshot("s", encode_producer_snapshot(ENTRIES))
    assert _rows(decoded) == _rows(ENTRIES)
    assert decoded[0].batches == [BatchMetadata(4, 12, 2, 99)]
    assert decoded[1].batches == []


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    content = encode_producer_snapshot(ENTRIES)
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptFileError):
            decode_producer_snapshot("s", bytes(damaged))
        with pytest.raises(CorruptFileError):
            decode_producer_snapshot("s", content[:position])


def _written(*offsets: int) -> tuple[SimFiles, ProducerSnapshots]:
    files = SimFiles()
    files.make_directory("/d")
    snapshots = ProducerSnapshots(files, "/d")
    for offset in offsets:
        assert snapshots.write(offset, ENTRIES) == snapshots.path(offset)
    return files, snapshots


def test_the_newest_good_one_is_read() -> None:
    files, snapshots = _written(10, 20, 30)
    files.flip_bits("/d/00000000000000000030.snapshot", 12)
    files.unlink("/d/00000000000000000020.snapshot")
    found = ProducerSnapshots(files, "/d")
    found.scan([*files.list_directory("/d"), "00000000000000000020.snapshot"])
    latest = found.read_latest()
    assert latest is not None
    assert latest[0] == 10
    assert found.offsets == [10]
    assert files.list_directory("/d") == ["00000000000000000010.snapshot"]
    found.delete(10)
    assert found.read_latest() is None
    assert snapshots.offsets == [10, 20, 30]


@pytest.mark.parametrize(
    ("offsets", "bases", "kept"),
    [
        ([0, 10, 20], {0, 10, 20}, [0, 10, 20]),
        ([5, 10, 15, 20, 25], {0, 10, 20}, [10, 20, 25]),
        ([5, 15], {0, 10, 20}, []),
        ([22, 25], {0, 20}, [25]),
    ],
)
def test_strays_are_removed(offsets: list[int], bases: set[int], kept: list[int]) -> None:
    _, snapshots = _written(*offsets)
    snapshots.remove_strays(bases)
    assert snapshots.offsets == kept


def test_marking_renames() -> None:
    files, snapshots = _written(10, 20)
    assert snapshots.mark_deleted(10) == "/d/00000000000000000010.snapshot.deleted"
    assert snapshots.mark_deleted(10) is None
    assert files.list_directory("/d") == [
        "00000000000000000010.snapshot.deleted",
        "00000000000000000020.snapshot",
    ]
    snapshots.set_folder("/e")
    assert snapshots.path(20) == "/e/00000000000000000020.snapshot"


def test_what_another_log_gets() -> None:
    files, snapshots = _written(10, 20)
    assert decode_producer_snapshot("s", snapshots.encoded_at(10))
    nobody = encode_producer_snapshot([])
    assert snapshots.encoded_at(15) == nobody
    files.flip_bits(snapshots.path(20), 3)
    assert snapshots.encoded_at(20) == nobody
    assert snapshots.offsets == [10, 20]
