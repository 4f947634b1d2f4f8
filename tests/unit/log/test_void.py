"""Logs that count for nothing since another one went on, and disks that come back without it."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, get_args

import pytest

from kaa.log.append import append_as_leader
from kaa.log.dirs import LogDirectory
from kaa.log.errors import ShortageError, StorageError
from kaa.log.files import read_whole, write_atomically
from kaa.log.manager import LogManager
from kaa.log.sim_files import Fault, Inspection, Operation, SimFiles
from kaa.log.void import VOID_LOGS_FILE, VoidLogs
from tests.support.ids import uuid
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL
from tests.unit.log.test_futures import (
    CONFIG,
    KEY,
    RECORDS,
    TOPIC_ID,
    A,
    B,
    copy,
    filled,
    give_up,
    marks,
    swap,
)

if TYPE_CHECKING:
    from kaa.log.lost import IsOurs

PATH = f"/m/{VOID_LOGS_FILE}"
IDS = {A: uuid(900), B: uuid(901)}


def disks() -> SimFiles:
    files = SimFiles()
    for path in (A, B, "/m"):
        files.make_directory(path)
    files.sync_directory("")
    return files


def started(files: SimFiles, *paths: str, is_ours: IsOurs = lambda _, __: True) -> LogManager:
    """What a broker has when all its logs are loaded, and strays put aside."""
    manager = LogManager(files, paths or (A, B), CONFIG, Random(3), lambda _: SMALL)
    manager.void.path = PATH
    for directory in manager.directories:
        directory.directory_id = IDS[directory.path]
    for _ in manager.start(now_ms=0, is_ours=is_ours):
        pass
    for _ in manager.mark_strays(is_ours, now_ms=0):
        pass
    return manager


def handed_over(files: SimFiles) -> LogManager:
    """The disk of a source fails within a swap, and the copy goes on."""
    manager = started(files)
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, RECORDS)
    files.faults = [Fault("rename", A)]
    assert swap(manager, source) == [None]
    files.faults = []
    append_as_leader(future, batch(2), leader_epoch=9, now_ms=0)
    future.flush(0)
    return manager


@pytest.mark.parametrize("path", [A, B])
@pytest.mark.parametrize("operation", [*get_args(Operation), "read", "open"])
def test_disk_that_fails_at_any_operation_of_a_swap_does_not_bring_an_old_log_back(
    operation: Operation | Inspection, path: str
) -> None:
    """It is there alone at the next start, and the other one is there again at the one after it."""
    skip, is_hit = 0, True
    while is_hit:
        files = disks()
        manager = started(files)
        source = filled(manager)
        future = manager.futures.create(source, manager.directories[1], 0)
        copy(source, future, 24)
        for each in (source, future):
            each.rest()
        files.faults = [Fault(operation, path, skip=skip, times=10**9)]
        ends = swap(manager, source)
        is_hit = any(not directory.is_online for directory in manager.directories)
        files.faults = []
        give_up(manager, source, ends)
        end_offset, log = RECORDS, manager.logs[KEY]
        if log.directory.is_online:
            append_as_leader(log, batch(2), leader_epoch=9, now_ms=0)
            end_offset += 2
        files = files.restart("kill")
        if log.directory.is_online and log.directory.path != path:
            found = started(files, path)
            assert KEY not in found.logs, f"{operation} {skip}"
            found.abandon()
        manager = started(files)
        if KEY not in manager.logs:
            assert manager.lost.has_swapped(manager.futures.logs[KEY])
            manager.futures.promote(KEY)
        assert manager.logs[KEY].log_end_offset == end_offset, f"{operation} {skip}"
        skip += 1


def test_folder_of_an_old_log_is_put_aside_and_its_name_is_free() -> None:
    files = disks()
    handed_over(files)
    assert files.exists(PATH)
    files = files.restart("kill")
    manager = started(files, A)
    assert manager.is_lost(KEY)
    assert manager.lost.void_folders(KEY) == [f"{A}/t-0"]
    files = files.restart("kill")
    manager = started(files)
    assert marks(files, A) == ["stray"]
    assert not manager.is_lost(KEY)
    assert read_whole(files, PATH) == b""
    # Back to where it came from.
    log = manager.logs[KEY]
    future = manager.futures.create(log, manager.directories[0], 0)
    copy(log, future, log.log_end_offset)
    assert swap(manager, log) == [None]
    assert started(files.restart("lost")).logs[KEY].folder == f"{A}/t-0"


def test_old_log_gives_way_to_one_that_is_filled_from_another_replica() -> None:
    files = disks()
    handed_over(files)
    files = files.restart("kill")
    log = started(files, A).get_or_create(KEY, TOPIC_ID, now_ms=0)
    append_as_leader(log, batch(2), leader_epoch=9, now_ms=0)
    assert started(files.restart("kill"), A).logs[KEY].log_end_offset == 2


def test_old_log_of_a_topic_that_was_deleted_is_in_nobodys_way() -> None:
    files = disks()
    handed_over(files)
    files = files.restart("kill")

    def is_ours(_: object, topic_id: object) -> bool:
        return topic_id != TOPIC_ID

    manager = started(files, A, is_ours=is_ours)
    assert not manager.is_lost(KEY)
    assert marks(files, A) == ["stray"]
    assert read_whole(files, PATH) == b""


def test_folder_that_is_no_log_yet_is_not_taken_for_one_without_the_disk_with_the_log() -> None:
    files = disks()
    manager = started(files)
    files.faults = [Fault("create", f"{A}/t-0/", skip=1)]
    assert manager.get_or_create(KEY, TOPIC_ID, now_ms=0).directory.path == B
    files.faults = []
    manager = started(files.restart("kill"), A)
    assert KEY not in manager.logs
    assert manager.is_lost(KEY)


def test_nothing_takes_the_place_of_a_log_if_that_cannot_be_noted() -> None:
    files = disks()
    manager = started(files)
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    files.faults = [Fault("rename", A), Fault("create", "/m", errno.ENOSPC)]
    (error,) = swap(manager, source)
    assert isinstance(error, StorageError)
    assert PATH in str(error)
    assert manager.futures.get(KEY) is future


@pytest.mark.parametrize(
    "fault", [Fault("create", PATH, errno.EMFILE), Fault("sync_directory", A, errno.EMFILE, skip=1)]
)
@pytest.mark.parametrize("is_copy", [True, False])
def test_log_that_comes_to_where_an_old_one_was_counts(fault: Fault, is_copy: bool) -> None:
    """Though the note could not be dropped when the folder of the old one was put aside."""
    files = disks()
    handed_over(files)
    files = files.restart("kill")
    files.faults = [replace(fault)]
    manager = started(files)
    assert marks(files, A) == ["stray"]
    assert read_whole(files, PATH) != b""
    (directory, _), refusal = manager.directories, Fault("create", PATH, errno.EMFILE)
    if is_copy:
        source = manager.logs[KEY]
        for faults, error in (([refusal], ShortageError), ([], type(None))):
            copy(source, manager.futures.create(source, directory, 0), source.log_end_offset)
            files.faults = list(faults)
            ends = swap(manager, source)
            assert [type(each) for each in ends] == [error]
            give_up(manager, source, ends)
    else:
        del manager.logs[KEY], manager.directories[1].logs[KEY]
        files.faults = [replace(refusal, times=2)]
        with pytest.raises(ShortageError):
            manager.get_or_create(KEY, TOPIC_ID, 0, directory_id=IDS[A])
        manager.get_or_create(KEY, TOPIC_ID, 0, directory_id=IDS[A])
    assert all(each.is_online for each in manager.directories)
    assert started(files.restart("kill"), A).logs[KEY].folder == f"{A}/t-0"


def test_promoted_copy_counts_where_an_old_log_was() -> None:
    files = disks()
    manager = started(files)
    source = filled(manager)
    future = manager.futures.create(source, manager.directories[1], 0)
    copy(source, future, RECORDS)
    future.flush(0)
    manager.delete([KEY], 0)
    manager.void.note(KEY, TOPIC_ID, manager.directories[1])
    files.faults = [Fault("create", PATH, errno.EMFILE)]
    with pytest.raises(ShortageError):
        manager.futures.promote(KEY)
    assert manager.futures.promote(KEY).folder == f"{B}/t-0"
    assert started(files.restart("lost")).logs[KEY].folder == f"{B}/t-0"


def test_damaged_notes_are_reported_and_unreadable_ones_end_the_start() -> None:
    files, reports = disks(), list[str]()
    notes = VoidLogs(files)
    notes.load(reports.append)
    assert reports == []
    notes.path = PATH
    write_atomically(files, PATH, b"t 0 nonsense\n")
    notes.load(reports.append)
    (text,) = reports
    assert text.startswith(PATH)
    assert not notes.notes
    files.faults = [Fault("open", PATH)]
    with pytest.raises(StorageError, match=PATH):
        notes.load(reports.append)


def test_notes_are_read_as_they_were_written() -> None:
    files = disks()
    notes = VoidLogs(files)
    notes.path = PATH
    for number, topic_id in enumerate((TOPIC_ID, None)):
        directory = LogDirectory(files, A, uuid(900 + number))
        notes.note(KEY, topic_id, directory, "t-0.12-future")
        notes.note(KEY, topic_id, directory, "t-0.12-future")
    # A directory without an id cannot be told from another one.
    notes.note(KEY, TOPIC_ID, LogDirectory(files, B))
    again = VoidLogs(files)
    again.path = PATH
    again.load(pytest.fail)
    assert again.notes == notes.notes
    assert len(again.notes) == 2
    assert again.has(KEY, uuid(900), TOPIC_ID)
    assert again.has(KEY, uuid(900), None)
    assert not again.has(KEY, uuid(900), uuid(6))
    assert again.has(KEY, uuid(901), uuid(6))
    assert not again.has(KEY, uuid(902), TOPIC_ID)
    assert again.has_copy(KEY, "t-0.12-future")
    assert not again.has_copy(KEY, "t-0.13-future")
