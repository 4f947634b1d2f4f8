"""A segment: a run of batches in one file, with its three indexes.

`<offset>.log` holds record batches one after the other, nothing else. Its name is a lower bound of
its offsets. Only the last segment of a log is written; the others are read, replaced as a whole by
compaction, or deleted.

Appending writes the bytes first; size, index entries and the greatest timestamp follow in memory
(`commit`). A crash in between leaves bytes beyond `size`, which the recovery scan either takes
as the valid batches they are or cuts off. Index entries point at the start of a batch and carry its
last offset, so a reader can tell a damaged index: the batch found there has another last offset.
The index is then rebuilt from the log. The last entries of both indexes, from which the end and the
greatest timestamp of the segment are found, are held against the log as soon as they are loaded.

Readers get a `SegmentRegion`, which counts as a reference. The descriptor is closed when the
segment is closed and the last reference is released, never under a reader.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from errno import ENOENT
from typing import TYPE_CHECKING

from kaa.log.errors import CorruptFileError, LogError
from kaa.log.files import unlink_if_exists
from kaa.log.index import RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from kaa.log.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from kaa.log.scan import find_batch, iter_headers, no_batch, whole_batches_end
from kaa.log.transaction_index import TransactionIndex
from kaa.model.topics import NO_TIMESTAMP
from kaa.records.errors import CorruptRecordsError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaa.log.config import LogConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.errors import StorageError
    from kaa.log.files import Buffer, File, Files
    from kaa.log.scan import AnyStoredBatch, BatchExtent

_NOT_LOADED = -2


class SegmentRegion:
    """Whole batches of a segment, for sendfile or for reading. Release it exactly once."""

    __slots__ = ("_descriptor", "_directory", "length", "position", "release", "segment")

    def __init__(
        self, directory: LogDirectory, segment: Segment, position: int, length: int
    ) -> None:
        segment.references += 1
        self._directory = directory
        # Of the segment's file, which stays open as long as it is referred to.
        self._descriptor: int | None = None
        self.segment = segment
        self.position = position
        self.length = length
        self.release = segment.release

    @property
    def descriptor(self) -> int:
        """For sendfile; -1 if the file is in memory. StorageError if it cannot be opened."""
        if self._descriptor is None:
            try:
                self._descriptor = self.segment.file.descriptor
            except OSError as error:
                raise self.failed(error) from error
        return self._descriptor

    def __len__(self) -> int:
        return self.length

    def read(self, length: int | None = None, offset: int = 0) -> bytes:
        """Bytes of the region from `offset` on, to its end if no length is given; on any thread.
        StorageError if the disk does not give them.
        """
        rest = self.length - offset
        length = rest if length is None else min(length, rest)
        try:
            return self.segment.file.read(length, self.position + offset)
        except OSError as error:
            raise self.failed(error) from error

    def read_into(self, buffer: memoryview) -> None:
        """Fills a buffer of the region's length; likewise. LogError if the log has been cut."""
        try:
            count = self.segment.file.read_into(buffer, self.position)
        except OSError as error:
            raise self.failed(error) from error
        if count < self.length:
            raise LogError(Errors.REPLICA_NOT_AVAILABLE, "the log was cut while it was read")

    def failed(self, error: OSError) -> StorageError:
        """The bytes could not be read, which takes the directory offline, unless it is that there
        are too many open files. Returns the error to raise.
        """
        return self._directory.fail_unless_short(error)


