"""Walks over batches in a file."""

from __future__ import annotations

import pytest

from kaa.limits import SCAN_WINDOW_BYTES, SEEK_WINDOW_BYTES
from kaa.log.scan import BatchExtent, find_batch, iter_headers, iter_valid, whole_batches_end
from kaa.log.sim_files import SimFile, SimFiles
from kaa.records.errors import CorruptRecordsError
from tests.unit.log.batches import batch


def _file(content: bytes | bytearray) -> SimFile:
    files = SimFiles()
    files.make_directory("/d")
    file = files.create("/d/a")
    file.write([content], 0)
    return file


def _batches(count: int, value_bytes: int = 10) -> list[bytearray]:
    return [batch(3, base_offset=3 * n, timestamp=n, value_bytes=value_bytes) for n in range(count)]


@pytest.mark.parametrize("value_bytes", [10, SEEK_WINDOW_BYTES, 3])
def test_find_batch(value_bytes: int) -> None:
    parts = _batches(50, value_bytes=value_bytes)
    file = _file(b"".join(parts))
    end = file.size()
    size = len(parts[0])
    assert find_batch(file, 0, end, 0) == BatchExtent(0, size, 0, 2)
    assert find_batch(file, 0, end, 100) == BatchExtent(33 * size, size, 99, 101)
    assert find_batch(file, 30 * size, end, 100) == BatchExtent(33 * size, size, 99, 101)
    assert find_batch(file, 0, end, 150) is None
    assert find_batch(file, end, end, 0) is None
    with pytest.raises(CorruptRecordsError):
        find_batch(file, 1, end, 100)


def test_whole_batches_end() -> None:
    parts = _batches(10)
    file = _file(b"".join(parts))
    size = len(parts[0])
    assert whole_batches_end(file, 0, 10 * size, 3 * size) == 3 * size
    assert whole_batches_end(file, size, 10 * size, 3 * size + 1) == 3 * size
    assert whole_batches_end(file, size, 10 * size, 2 * size - 1) == size
    with pytest.raises(CorruptRecordsError):
        whole_batches_end(file, 5, 10 * size, 10 * size)


def test_headers_leave_out_a_partial_batch() -> None:
    parts = _batches(5)
    file = _file(b"".join(parts)[:-1])
    found = list(iter_headers(file, 0, file.size()))
    assert [header.base_offset for header in found] == [0, 3, 6, 9]
    assert [header.file_position for header in found] == [n * len(parts[0]) for n in range(4)]
    assert bytes(found[2].load(file).view) == parts[2]
    with pytest.raises(CorruptRecordsError):
        list(iter_headers(file, 3, file.size()))
    with pytest.raises(CorruptRecordsError):
        list(iter_headers(file, 0, file.size() + 200))


def test_valid_batches_end_at_any_damaged_byte() -> None:
    parts = _batches(4)
    content = b"".join(parts)
    size = len(parts[0])
    assert [b.base_offset for b in iter_valid(_file(content), 0, len(content))] == [0, 3, 6, 9]
    for position in range(2 * size, 3 * size):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        found = [b.base_offset for b in iter_valid(_file(damaged), 0, len(content))]
        where = position - 2 * size
        # The leader epoch is not checksummed, nor a base offset that still rises.
        undetected = 12 <= where < 16 or where < 8
        assert found[:2] == [0, 3]
        assert len(found) == 2 or undetected


def test_offsets_must_rise() -> None:
    content = batch(3, base_offset=10) + batch(3, base_offset=12)
    assert [b.base_offset for b in iter_valid(_file(content), 0, len(content))] == [10]


def test_batches_larger_than_the_window_are_checked_in_pieces() -> None:
    big = batch(1, value_bytes=2 * SCAN_WINDOW_BYTES + 7)
    content = batch(1) + big[:8] + big[8:] + batch(1, base_offset=9)
    big_position = len(batch(1))
    content[big_position : big_position + 8] = (5).to_bytes(8, "big")
    assert [b.base_offset for b in iter_valid(_file(content), 0, len(content))] == [0, 5, 9]
    content[big_position + SCAN_WINDOW_BYTES] ^= 1
    assert [b.base_offset for b in iter_valid(_file(content), 0, len(content))] == [0]


def test_zeros_are_no_batch() -> None:
    content = batch(1) + bytes(1000)
    assert [b.base_offset for b in iter_valid(_file(content), 0, len(content))] == [0]
