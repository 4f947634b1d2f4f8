"""The file system as the log sees it: a Protocol and its real implementation.

Everything in `kaa.log` that touches a disk goes through `Files` and `File`, so that the same
code runs on the in-memory twin (`kaa.log.sim_files`), which loses, tears and refuses writes on
demand. The contract that both keep, and that the crash tests rely on:

* Positions are explicit: an open file has no cursor, so a reader never disturbs a writer.
* A write that returns has written everything; one that raises may have written any prefix of it.
* Written data survives a crash of the process. It survives a power cut only after `sync`.
* Creating, renaming and removing names survives a power cut only after `sync_directory` of the
  folder that holds the name. Operations on names of one folder become durable in order.
* A file that is renamed or unlinked stays readable through every handle opened before.
* An error names the file or folder that it is about.

`write_atomically` is the one way small files (checkpoints, properties) are replaced: content
into `<name>.tmp`, sync, rename over the old file, sync of the folder. After a crash at any step
the name holds the whole old or the whole new content; a left-over `.tmp` is ignored by readers
and overwritten by the next writer.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kaa.limits import WRITE_VECTORS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview

TEMPORARY_SUFFIX = ".tmp"
OTHER_FOLDER = "another folder is in its place; was its disk unmounted?"


class File(Protocol):
    """One open file. `descriptor` is what sendfile takes, -1 where there is none."""

    @property
    def descriptor(self) -> int: ...

    @property
    def path(self) -> str:
        """Its name, for messages; it may have another one by now."""
        ...

    def size(self) -> int: ...

    def read(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fills the buffer from `position`, returns how much of it; less only at the end."""
        ...

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Writes all buffers one after the other at `position`; returns their total length."""
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes, or extends it with zeros."""
        ...

    def sync(self) -> None:
        """Makes content and size durable. An error is final: the lost pages are gone."""
        ...

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    """The hold of one process on a log directory, until released or until the process ends."""

    def check_place(self) -> None:
        """OSError if the path leads to another folder by now: what is written there would be
        beside the disk, and be hidden when that is mounted again.
        """
        ...

    def release(self) -> None: ...


