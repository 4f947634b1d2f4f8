"""The in-memory twin of the file system, with crashes, power cuts and failing disks.

A process that is killed loses nothing it has written. A power cut is modelled at page granularity,
as unkindly as a journaling file system with write-back caching may behave:

* Of the pages (4 KiB) written since the last sync of their file, each one is on disk, or not, or
  torn: some of its 512-byte sectors are new, the others old. A page that never reached the disk
  reads as zeros where the file had grown over it.
* The size of the file is the one of the last sync, the newest, or anything in between.
* Of the operations on names in one folder since its last sync, a prefix survives, in order.

A disk may also lie: while `loses_sync` says so for a path, a sync of it returns and does nothing.

`crash_at` stops the world at the N-th changing operation: a write then leaves any prefix of its
bytes, and from that moment every operation raises `CrashError`, so that no clean-up code can
touch the disk after death. `restart` gives the file system as the next process finds it.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Literal

from kaa.log.files import OTHER_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.log.files import Buffer

PAGE_BYTES = 4096
SECTOR_BYTES = 512

Operation = Literal[
    "create", "write", "truncate", "sync", "rename", "unlink", "mkdir", "rmdir", "sync_directory"
]
Inspection = Literal["open", "open_directory", "read", "size", "list"]
"""What changes nothing: it may fail, and no crash comes of it."""
CrashMode = Literal["kill", "lost", "torn"]
"""What a crash leaves: all that was written, only what was synced, or anything in between."""


class CrashError(BaseException):
    """The simulated process is dead. Not an Exception, so that nothing handles it by accident."""


@dataclass(slots=True)
class Fault:
    """An error that the disk returns for matching operations, `skip` of them left alone first."""

    operation: Operation | Inspection
    path_part: str
    errno: int = errno.EIO
    skip: int = 0
    times: int = 1


class _Inode:
    """Content of one file: what the process sees and what a power cut would leave."""

    __slots__ = ("data", "dirty_pages", "durable", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.dirty_pages: set[int] = set()
        self.modified_ms = modified_ms

    def write(self, content: Buffer, position: int) -> None:
        end = position + len(content)
        if position > len(self.data):
            self.dirty_pages.update(range(len(self.data) // PAGE_BYTES, position // PAGE_BYTES + 1))
            self.data.extend(bytes(position - len(self.data)))
        self.data[position:end] = content
        if content:
            self.dirty_pages.update(range(position // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1))

    def truncate(self, size: int) -> None:
        if size <= len(self.data):
            del self.data[size:]
            self.dirty_pages.add(size // PAGE_BYTES)
        else:
            self.write(bytes(size - len(self.data)), len(self.data))

    def sync(self) -> None:
        del self.durable[len(self.data) :]
        for page in sorted(self.dirty_pages):
            start = page * PAGE_BYTES
            chunk = self.data[start : start + PAGE_BYTES]
            self.durable.extend(bytes(max(0, start - len(self.durable))))
            self.durable[start : start + len(chunk)] = chunk
        self.durable.extend(self.data[len(self.durable) :])
        self.dirty_pages.clear()

    def after_crash(self, mode: CrashMode, random: Random) -> _Inode:
        found = _Inode(self.modified_ms)
        found.data = self._surviving(mode, random)
        found.durable = bytearray(found.data)
        return found

    def _surviving(self, mode: CrashMode, random: Random) -> bytearray:
        if mode == "kill":
            return bytearray(self.data)
        if mode == "lost" or not self.dirty_pages:
            return bytearray(self.durable)
        sizes = sorted((len(self.durable), len(self.data)))
        size = random.choice((*sizes, random.randint(*sizes)))
        content = bytearray(self.durable[:size])
        content.extend(bytes(size - len(content)))
        for page in sorted(self.dirty_pages):
            start, stop = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, size, len(self.data))
            fate = random.choice(("old", "new", "torn"))
            for sector in range(start, stop, SECTOR_BYTES):
                if fate == "new" or (fate == "torn" and random.random() < 0.5):
                    end = min(sector + SECTOR_BYTES, stop)
                    content[sector:end] = self.data[sector:end]
        return content


class _Directory:
    """Names of one folder, those that survive a power cut, and the operations between the two."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}
        self.pending: list[tuple[str, str, _Inode | _Directory | None]] = []

    def put(self, name: str, node: _Inode | _Directory) -> None:
        self._apply(self.names, ("", name, node))
        self.pending.append(("", name, node))

    def remove(self, name: str) -> None:
        self._apply(self.names, (name, "", None))
        self.pending.append((name, "", None))

    def move(self, source: str, target: str) -> None:
        operation = (source, target, self.names[source])
        self._apply(self.names, operation)
        self.pending.append(operation)

    @staticmethod
    def _apply(
        names: dict[str, _Inode | _Directory],
        operation: tuple[str, str, _Inode | _Directory | None],
    ) -> None:
        gone, come, node = operation
        names.pop(gone, None)
        if node is not None:
            names[come] = node

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def after_crash(self, mode: CrashMode, random: Random) -> _Directory:
        surviving = dict(self.durable)
        kept = {"kill": len(self.pending), "lost": 0}.get(mode)
        for operation in self.pending[
            : random.randint(0, len(self.pending)) if kept is None else kept
        ]:
            self._apply(surviving, operation)
        found = _Directory()
        found.names = {name: node.after_crash(mode, random) for name, node in surviving.items()}
        found.durable = dict(found.names)
        return found


