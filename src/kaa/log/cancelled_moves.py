"""Moves that were cancelled while the disk of their copy was away.

The folder of a copy is all that is kept of a move, and a broker that finds one goes on with it. So
that a cancelled move does not come back with its disk, there is a file `move-cancelled` in the
folder of the log that stays. It names the directories that were offline, one in a line: by id, or
by path where the disk was away since the start, so that nobody could read its id. Copies of that
log that are found there are void. No move begins while a directory is offline, so that none of them
is newer than the file; and when one of the directories is back, whether or not it was taken out of
log.dirs meanwhile, the copies in it go, durably, and its line after them. When the log moves
elsewhere before, the file goes with it. Kafka does not know it, and goes on with the move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.log.files import read_whole, unlink_if_exists, write_atomically
from kaa.log.names import MOVE_CANCELLED_FILE

if TYPE_CHECKING:
    from kaa.log.dirs import LogDirectory
    from kaa.log.files import Files
    from kaa.log.log import UnifiedLog

# A path may have bytes that are not UTF-8.
_AS_NAMED: Final = "surrogateescape"


def read_cancelled(files: Files, folder: str) -> frozenset[str]:
    """The lines of the file, which has to be there. OSError."""
    content = read_whole(files, f"{folder}/{MOVE_CANCELLED_FILE}")
    return frozenset(content.decode(errors=_AS_NAMED).splitlines())


def write_cancelled(log: UnifiedLog, names: frozenset[str]) -> None:
    """OSError is the caller's."""
    files, path = log.directory.files, f"{log.folder}/{MOVE_CANCELLED_FILE}"
    if names:
        lines = "".join(f"{name}\n" for name in sorted(names))
        write_atomically(files, path, lines.encode(errors=_AS_NAMED))
    else:
        unlink_if_exists(files, path)
    log.cancelled_in = names


def is_void(log: UnifiedLog, directory: LogDirectory) -> bool:
    """Whether a copy of the log that is found in a directory is one of a cancelled move."""
    return not log.cancelled_in.isdisjoint(_names(directory))


def _names(directory: LogDirectory) -> set[str]:
    return {str(directory.directory_id), directory.path}


def void_copies(log: UnifiedLog, directories: list[LogDirectory]) -> None:
    """Notes that no copy of a log counts which is in one that is offline. StorageError."""
    offline = {str(each.directory_id or each.path) for each in directories if not each.is_online}
    try:
        write_cancelled(log, log.cancelled_in | offline)
    except OSError as error:
        raise log.directory.fail_unless_short(error) from error


def copies_are_gone(log: UnifiedLog, directories: list[LogDirectory]) -> None:
    """The copies have got other names in all directories that are there. StorageError."""
    back = [each for each in directories if each.is_online and is_void(log, each)]
    for directory in back:
        try:
            directory.files.sync_directory(directory.path)
        except OSError as error:
            raise directory.fail_unless_short(error) from error
    if back:
        with log.storage():
            write_cancelled(log, log.cancelled_in.difference(*map(_names, back)))
