"""What can go wrong with a log, split by who has to act on it."""

from __future__ import annotations

import errno
from typing import Final

from kaa.records.errors import CorruptRecordsError
from kaa.wire.errors import Errors

_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE})


class LogError(Exception):
    """A refused operation; `error` is the code its sender gets. The log is unchanged."""

    def __init__(self, error: Errors, message: str) -> None:
        super().__init__(message)
        self.error = error


class StorageError(LogError):
    """The directory of the log is offline: the operation cannot be done here, and never again."""

    def __init__(self, message: str) -> None:
        super().__init__(Errors.KAFKA_STORAGE_ERROR, message)


class ShortageError(StorageError):
    """Too many files are open for the operation, which may be tried again. Nothing was changed."""


class DamagedLogError(LogError, CorruptRecordsError):
    """What is stored cannot be read there: it costs its readers the partition, and nobody else."""

    def __init__(self, message: str) -> None:
        super().__init__(Errors.CORRUPT_MESSAGE, message)


class CorruptFileError(Exception):
    """A file does not hold what its format demands. Its readers know how to do without."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def is_shortage(error: OSError) -> bool:
    """Whether a file could not be opened because too many are open, which says nothing of the
    disk, and passes.
    """
    return error.errno in _SHORTAGES


def error_text(error: OSError) -> str:
    """The file and what the system says of it, without numbers."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename} ({error.strerror})"