class SimFile:
    """An open handle; it stays valid when its file is renamed or unlinked."""

    __slots__ = ("_closed", "_files", "_inode", "path")

    descriptor = -1

    def __init__(self, files: SimFiles, path: str, inode: _Inode) -> None:
        self._files = files
        self.path = path
        self._inode = inode
        self._closed = False
        files.handles[self] = path

    def size(self) -> int:
        self._files.inspect("size", self.path)
        return len(self._alive().data)

    def read(self, length: int, position: int) -> bytes:
        self._files.inspect("read", self.path)
        return bytes(memoryview(self._alive().data)[position : position + length])

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        self._files.inspect("read", self.path)
        with memoryview(self._alive().data) as data:
            chunk = data[position : position + len(buffer)]
            memoryview(buffer)[: len(chunk)] = chunk
            return len(chunk)

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        inode = self._alive()
        content = b"".join(buffers)
        try:
            self._files.step("write", self.path)
            self._files.take_space(inode, self.path, position, len(content))
        except (CrashError, OSError):
            inode.write(content[: self._files.random.randint(0, len(content))], position)
            raise
        inode.write(content, position)
        inode.modified_ms = self._files.now_ms
        return len(content)

    def truncate(self, size: int) -> None:
        inode = self._alive()
        self._files.step("truncate", self.path)
        inode.truncate(size)
        inode.modified_ms = self._files.now_ms

    def sync(self) -> None:
        inode = self._alive()
        self._files.step("sync", self.path)
        if not self._files.loses_sync(self.path):
            inode.sync()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._files.handles.pop(self, None)

    def _alive(self) -> _Inode:
        if self._files.dead:
            raise CrashError
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._inode


class SimDirectory:
    __slots__ = ("_files", "_path")

    def __init__(self, files: SimFiles, path: str) -> None:
        self._files = files
        self._path = path
        files.handles[self] = path

    def sync(self) -> None:
        self._files.sync_directory(self._path)

    def close(self) -> None:
        del self._files.handles[self]


