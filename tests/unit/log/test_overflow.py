"""Segments that span more offsets than their indexes can tell apart."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kaa.log.append import append_as_leader
from kaa.log.files import write_new
from kaa.log.log import UnifiedLog
from kaa.log.names import LOG_SUFFIX, file_name, folder_name
from kaa.log.sim_files import CrashError, CrashMode, Fault, Inspection, Operation, SimFiles
from tests.unit.log.batches import batch
from tests.unit.log.logs import PARTITION, ROOT, SMALL, new_disk, reload, stored_batches
from tests.unit.records.test_legacy import message

FOLDER = f"{ROOT}/{folder_name(PARTITION)}"
FAR = 2**31
OFFSETS = (0, 5, FAR + 10, FAR + 20, FAR + FAR, FAR + FAR + 100)
COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))
BASES = [0, FAR + 10, FAR + FAR + 100]


def found_disk(*offsets: int, following: int | None = None) -> SimFiles:
    """A log whose first segment holds batches at these offsets, and maybe one that follows."""
    files = new_disk()
    files.make_directory(FOLDER)
    content = b"".join(bytes(batch(1, base_offset=offset)) for offset in offsets)
    write_new(files, f"{FOLDER}/{file_name(0, LOG_SUFFIX)}", content)
    if following is not None:
        content = bytes(batch(1, base_offset=following))
        write_new(files, f"{FOLDER}/{file_name(following, LOG_SUFFIX)}", content)
    for path in files.list_directory(FOLDER):
        file = files.open(f"{FOLDER}/{path}")
        file.sync()
        file.close()
    files.sync_directory(FOLDER)
    files.sync_directory(ROOT)
    return files


def check(log: UnifiedLog, bases: list[int], offsets: list[int]) -> None:
    assert [segment.base_offset for segment in log.segments] == bases
    assert [found.base_offset for found in stored_batches(log)] == offsets
    assert log.log_end_offset == offsets[-1] + 1
    for offset in offsets:
        assert stored_batches(log, offset)[0].base_offset == offset


@pytest.mark.parametrize("clean", [False, True])
def test_the_last_segment_is_split(clean: bool) -> None:
    log = reload(found_disk(*OFFSETS), COMPACTED, clean=clean)
    check(log, BASES, list(OFFSETS))


@pytest.mark.parametrize("clean", [False, True])
def test_a_segment_before_others_is_split(clean: bool) -> None:
    following = 3 * FAR
    log = reload(found_disk(*OFFSETS, following=following), COMPACTED, clean=clean)
    check(log, [*BASES, following], [*OFFSETS, following])


def test_a_segment_below_the_recovery_point_is_split() -> None:
    following = 3 * FAR
    files = found_disk(*OFFSETS, following=following)
    log = reload(files, recovery_point=following)
    check(log, [*BASES, following], [*OFFSETS, following])


def test_a_far_follower_alone_is_no_overflow() -> None:
    log = reload(found_disk(0, 5, following=3 * FAR), clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, 3 * FAR]


def test_what_follows_goes_on_as_ever() -> None:
    files = found_disk(*OFFSETS)
    log = reload(files, COMPACTED)
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    log.close_cleanly(0)
    again = reload(files, COMPACTED, clean=True)
    assert again.log_end_offset == OFFSETS[-1] + 3
    assert [found.base_offset for found in stored_batches(again)] == [*OFFSETS, OFFSETS[-1] + 1]


def test_a_damaged_tail_is_cut_as_ever() -> None:
    files = found_disk(*OFFSETS)
    file = files.open(f"{FOLDER}/{file_name(0, LOG_SUFFIX)}")
    file.write([b"\x09"], file.size() - 3)
    log = reload(files, COMPACTED)
    assert [found.base_offset for found in stored_batches(log)] == list(OFFSETS[:-1])
    assert OFFSETS[-2] < log.log_end_offset <= OFFSETS[-1]


def test_a_far_offset_in_a_log_that_is_not_compacted_is_damage() -> None:
    log = reload(found_disk(0, 5, FAR + 10))
    assert [found.base_offset for found in stored_batches(log)] == [0, 5]
    assert log.log_end_offset == 6


def test_offsets_that_do_not_rise_end_what_is_split() -> None:
    log = reload(found_disk(0, FAR + 10, 7, FAR + 20), COMPACTED)
    assert [found.base_offset for found in stored_batches(log)] == [0, FAR + 10]


def test_old_formats_are_split_too() -> None:
    files = new_disk()
    files.make_directory(FOLDER)
    content = message(0, 3, b"k", b"v") + message(1, FAR + 7, b"k", b"v", 5)
    write_new(files, f"{FOLDER}/{file_name(0, LOG_SUFFIX)}", content)
    log = reload(files, COMPACTED)
    assert [segment.base_offset for segment in log.segments] == [0, FAR + 7]
    assert log.log_end_offset == FAR + 8


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_a_crash_at_any_step_loses_nothing(mode: CrashMode) -> None:
    step = 0
    while True:
        files = found_disk(*OFFSETS)
        files.crash_at = len(files.history) + step
        try:
            reload(files, COMPACTED, clean=True)
        except CrashError:
            files = files.restart(mode)
        else:
            break
        check(reload(files, COMPACTED, clean=True), BASES, list(OFFSETS))
        names = files.list_directory(FOLDER)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        step += 1
    assert step > 20


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "unlink", "read"])
def test_a_disk_that_fails_at_any_step_leaves_nothing_open(
    operation: Operation | Inspection,
) -> None:
    skip = 0
    while True:
        files = found_disk(*OFFSETS)
        fault = Fault(operation, FOLDER, errno.EIO, skip=skip)
        files.faults = [fault]
        try:
            reload(files, COMPACTED, clean=True)
        except OSError:
            assert files.open_paths() == []
        else:
            assert fault.times
            break
        files.faults = []
        check(reload(files, COMPACTED, clean=True), BASES, list(OFFSETS))
        skip += 1
    assert skip