class OpenDirectory(Protocol):
    """A folder whose names can be made durable though no more files can be opened."""

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """Names and folders. Paths are plain strings with `/`; errors are `OSError`."""

    def open(self, path: str) -> File:
        """An existing file for reading and writing; FileNotFoundError if there is none."""
        ...

    def create(self, path: str) -> File:
        """An empty file for reading and writing, whatever was there before."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the content was last changed; Kafka falls back on it for retention."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Creates the folder and its parents; does nothing where it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Replaces `target` in one step. Both names are in the same folder."""
        ...

    def unlink(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Removes an empty folder."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def open_directory(self, path: str) -> OpenDirectory:
        """For names that must be made durable once they are changed."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Takes the lock file, creating it; BlockingIOError when somebody else has it."""
        ...


def read_whole(files: Files, path: str) -> bytes:
    file = files.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


def write_new(files: Files, path: str, content: bytes) -> None:
    """Writes a small file in place; a crash may leave any part of it."""
    file = files.create(path)
    try:
        file.write([content], 0)
    finally:
        file.close()


def sync_if_exists(files: Files, path: str) -> None:
    """Makes the content of a file durable, unless somebody has removed it meanwhile."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()


def make_durable_directory(files: Files, path: str) -> None:
    """Creates a folder and its parents so that a power cut leaves their names, too."""
    made = []
    folder = path.rstrip("/")
    while folder and not files.exists(folder):
        made.append(folder)
        folder = folder.rpartition("/")[0]
    files.make_directory(path)
    for folder in reversed(made):
        parent, slash, _ = folder.rpartition("/")
        files.sync_directory(parent or slash or ".")


def write_atomically(files: Files, path: str, content: bytes) -> None:
    """Replaces a small file so that a crash leaves the whole old or the whole new content."""
    temporary = path + TEMPORARY_SUFFIX
    file = files.create(temporary)
    try:
        file.write([content], 0)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(path.rpartition("/")[0])


def unlink_if_exists(files: Files, path: str) -> bool:
    try:
        files.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(files: Files, path: str) -> None:
    """Removes a folder and what it holds. Interrupted, it can be repeated."""
    for name in files.list_directory(path):
        child = f"{path}/{name}"
        if files.is_directory(child):
            remove_tree(files, child)
        else:
            unlink_if_exists(files, child)
    files.remove_directory(path)


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        return self._descriptor

    @property
    def path(self) -> str:
        try:
            return str(Path(f"/proc/self/fd/{self._descriptor}").readlink())
        except OSError:
            return f"file {self._descriptor}"

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, length: int, position: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, position)
            if len(data) == length or not data:
                return data
            parts = [data]
            missing = length - len(data)
            position += len(data)
            while missing and (data := os.pread(self._descriptor, missing, position)):
                parts.append(data)
                missing -= len(data)
                position += len(data)
        except OSError as error:
            raise _named(error, self._descriptor) from None
        return b"".join(parts)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        view = memoryview(buffer)
        done = 0
        try:
            while done < len(view):
                count = os.preadv(self._descriptor, [view[done:]], position + done)
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise _named(error, self._descriptor) from None
        return done

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        if len(buffers) > WRITE_VECTORS_MAX:
            buffers = [b"".join(buffers)]
        total = sum(map(len, buffers))
        try:
            written = os.pwritev(self._descriptor, buffers, position)
            if written != total:
                self._write_rest(buffers, position, written)
        except OSError as error:
            raise _named(error, self._descriptor) from None
        return total

    def _write_rest(self, buffers: Sequence[Buffer], position: int, written: int) -> None:
        """A short write: the disk is nearly full, or a signal came between two pages."""
        rest = memoryview(b"".join(buffers))
        while written < len(rest):
            count = os.pwrite(self._descriptor, rest[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += count

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _named(error, self._descriptor) from None

    def sync(self) -> None:
        try:
            _sync(self._descriptor)
        except OSError as error:
            raise _named(error, self._descriptor) from None

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealDirectoryLock:
    """Two locks on one file: Java's kind keeps a Kafka out, the other a second broker of ours.

    A POSIX record lock is what `FileChannel.tryLock` takes, but it belongs to the process, so a
    second broker in the same process would get it too; `flock` belongs to the open file.
    """

    __slots__ = ("_descriptor", "_folder", "_place")

    def __init__(self, path: str) -> None:
        # The file itself may be removed by hand, which says nothing of the disk.
        self._folder = str(Path(path).parent)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = Path(self._folder).stat()
            self._place = (found.st_dev, found.st_ino)
        except OSError as error:
            os.close(self._descriptor)
            if error.errno in {errno.EACCES, errno.EAGAIN}:
                raise BlockingIOError(error.errno, "the directory is locked", path) from error
            raise

    def check_place(self) -> None:
        found = Path(self._folder).stat()
        if (found.st_dev, found.st_ino) != self._place:
            raise OSError(errno.ESTALE, OTHER_FOLDER, self._folder)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealDirectory:
    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _named(error, self._descriptor) from None

    def close(self) -> None:
        os.close(self._descriptor)


class RealFiles:
    """The operating system's files, without following a link in the last part of a path."""

    def open(self, path: str) -> RealFile:
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return RealFile(os.open(path, os.O_RDWR | flags))
        except PermissionError:
            # Kafka makes metadata snapshots read-only, also for itself.
            return RealFile(os.open(path, os.O_RDONLY | flags))

    def create(self, path: str) -> RealFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        return RealFile(os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(path).st_mode)
        except FileNotFoundError:
            return False

    def size(self, path: str) -> int:
        return Path(path).stat().st_size

    def modified_ms(self, path: str) -> int:
        return Path(path).stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries)

    def make_directory(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        Path(source).replace(target)

    def unlink(self, path: str) -> None:
        Path(path).unlink()

    def remove_directory(self, path: str) -> None:
        Path(path).rmdir()

    def sync_directory(self, path: str) -> None:
        directory = RealDirectory(path)
        try:
            directory.sync()
        finally:
            directory.close()

    def open_directory(self, path: str) -> RealDirectory:
        return RealDirectory(path)

    def lock(self, path: str) -> RealDirectoryLock:
        return RealDirectoryLock(path)


def _named(error: OSError, descriptor: int) -> OSError:
    """The error with the path of the file, which the system does not tell of an open one; an
    operator wants to know which disk is full. Asked only now, since files are renamed.
    """
    if error.filename is None:
        with suppress(OSError):
            error.filename = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            if error.errno in {errno.EBADF, errno.EINVAL} and _is_read_only(descriptor):
                # `open` got no more; the system's words for it would mislead.
                return PermissionError(errno.EACCES, os.strerror(errno.EACCES), error.filename)
    return error


def _is_read_only(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def _sync(descriptor: int) -> None:
    """Data and the size needed to read it. macOS has no fdatasync, and fsync stops at the drive."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    elif hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
