"""What can go wrong with a log, split by who has to act on it."""

from __future__ import annotations

from kaa.wire.errors import Errors


class LogError(Exception):
    """A refused operation; `error` is the code its sender gets. The log is unchanged."""

    def __init__(self, error: Errors, message: str) -> None:
        super().__init__(message)
        self.error = error


class StorageError(LogError):
    """The directory of the log is offline: the operation cannot be done here, and never again."""

    def __init__(self, message: str) -> None:
        super().__init__(Errors.KAFKA_STORAGE_ERROR, message)


class CorruptFileError(Exception):
    """A file does not hold what its format demands. Its readers know how to do without."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def error_text(error: OSError) -> str:
    """The file and what the system says of it, without numbers."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename} ({error.strerror})"
