"""The note of the directories in which copies of a log are void."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kaa.log.cancelled_moves import copies_are_gone, is_void, void_copies
from kaa.log.dirs import LogDirectory
from kaa.log.errors import ShortageError, StorageError
from kaa.log.names import MOVE_CANCELLED_FILE
from kaa.log.sim_files import Fault
from tests.support.ids import uuid
from tests.unit.log.logs import new_disk, new_log, reload

if TYPE_CHECKING:
    from kaa.log.sim_files import SimFiles


def _directory(files: SimFiles, path: str, number: int | None, *, is_away: bool) -> LogDirectory:
    files.make_directory(path)
    directory = LogDirectory(files, path, None if number is None else uuid(number))
    if is_away:
        directory.fail(OSError("away"))
    return directory


@pytest.mark.parametrize("is_id_known", [True, False])
def test_copies_are_void_until_they_are_gone_whatever_happens(is_id_known: bool) -> None:
    files = new_disk()
    log = new_log(files)
    log.flush(now_ms=0)
    others = [
        _directory(files, "/b", 1 if is_id_known else None, is_away=True),
        _directory(files, "/c", 2, is_away=False),
    ]
    void_copies(log, others)
    files = files.restart("lost")
    log = reload(files)
    # It is not in log.dirs any more, and in another place when it is back.
    copies_are_gone(log, [log.directory, _directory(files, "/c", 2, is_away=False)])
    log = reload(files)
    path = "/d" if is_id_known else "/b"
    back = ((path, 1), ("/c", 2))
    there = [log.directory, *(_directory(files, *each, is_away=False) for each in back)]
    assert [is_void(log, each) for each in there] == [False, True, False]
    copies_are_gone(log, there)
    assert not log.cancelled_in
    assert not reload(files.restart("kill")).cancelled_in


def test_the_note_waits_for_names_that_cannot_be_made_durable() -> None:
    files = new_disk()
    log = new_log(files)
    void_copies(log, [_directory(files, "/b", 1, is_away=True)])
    files.faults.append(Fault("sync_directory", "/b", errno.EIO))
    with pytest.raises(StorageError):
        copies_are_gone(log, [_directory(files, "/b", 1, is_away=False)])
    assert files.exists(f"{log.folder}/{MOVE_CANCELLED_FILE}")


def test_too_many_open_files_cost_the_request_alone() -> None:
    files = new_disk()
    log = new_log(files)
    files.faults.append(Fault("create", MOVE_CANCELLED_FILE, errno.EMFILE))
    with pytest.raises(ShortageError):
        void_copies(log, [_directory(files, "/b", 1, is_away=True)])
    assert not log.cancelled_in
    assert log.directory.is_online
