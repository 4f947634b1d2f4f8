"""Moves that were cancelled while the disk of their copy was away.

The folder of a copy is all that is kept of a move, and a broker that finds one goes on with it. So
that a cancelled move does not come back with its disk, there is an empty file `move-cancelled` in
the folder of the log that stays: whatever copies of it are found are void. No move begins while a
directory is offline, so that none of them is newer than the file; and when all directories are
there, the copies go, durably, and the file after them. Kafka does not know it, and goes on with the
move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.files import unlink_if_exists
from kaa.log.names import MOVE_CANCELLED_FILE

if TYPE_CHECKING:
    from kaa.log.dirs import LogDirectory
    from kaa.log.log import UnifiedLog


def void_copies(log: UnifiedLog) -> None:
    """Notes that no copy of a log counts, wherever it is. StorageError."""
    if log.is_move_cancelled:
        return
    files = log.directory.files
    try:
        files.create(f"{log.folder}/{MOVE_CANCELLED_FILE}").close()
        files.sync_directory(log.folder)
    except OSError as error:
        raise log.directory.fail_unless_short(error) from error
    log.is_move_cancelled = True


def copies_are_gone(log: UnifiedLog, directories: list[LogDirectory]) -> None:
    """The copies have got other names in all directories there are. StorageError."""
    for directory in directories:
        try:
            directory.files.sync_directory(directory.path)
        except OSError as error:
            raise directory.fail_unless_short(error) from error
    with log.storage():
        unlink_if_exists(log.directory.files, f"{log.folder}/{MOVE_CANCELLED_FILE}")
    log.is_move_cancelled = False