class Segment:
    """One segment on disk. Indexes and descriptor are opened at their first use."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_closed",
        "_damage",
        "_file",
        "_files",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_time_index",
        "base_offset",
        "config",
        "created_ms",
        "folder",
        "is_new",
        "is_synced",
        "jitter_ms",
        "references",
        "size",
        "suffix",
        "transaction_index",
    )

    def __init__(
        self,
        files: Files,
        folder: str,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str = "",
        created_ms: int = 0,
        jitter_ms: int = 0,
    ) -> None:
        self._files = files
        self.config = config
        self.folder = folder
        self.base_offset = base_offset
        # What follows the usual names: "", ".cleaned", ".swap" or ".deleted".
        self.suffix = suffix
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        # Bytes of batches. The file may be longer, by what is being written or preallocated.
        self.size = 0
        self.references = 0
        # Whether its name may still be lost: the folder was not synced since it was created.
        self.is_new = False
        # Whether data and indexes are on stable storage, all of them.
        self.is_synced = False
        self._file: File | None = None
        self._closed = False
        # Where the log was found to be damaged when its indexes were to be rebuilt.
        self._damage: str | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self.transaction_index = TransactionIndex(
            files, self.path(TRANSACTION_INDEX_SUFFIX), base_offset
        )
        self._bytes_since_index_entry = 0
        self._first_timestamp: int | None = None
        self._max_timestamp = _NOT_LOADED
        self._max_timestamp_offset = base_offset

    # --- life

    @classmethod
    def create(
        cls,
        files: Files,
        folder: str,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str = "",
        created_ms: int = 0,
        jitter_ms: int = 0,
    ) -> Segment:
        """A new, empty segment; files of an earlier one with the same name are gone."""
        segment = cls(
            files,
            folder,
            base_offset,
            config,
            suffix=suffix,
            created_ms=created_ms,
            jitter_ms=jitter_ms,
        )
        segment._file = files.create(segment.path(LOG_SUFFIX))
        try:
            if config.preallocate and not suffix:
                segment._file.truncate(config.segment_bytes)
            segment._new_indexes()
            segment.transaction_index.reset()
        except OSError:
            segment.close()
            raise
        segment._max_timestamp = NO_TIMESTAMP
        segment.is_new = True
        return segment

    @classmethod
    def load(cls, files: Files, folder: str, base_offset: int, config: LogConfig) -> Segment:
        """A segment that is there; its content is looked at when needed."""
        segment = cls(files, folder, base_offset, config)
        path = segment.path(LOG_SUFFIX)
        segment.size = files.size(path)
        segment.created_ms = files.modified_ms(path)
        return segment

    def path(self, suffix: str) -> str:
        return f"{self.folder}/{file_name(self.base_offset, suffix)}{self.suffix}"

    @property
    def file(self) -> File:
        if self._file is None:
            path = self.path(LOG_SUFFIX)
            if self._closed and not self.references:
                # Nobody would close it again.
                raise FileNotFoundError(ENOENT, "the log was closed", path)
            self._file = self._files.open(path)
        return self._file

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._load_indexes()
            assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
            assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        offset_index, time_index = self._index_objects()
        try:
            offset_index.load()
            time_index.load()
        except (CorruptFileError, FileNotFoundError):
            self._build_indexes()
            return
        try:
            is_sound = self._has_sound_indexes(offset_index, time_index)
        finally:
            offset_index.close()
            time_index.close()
        if not is_sound:
            # If the log is what is damaged, they are good for what can be read of it.
            with suppress(CorruptRecordsError):
                self.rebuild_indexes()
                return
        self._offset_index, self._time_index = offset_index, time_index

    def _has_sound_indexes(self, offset_index: OffsetIndex, time_index: TimeIndex) -> bool:
        """Whether the last entry of each leads to the batch that it was written for."""
        try:
            if offset_index.entries:
                relative, position = offset_index.entry(offset_index.entries - 1)
                if relative < 0 or not 0 <= position < self.size:
                    return False
                last_offset = offset_index.last_offset
                find_batch(self.file, position, self.size, last_offset, last_offset)
            if time_index.entries:
                return self._leads_to_its_time(offset_index, time_index)
        except CorruptRecordsError:
            return False
        return True

    def _leads_to_its_time(self, offset_index: OffsetIndex, time_index: TimeIndex) -> bool:
        _, position = offset_index.lookup(time_index.last_offset)
        extent = find_batch(self.file, position, self.size, time_index.last_offset)
        return (
            extent is not None
            and time_index.last_offset >= self.base_offset
            and self._batch_at(extent.position).max_timestamp == time_index.last_timestamp
        )

    def _index_objects(self) -> tuple[OffsetIndex, TimeIndex]:
        bytes_max = self.config.segment_index_bytes
        offset_path, time_path = self.path(OFFSET_INDEX_SUFFIX), self.path(TIME_INDEX_SUFFIX)
        return (
            OffsetIndex(self._files, offset_path, self.base_offset, bytes_max),
            TimeIndex(self._files, time_path, self.base_offset, bytes_max),
        )

    def _new_indexes(self) -> None:
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close()
        self._offset_index, self._time_index = self._index_objects()
        self._offset_index.create()
        self._time_index.create()

    def rebuild_indexes(self) -> None:
        """Builds offset and time index from the log, for a damaged one. CorruptRecordsError if it
        is the log that is damaged; they stay as they are.
        """
        if self._damage is None:
            try:
                self._walk_from(0)
            except CorruptRecordsError as error:
                # So that not every read of a damaged segment walks over all of it.
                self._damage = str(error)
        if self._damage is not None:
            raise CorruptRecordsError(self._damage)
        self._build_indexes()

    def _build_indexes(self) -> None:
        """From the batches before the first one that is damaged."""
        end = self.size
        self.reset_indexes()
        self.size = 0
        next_offset = self.base_offset
        try:
            for batch in iter_headers(self.file, 0, end):
                if not self.can_hold(max(batch.base_offset, next_offset), batch.last_offset):
                    break
                next_offset = batch.next_offset
                self.commit(((batch.last_offset, batch.max_timestamp, batch.size_in_bytes),))
        except CorruptRecordsError:
            pass
        finally:
            self.size = end
        self.seal()

    def reset_indexes(self) -> None:
        """Starts the offset and time index over; what is committed from now on fills them."""
        self._new_indexes()
        self._bytes_since_index_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps the files open for work that comes in steps, whatever happens between them."""
        self.references += 1
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Gives back a reference."""
        assert self.references > 0
        self.references -= 1
        if self._closed:
            self.rest()

    def close(self) -> None:
        """Closes all files, as soon as nobody reads or syncs them."""
        self._closed = True
        self.rest()

    def rest(self) -> None:
        """Closes the descriptors of a segment that nobody is using; the next use opens them."""
        if self.references:
            return
        for part in (self._file, self._offset_index, self._time_index, self.transaction_index):
            if part is not None:
                part.close()
        self._file = None

    def rename(self, suffix: str) -> None:
        """Changes what follows the names of all files, the log first.

        Recovery decides by the log file; indexes without their log are rubbish to it.
        """
        old_paths = [self.path(kind) for kind in SEGMENT_SUFFIXES]
        self.suffix = suffix
        for old_path, kind in zip(old_paths, SEGMENT_SUFFIXES, strict=True):
            if kind == LOG_SUFFIX or self._files.exists(old_path):
                self._files.rename(old_path, self.path(kind))
        self._follow_paths()

    def set_folder(self, folder: str) -> None:
        """Follows a rename of the folder. Open descriptors stay valid."""
        self.folder = folder
        self._follow_paths()

    def _follow_paths(self) -> None:
        self.transaction_index.path = self.path(TRANSACTION_INDEX_SUFFIX)
        if self._offset_index is not None:
            self._offset_index.path = self.path(OFFSET_INDEX_SUFFIX)
        if self._time_index is not None:
            self._time_index.path = self.path(TIME_INDEX_SUFFIX)

    def delete(self) -> None:
        """Removes the files; readers keep what they have open."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            unlink_if_exists(self._files, self.path(suffix))

    # --- appending

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Writes after the last batch. Only a system call, so it may run on another thread."""
        self.file.write(buffers, self.size)

    def commit(self, batches: Iterable[tuple[int, int, int]]) -> None:
        """Makes written batches part of the segment: (last offset, max timestamp, size) each."""
        position = self.size
        for last_offset, max_timestamp, size in batches:
            if max_timestamp > self.max_timestamp:
                self._max_timestamp = max_timestamp
                self._max_timestamp_offset = last_offset
            if self._first_timestamp is None:
                self._first_timestamp = max_timestamp
            if self._bytes_since_index_entry > self.config.index_interval_bytes:
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
                self._bytes_since_index_entry = 0
            self._bytes_since_index_entry += size
            position += size
        self.size = position
        self.is_synced = False

    def can_hold(self, base_offset: int, last_offset: int) -> bool:
        """Whether a batch of these offsets can be in this segment and its indexes."""
        return (
            self.base_offset
            <= base_offset
            <= last_offset
            <= self.base_offset + (RELATIVE_OFFSET_MAX)
        )

    def should_roll(self, now_ms: int, size: int, max_timestamp: int, last_offset: int) -> bool:
        """Whether batches of `size` bytes belong into a new segment."""
        if self.size > self.config.segment_bytes - size:
            return True
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if self.size > 0:
            # By record timestamps; by the clock where records have none.
            first = self.first_timestamp
            age_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
            if age_ms > self.config.segment_age_ms_max - self.jitter_ms:
                return True
        return self.offset_index.is_full or self.time_index.is_full

    def seal(self) -> None:
        """Completes the indexes when nothing will be appended any more."""
        self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
        self.offset_index.flush()
        self.time_index.flush()
        if self.config.preallocate:
            self.file.truncate(self.size)

    def flush_indexes(self) -> list[File]:
        """Writes what the indexes hold back; returns every file of the segment, to be synced."""
        found = [self.file, self.offset_index.flush(), self.time_index.flush()]
        transaction_file = self.transaction_index.flush()
        return found if transaction_file is None else [*found, transaction_file]

    # --- reading

    def locate(self, offset: int) -> BatchExtent | None:
        """The first batch whose last offset is at least `offset`."""
        indexed_offset, position = self.offset_index.lookup(offset)
        if position == 0:
            return find_batch(self.file, 0, self.size, offset)
        if 0 < position < self.size:
            try:
                return find_batch(self.file, position, self.size, offset, indexed_offset)
            except CorruptRecordsError:
                pass
        self.rebuild_indexes()
        _, position = self.offset_index.lookup(offset)
        return find_batch(self.file, position, self.size, offset)

    def end_of_first_batch(self, position: int) -> int:
        """Where the batch ends that starts at `position`."""
        return self._batch_at(position).file_end

    def end_of_batches(self, start: int, bytes_max: int, end: int) -> int:
        """Where to stop reading at `start` so that whole batches of `bytes_max` at most fit."""
        limit = start + bytes_max
        if limit >= end:
            return end
        indexed_offset, position = self.offset_index.lookup_position(limit)
        if start < position < self.size:
            try:
                return whole_batches_end(self.file, position, self.size, limit, indexed_offset)
            except CorruptRecordsError:
                pass
        return whole_batches_end(self.file, start, self.size, limit)

    def batches_from(self, position: int) -> Iterable[AnyStoredBatch]:
        return iter_headers(self.file, position, self.size)

    def read_next_offset(self) -> int:
        """The offset after the last batch; the base offset if there is none. CorruptRecordsError if
        the file does not end with a whole batch.
        """
        _, position = self.offset_index.lookup(self.offset_index.last_offset)
        return self._walk_from(position)

    def _walk_from(self, position: int) -> int:
        """The offset after the last batch, if there are whole batches from `position` on."""
        next_offset = self.base_offset
        for batch in iter_headers(self.file, position, self.size):
            next_offset, position = batch.next_offset, batch.file_end
        if position != self.size:
            raise no_batch(self.file, position)
        return next_offset

    # --- timestamps

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of all batches, -1 if none has one."""
        if self._max_timestamp == _NOT_LOADED:
            self._max_timestamp = self.time_index.last_timestamp
            self._max_timestamp_offset = self.time_index.last_offset
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Last offset of the first batch with the greatest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else self.base_offset

    @property
    def largest_timestamp(self) -> int:
        """What retention goes by: the greatest timestamp, or else the age of the file."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.modified_ms

    @property
    def modified_ms(self) -> int:
        return self._files.modified_ms(self.path(LOG_SUFFIX))

    @property
    def first_timestamp(self) -> int:
        """Greatest timestamp of the first batch; -1 if there is no batch or no timestamp, or if it
        cannot be read.
        """
        if self._first_timestamp is None:
            try:
                first = next(iter(iter_headers(self.file, 0, self.size)), None)
            except CorruptRecordsError:
                first = None
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first.max_timestamp
        return self._first_timestamp

    def find_by_timestamp(self, timestamp: int, start_offset: int) -> AnyStoredBatch | None:
        """The first batch from `start_offset` on that has a record at or after `timestamp`."""
        found, offset = self.time_index.lookup(timestamp)
        if (found, offset) != (NO_TIMESTAMP, self.base_offset):
            extent = self.locate(offset)
            if extent is None or self._batch_at(extent.position).max_timestamp != found:
                self.rebuild_indexes()
                _, offset = self.time_index.lookup(timestamp)
        extent = self.locate(max(offset, start_offset))
        if extent is not None:
            for batch in iter_headers(self.file, extent.position, self.size):
                if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
                    return batch
        return None

    def _batch_at(self, position: int) -> AnyStoredBatch:
        found = next(iter(iter_headers(self.file, position, self.size)), None)
        if found is None:
            raise no_batch(self.file, position)
        return found

    # --- truncation

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Removes the batches with records at or above `offset`; returns the bytes removed."""
        extent = self.locate(offset)
        self.is_synced = False
        self._damage = None
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        removed = 0
        if extent is not None:
            removed = self.size - extent.position
            self.size = extent.position
            self.file.truncate(self.size)
        if self.size == 0:
            self.created_ms = now_ms
            self._first_timestamp = None
        self._bytes_since_index_entry = 0
        self._find_max_timestamp()
        return removed

    def _find_max_timestamp(self) -> None:
        """Takes the greatest timestamp from the time index and what lies after its last entry."""
        self._max_timestamp = self.time_index.last_timestamp
        self._max_timestamp_offset = self.time_index.last_offset
        _, position = self.offset_index.lookup(self._max_timestamp_offset)
        for batch in iter_headers(self.file, position, self.size):
            if batch.max_timestamp > self._max_timestamp:
                self._max_timestamp = batch.max_timestamp
                self._max_timestamp_offset = batch.last_offset

    def cut_file(self) -> int:
        """Cuts off what follows the last batch; returns how many bytes that were."""
        excess = self.file.size() - self.size
        if excess > 0:
            self.file.truncate(self.size)
        return excess
