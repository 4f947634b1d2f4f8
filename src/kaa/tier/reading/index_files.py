"""Indexes of remote segments on disk, so that a restart, or a small memory, asks the store no more.

As Kafka keeps them: in `remote-log-index-cache` of the first log directory, a file each::

    <first offset>_<segment id>.index
                               .timeindex
                               .txnindex      empty where the segment has none

A JVM broker on the same directory goes on with what Kaa left there, and the other way round. All
files together have at most `remote.log.index.file.cache.total.size.bytes`; the least used goes
first. A file appears whole or not at all. What another program, or a failing disk, has changed
since is found by the checksum in the segment's metadata, and where there is none by its length,
and then is fetched again. No error of the disk is one of the reader: it is reported, and the store
is asked.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.log.files import read_whole, unlink_if_exists, write_atomically
from kaa.tier.reading.indexes import ENTRY_BYTES
from kaa.tier.store.layout import Part
from kaa.tier.store.segments import DamagedObjectError, compare
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from kaa.log.files import Files
    from kaa.tier.metadata.model import SegmentMetadata

FOLDER: Final = "remote-log-index-cache"
_NAME: Final = re.compile(r"\d+_([a-zA-Z0-9_-]{22})(\.index|\.timeindex|\.txnindex)")


class _Key(NamedTuple):
    segment_id: Uuid
    part: Part


class _Kept(NamedTuple):
    name: str
    size_bytes: int


class IndexFiles:
    """Keeps indexes of remote segments in a folder. `load` once before anything else; a failing
    disk never raises.
    """

    def __init__(
        self,
        log_dir: str,
        files: Files,
        executor: Executor,
        bytes_max: Callable[[], int],
        report: Callable[[str], None],
    ) -> None:
        self._log_dir = log_dir
        self._folder = f"{log_dir}/{FOLDER}"
        self._files = files
        self._executor = executor
        self._bytes_max = bytes_max
        self._report = report
        # The least used first.
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._size = 0
        # What is done to the files, one after the other.
        self._lock = asyncio.Lock()
        self._is_failing = False

    @property
    def size_bytes(self) -> int:
        return self._size

    async def load(self) -> None:
        """Finds what is there, and removes what a crash left."""
        async with self._lock:
            for key, kept in await self._run(self._found) or ():
                self._note(key, kept)
            await self._make_room()

    async def read(self, segment: SegmentMetadata, part: Part) -> bytes | None:
        """The index; None if it has to be fetched."""
        key = _Key(segment.segment_id, part)
        async with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            self._kept.move_to_end(key)
            data = await self._run(read_whole, self._files, self._path(kept))
            if data is not None and _is_sound(segment, part, data):
                return bytes(data)
            await self._remove([key])
            return None

    async def keep(self, segment: SegmentMetadata, part: Part, data: bytes) -> None:
        """From now on it is read from here."""
        if part not in ENTRY_BYTES or len(data) > self._bytes_max():
            return
        name = f"{segment.start_offset}_{segment.segment_id}{part.value}"
        kept = _Kept(name, len(data))
        async with self._lock:
            if await self._run(self._write, self._path(kept), data):
                self._note(_Key(segment.segment_id, part), kept)
                await self._make_room()

    async def drop(self, segment_id: Uuid) -> None:
        """A segment is deleted."""
        async with self._lock:
            keys = (_Key(segment_id, part) for part in ENTRY_BYTES)
            await self._remove([key for key in keys if key in self._kept])

    def _note(self, key: _Key, kept: _Kept) -> None:
        before = self._kept.pop(key, None)
        self._size += kept.size_bytes - (before.size_bytes if before else 0)
        self._kept[key] = kept

    async def _make_room(self) -> None:
        excess = self._size - self._bytes_max()
        dropped = []
        for key, kept in self._kept.items():
            if excess <= 0:
                break
            excess -= kept.size_bytes
            dropped.append(key)
        await self._remove(dropped)

    async def _remove(self, keys: list[_Key]) -> None:
        paths = []
        for key in keys:
            kept = self._kept.pop(key)
            self._size -= kept.size_bytes
            paths.append(self._path(kept))
        if paths:
            await self._run(self._unlink, paths)

    # --- on a thread

    async def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        try:
            done = await loop.run_in_executor(self._executor, work, *arguments)
        except OSError as error:
            if not self._is_failing:
                self._report(f"indexes of remote segments are not kept in {self._folder}: {error}")
            self._is_failing = True
            return None
        self._is_failing = False
        return done

    def _found(self) -> list[tuple[_Key, _Kept]]:
        if not self._files.exists(self._folder):
            return []
        found = []
        for name in self._files.list_directory(self._folder):
            path = f"{self._folder}/{name}"
            match = _NAME.fullmatch(name)
            if match is None:
                unlink_if_exists(self._files, path)
                continue
            kept = _Kept(name, self._files.size(path))
            key = _Key(Uuid.parse(match[1]), Part(match[2]))
            found.append((self._files.modified_ms(path), key, kept))
        return [(key, kept) for _, key, kept in sorted(found, key=lambda one: one[0])]

    def _write(self, path: str, data: bytes) -> bool:
        if not self._files.exists(self._folder):
            if not self._files.is_directory(self._log_dir):
                # One that is missing must not come back empty.
                raise FileNotFoundError(errno.ENOENT, "the log directory is missing")
            self._files.make_directory(self._folder)
        write_atomically(self._files, path, data)
        return True

    def _unlink(self, paths: list[str]) -> None:
        for path in paths:
            unlink_if_exists(self._files, path)

    def _path(self, kept: _Kept) -> str:
        return f"{self._folder}/{kept.name}"


def _is_sound(segment: SegmentMetadata, part: Part, data: bytes) -> bool:
    try:
        compare(segment, part, data)
    except DamagedObjectError:
        return False
    return len(data) % ENTRY_BYTES[part] == 0
