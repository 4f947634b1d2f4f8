"""Copies that are read before they may take the place of their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaa.limits import COPY_BATCHES_PER_SLICE_MAX, SCAN_WINDOW_BYTES
from kaa.log.append import append_as_follower, append_as_leader
from kaa.log.config import LogConfig
from kaa.log.copy_check import CopyCheck
from kaa.log.errors import StorageError
from kaa.log.files import read_whole
from kaa.log.sim_files import Fault
from kaa.records.errors import CorruptRecordsError
from tests.unit.log.batches import batch
from tests.unit.log.logs import new_disk, new_log

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog
    from kaa.log.sim_files import SimFiles


def _made(files: SimFiles, batches: int = 8) -> UnifiedLog:
    """A copy of several segments, which two leaders wrote."""
    log = new_log(files)
    for number in range(batches):
        append_as_leader(log, batch(3), leader_epoch=number // 3, now_ms=0)
    assert len(log.segments) > 1
    return log


def _read(log: UnifiedLog, bytes_max: int = 2**20) -> list[int]:
    check, sizes = CopyCheck(log), []
    try:
        while check.next_segment():
            while size := check.read(bytes_max):
                sizes.append(size)
    finally:
        check.close()
    return sizes


def test_a_whole_copy_is_read_to_its_end() -> None:
    log = _made(new_disk())
    assert _read(log) == [segment.size for segment in log.segments]


def test_an_empty_copy_is_whole() -> None:
    assert _read(new_log(new_disk())) == []


def test_each_byte_of_a_copy_counts() -> None:
    """Also those that no checksum covers: base offset, length, leader epoch, magic."""
    files = new_disk()
    log = _made(files)
    for segment in log.segments:
        path = segment.path(".log")
        stored, file = read_whole(files, path), files.open(path)
        for position, byte in enumerate(stored):
            for mask in (0x01, 0x80, byte or 0x10):
                file.write([bytes([byte ^ mask])], position)
                with pytest.raises(CorruptRecordsError, match=r"at position \d+$"):
                    _read(log)
            file.write([bytes([byte])], position)
    assert sum(_read(log)) == sum(segment.size for segment in log.segments)


def test_a_batch_that_is_in_the_wrong_segment_is_damage() -> None:
    files = new_disk()
    log = _made(files, 11)
    first, second, *_ = log.segments
    content = read_whole(files, first.path(".log"))
    assert first.size == second.size
    files.open(second.path(".log")).write([content], 0)
    with pytest.raises(CorruptRecordsError, match="a batch of offset 0 "):
        _read(log)


def test_a_copy_that_compaction_left_gaps_in_is_whole() -> None:
    log = new_log(new_disk())
    for offset in (5, 40, 41, 90):
        append_as_follower(log, batch(1, base_offset=offset), leader_epoch=0, now_ms=0)
    assert sum(_read(log)) == log.segments.active.size


def test_slices_are_short_in_bytes_and_in_batches() -> None:
    log = new_log(new_disk(), LogConfig())
    for _ in range(COPY_BATCHES_PER_SLICE_MAX + 50):
        append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    size = len(batch(1))
    assert _read(log) == [COPY_BATCHES_PER_SLICE_MAX * size, 50 * size]
    assert set(_read(log, 10 * size)) == {10 * size}
    # However slow: at least one batch.
    assert len(_read(log, 1)) == COPY_BATCHES_PER_SLICE_MAX + 50


def test_a_batch_that_is_larger_than_the_window_is_read_in_pieces() -> None:
    files = new_disk()
    log = new_log(files, LogConfig(max_message_bytes=10 * SCAN_WINDOW_BYTES))
    append_as_leader(log, batch(1, value_bytes=2 * SCAN_WINDOW_BYTES), leader_epoch=0, now_ms=0)
    assert _read(log) == [log.segments.active.size]
    files.open(log.segments.active.path(".log")).write([b"x"], SCAN_WINDOW_BYTES + 99)
    with pytest.raises(CorruptRecordsError):
        _read(log)


def test_no_more_than_one_segment_is_open() -> None:
    files = new_disk()
    log = _made(files, 30)
    log.rest()
    check, before = CopyCheck(log), len(files.open_paths())
    while check.next_segment():
        while check.read(10):
            assert len(files.open_paths()) <= before + 1
    assert len(files.open_paths()) == before


def test_disk_that_does_not_give_the_bytes_is_no_damage() -> None:
    files = new_disk()
    log = _made(files)
    files.faults = [Fault("read", log.folder)]
    with pytest.raises(StorageError):
        _read(log)
    assert not log.directory.is_online


def test_copy_that_is_given_up_meanwhile_costs_no_disk() -> None:
    """Its folder has another name by then, and its files are not open."""
    files = new_disk()
    log = _made(files)
    log.rest()
    check = CopyCheck(log)
    assert check.next_segment()
    log.close()
    files.rename(log.folder, f"{log.folder}-delete")
    with pytest.raises(StorageError):
        check.read(10)
    check.close()
    assert log.directory.is_online
    assert files.open_paths() == []
