"""The note that copies of a log are void."""

from __future__ import annotations

import errno

import pytest

from kaa.log.cancelled_moves import copies_are_gone, void_copies
from kaa.log.errors import ShortageError, StorageError
from kaa.log.names import MOVE_CANCELLED_FILE
from kaa.log.sim_files import Fault
from tests.unit.log.logs import new_disk, new_log, reload


def test_copies_are_void_until_they_are_gone_whatever_happens() -> None:
    files = new_disk()
    log = new_log(files)
    log.flush(now_ms=0)
    void_copies(log)
    files = files.restart("lost")
    log = reload(files)
    assert log.is_move_cancelled
    copies_are_gone(log, [log.directory])
    assert not reload(files.restart("kill")).is_move_cancelled


def test_the_note_waits_for_names_that_cannot_be_made_durable() -> None:
    files = new_disk()
    log = new_log(files)
    void_copies(log)
    files.faults.append(Fault("sync_directory", log.directory.path, errno.EIO))
    with pytest.raises(StorageError):
        copies_are_gone(log, [log.directory])
    assert files.exists(f"{log.folder}/{MOVE_CANCELLED_FILE}")


def test_too_many_open_files_cost_the_request_alone() -> None:
    files = new_disk()
    log = new_log(files)
    files.faults.append(Fault("create", MOVE_CANCELLED_FILE, errno.EMFILE))
    with pytest.raises(ShortageError):
        void_copies(log)
    assert not log.is_move_cancelled
    assert log.directory.is_online