class SimDirectoryLock:
    __slots__ = ("_files", "_folder", "_path", "_place")

    def __init__(self, files: SimFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._folder = path.rpartition("/")[0]
        self._place = files.node_at(self._folder)

    def check_place(self) -> None:
        if self._files.node_at(self._folder) is not self._place:
            raise OSError(errno.ESTALE, OTHER_FOLDER, self._folder)

    def release(self) -> None:
        self._files.locked.discard(self._path)


class SimFiles:
    """A file system in memory. `crash_at` counts changing operations from 0."""

    def __init__(
        self,
        *,
        seed: int = 0,
        crash_at: int | None = None,
        capacity_bytes: int | None = None,
        now_ms: int = 0,
    ) -> None:
        self.random = Random(seed)
        self.crash_at = crash_at
        self.capacity_bytes = capacity_bytes
        self.now_ms = now_ms
        self.dead = False
        self.handles: dict[SimFile | SimDirectory, str] = {}
        self.locked: set[str] = set()
        self.faults: list[Fault] = []
        self.loses_sync: Callable[[str], bool] = lambda _: False
        self.history: list[tuple[Operation, str]] = []
        self._root = _Directory()

    # --- the simulation

    def restart(self, mode: CrashMode, *, seed: int = 0, crash_at: int | None = None) -> SimFiles:
        """The disk as the next process finds it; this one is dead from now on."""
        self.dead = True
        found = SimFiles(
            seed=seed, crash_at=crash_at, capacity_bytes=self.capacity_bytes, now_ms=self.now_ms
        )
        found._root = self._root.after_crash(mode, Random(seed))
        return found

    def step(self, operation: Operation, path: str) -> None:
        """Counts one changing operation; dies or fails where the plan says so."""
        if self.dead:
            raise CrashError
        number = len(self.history)
        self.history.append((operation, path))
        if self.crash_at is not None and number >= self.crash_at:
            self.dead = True
            raise CrashError
        self._fail(operation, path)

    def inspect(self, operation: Inspection, path: str) -> None:
        """Fails where the plan says so."""
        if self.faults:
            self._fail(operation, path)

    def _fail(self, operation: Operation | Inspection, path: str) -> None:
        for fault in self.faults:
            if fault.operation == operation and fault.path_part in path and fault.times:
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                raise OSError(fault.errno, os.strerror(fault.errno), path)

    def take_space(self, inode: _Inode, path: str, position: int, length: int) -> None:
        growth = position + length - len(inode.data)
        if self.capacity_bytes is not None and growth > self.capacity_bytes - self.used_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def used_bytes(self) -> int:
        def total(node: _Inode | _Directory) -> int:
            if isinstance(node, _Inode):
                return len(node.data)
            return sum(map(total, node.names.values()))

        return total(self._root)

    def flip_bits(self, path: str, position: int, mask: int = 0xFF) -> None:
        """Damage at rest: changes one byte without anybody's knowledge."""
        inode = self._file(path)
        inode.data[position] ^= mask
        if position < len(inode.durable):
            inode.durable[position] ^= mask

    @property
    def open_handles(self) -> int:
        return len(self.handles)

    def open_paths(self) -> list[str]:
        """Of the files that are open, the names by which they were opened."""
        return list(self.handles.values())

    # --- the Protocol

    def open(self, path: str) -> SimFile:
        self.inspect("open", path)
        return SimFile(self, path, self._file(path))

    def create(self, path: str) -> SimFile:
        self.step("create", path)
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            node = _Inode(self.now_ms)
            directory.put(name, node)
        else:
            node.truncate(0)
        return SimFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def size(self, path: str) -> int:
        self.inspect("size", path)
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        self.inspect("size", path)
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def list_directory(self, path: str) -> list[str]:
        self.inspect("list", path)
        return sorted(self._directory(path).names)

    def make_directory(self, path: str) -> None:
        directory = self._root
        for part in filter(None, path.split("/")):
            node = directory.names.get(part)
            if node is None:
                self.step("mkdir", path)
                node = _Directory()
                directory.put(part, node)
            if not isinstance(node, _Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            directory = node

    def rename(self, source: str, target: str) -> None:
        directory, source_name = self._parent(source)
        other, target_name = self._parent(target)
        assert directory is other, "a rename stays within its folder"
        self.step("rename", target)
        if source_name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        directory.move(source_name, target_name)

    def unlink(self, path: str) -> None:
        self.step("unlink", path)
        self._file(path)
        directory, name = self._parent(path)
        directory.remove(name)

    def remove_directory(self, path: str) -> None:
        self.step("rmdir", path)
        if self._directory(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        directory, name = self._parent(path)
        directory.remove(name)

    def sync_directory(self, path: str) -> None:
        self.step("sync_directory", path)
        if not self.loses_sync(path):
            self._directory(path).sync()

    def open_directory(self, path: str) -> SimDirectory:
        self.inspect("open_directory", path)
        self._directory(path)
        return SimDirectory(self, path)

    def lock(self, path: str) -> SimDirectoryLock:
        if path in self.locked:
            raise BlockingIOError(errno.EAGAIN, "the directory is locked", path)
        if not self.exists(path):
            self.create(path).close()
        self.locked.add(path)
        return SimDirectoryLock(self, path)

    # --- names

    def node_at(self, path: str) -> object:
        """What has the name, to compare; None if nothing has."""
        return self._find(path)

    def _find(self, path: str) -> _Inode | _Directory | None:
        if self.dead:
            raise CrashError
        node: _Inode | _Directory = self._root
        for part in filter(None, path.split("/")):
            if not isinstance(node, _Directory) or part not in node.names:
                return None
            node = node.names[part]
        return node

    def _file(self, path: str) -> _Inode:
        node = self._find(path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, _Inode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        folder, _, name = path.rstrip("/").rpartition("/")
        return self._directory(folder), name
