from __future__ import annotations

import tracemalloc

import pytest

from kaa.limits import METADATA_SNAPSHOT_BATCH_BYTES
from kaa.log.errors import CorruptFileError
from kaa.log.sim_files import SimFiles
from kaa.quorum import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch, VoterSet
from kaa.quorum.snapshots import (
    DELETED_SUFFIX,
    build_snapshot,
    load_snapshot,
    parse_snapshot_name,
    read_bootstrap,
    snapshot_name,
    snapshot_timestamp,
    write_bootstrap,
)
from kaa.records.batch import iter_batches
from tests.unit.quorum.disk_replica import voter

ID = OffsetAndEpoch(1234, 7)
VOTERS = VoterSet.of([voter(1, with_directory=True)])


def built(values: list[bytes], kraft_version: int = 0, voters: VoterSet | None = None) -> bytes:
    return b"".join(
        build_snapshot(
            ID,
            values,
            timestamp=50,
            last_contained_log_timestamp=40,
            kraft_version=kraft_version,
            voters=voters,
        )
    )


def loaded(content: bytes) -> tuple[int, int, VoterSet | None, list[bytes]]:
    files = SimFiles()
    files.create("/s").write([content], 0)
    timestamp, kraft_version, voters, values = load_snapshot(files, "/s")
    return timestamp, kraft_version, voters, [value or b"" for value in values]


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000001234-0000000007.checkpoint", (ID, "")),
        ("00000000000000001234-0000000007-8812.checkpoint.part", (ID, "part")),
        ("00000000000000001234-0000000007.checkpoint.part", (ID, "part")),
        ("00000000000000001234-0000000007.checkpoint.deleted", (ID, "deleted")),
        ("00000000000000001234.log", None),
        ("00000000000000001234-0000000007-x.checkpoint", None),
        ("1234-7.checkpoint", None),
        ("bootstrap.checkpoint", None),
    ],
)
def test_names(name: str, parsed: tuple[OffsetAndEpoch, str] | None) -> None:
    assert parse_snapshot_name(name) == parsed


def test_a_name_is_read_as_it_is_written() -> None:
    assert parse_snapshot_name(snapshot_name(ID)) == (ID, "")
    assert parse_snapshot_name(snapshot_name(ID, DELETED_SUFFIX)) == (ID, "deleted")


@pytest.mark.parametrize("values", [[], [b"one"], [b"a", b"", b"c" * 1000]])
def test_content_comes_back(values: list[bytes]) -> None:
    assert loaded(built(values)) == (40, 0, None, values)
    assert loaded(built(values, 1, VOTERS)) == (40, 1, VOTERS, values)
    assert loaded(built(values, 1)) == (40, 1, None, values)


def test_offsets_count_through_all_batches() -> None:
    value = bytes(METADATA_SNAPSHOT_BATCH_BYTES // 2)
    batches = list(iter_batches(built([value] * 5, 1, VOTERS)))
    assert len(batches) == 5
    expected = 0
    for batch in batches:
        assert batch.base_offset == expected
        assert batch.partition_leader_epoch == ID.epoch
        expected = batch.next_offset
    assert expected == 3 + 5 + 1


def test_every_damaged_byte_is_noticed() -> None:
    content = built([b"one", b"two"], 1, VOTERS)
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x40
        # What is outside of a checksum: base offset, leader epoch.
        if any(
            batch_start <= position < batch_start + 8
            or batch_start + 12 <= position < batch_start + 16
            for batch_start in _starts(content)
        ):
            continue
        with pytest.raises(CorruptFileError):
            loaded(bytes(damaged))


def test_every_cut_is_noticed() -> None:
    content = built([b"one", b"two"])
    for size in range(len(content)):
        with pytest.raises(CorruptFileError):
            loaded(content[:size])
    with pytest.raises(CorruptFileError):
        loaded(content + content)
    with pytest.raises(CorruptFileError):
        loaded(content + b"x")


def test_no_more_of_it_is_in_memory_than_a_batch() -> None:
    files = SimFiles()
    file = files.create("/s")
    file.write([built([bytes([number]) * 10_000 for number in range(200)])], 0)
    tracemalloc.start()
    try:
        content = load_snapshot(files, "/s")
        count = sum(
            value == bytes([number]) * 10_000 for number, value in enumerate(content.values)
        )
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 200
    assert peak_bytes < 4 * METADATA_SNAPSHOT_BATCH_BYTES < file.size() / 4


def test_a_batch_that_claims_to_be_huge_is_not_read() -> None:
    content = bytearray(built([b"one"]))
    content[8:12] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptFileError, match="no batch"):
        loaded(bytes(content))


def _starts(content: bytes) -> list[int]:
    starts, position = [], 0
    for batch in iter_batches(content):
        starts.append(position)
        position += batch.size_in_bytes
    return starts


def test_time_is_read_from_the_header_alone() -> None:
    files = SimFiles()
    file = files.create("/s")
    file.write([built([b"x" * 100_000])], 0)
    assert snapshot_timestamp(files, "/s") == 40
    file.truncate(0)
    file.write([b"garbage of some length, not a batch"], 0)
    with pytest.raises(CorruptFileError):
        snapshot_timestamp(files, "/s")


def test_bootstrap_file() -> None:
    files = SimFiles()
    files.make_directory("/data")
    assert read_bootstrap(files, "/data") is None
    write_bootstrap(files, "/data", [b"a", b"b"], 5)
    assert read_bootstrap(files, "/data") == [b"a", b"b"]
    content = files.open("/data/bootstrap.checkpoint").read(10_000, 0)
    assert next(iter(iter_batches(content))).partition_leader_epoch == BOOTSTRAP_SNAPSHOT_ID.epoch
