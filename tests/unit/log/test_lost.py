"""Logs that are not whole, beside a copy or another log of the same partition."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kaa.log.append import append_as_leader
from kaa.log.files import read_whole, write_new
from kaa.log.names import PARTITION_METADATA_FILE, STRAY_FOLDER_SUFFIX
from kaa.log.sim_files import Fault, Operation
from tests.unit.log.batches import batch
from tests.unit.log.test_futures import (
    KEY,
    RECORDS,
    TOPIC_ID,
    A,
    B,
    copy,
    disks,
    filled,
    marks,
    plain_folders,
    started,
    swap,
)

if TYPE_CHECKING:
    from kaa.log.manager import LogManager
    from kaa.log.sim_files import SimFiles


def _stop(manager: LogManager) -> None:
    for _ in manager.shutdown(0, 1):
        pass


def _cut(files: SimFiles, path: str) -> None:
    files.open(path).truncate(files.size(path) - 1)


def test_a_new_log_takes_over_nothing_of_one_that_is_damaged_like_its_copy() -> None:
    """Both are kept aside: their files would be taken for files of the new log."""
    files = disks()
    manager = started(files)
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, RECORDS)
    paths = [log.segments.active.path(".log") for log in (source, future)]
    kept = {len(log.segments) for log in (source, future)}
    _stop(manager)
    for path in paths:
        _cut(files, path)
    manager = started(files)
    assert manager.is_lost(KEY)
    log = manager.get_or_create(KEY, TOPIC_ID, now_ms=0)
    assert {name.partition(".")[0] for name in files.list_directory(log.folder)} == {
        "0" * 20,
        PARTITION_METADATA_FILE.partition(".")[0],
    }
    assert sorted(aside[:2] for aside in manager.strays) == [A, B]
    for aside in manager.strays:
        assert aside.endswith(STRAY_FOLDER_SUFFIX)
        names = files.list_directory(aside)
        assert len([name for name in names if name.endswith(".log")]) in kept
    assert not manager.is_lost(KEY)


def test_a_damaged_log_is_not_in_the_way_of_a_move_of_the_one_that_is_served() -> None:
    """A disk that failed within a swap, and is back, may have the one beside the other."""
    files = disks()
    manager = started(files)
    source = filled(manager)
    newest = source.segments.active.path(".log").rpartition("/")[2]
    _stop(manager)
    files.make_directory(f"{B}/t-0")
    for name in files.list_directory(f"{A}/t-0"):
        write_new(files, f"{B}/t-0/{name}", read_whole(files, f"{A}/t-0/{name}"))
    _cut(files, f"{B}/t-0/{newest}")
    manager = started(files)
    for _ in manager.mark_strays(lambda *_: True, now_ms=0):
        pass
    assert plain_folders(files) == [f"{A}/t-0"]
    assert marks(files, B) == ["stray"]
    source = manager.logs[KEY]
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, RECORDS)
    assert swap(manager, source) == [None]
    assert manager.logs[KEY].folder == f"{B}/t-0"
    assert manager.logs[KEY].log_end_offset == RECORDS
    assert all(directory.is_online for directory in manager.directories)


@pytest.mark.parametrize(
    ("operation", "name"),
    [("create", "0.log"), ("create", ".timeindex"), ("create", PARTITION_METADATA_FILE)],
)
def test_a_folder_that_a_full_disk_left_is_not_in_the_way_of_the_next_start(
    operation: Operation, name: str
) -> None:
    """The log was made in the other directory then."""
    files = disks()
    manager = started(files)
    files.faults = [Fault(operation, name, errno.ENOSPC)]
    log = manager.get_or_create(KEY, TOPIC_ID, now_ms=0)
    assert log.directory.path == B
    append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
    assert plain_folders(files) == [f"{A}/t-0", f"{B}/t-0"]
    manager.abandon()
    files.faults = []
    manager = started(files)
    assert manager.logs[KEY].folder == f"{B}/t-0"
    assert manager.logs[KEY].log_end_offset == 2
    assert plain_folders(files) == [f"{B}/t-0"]
