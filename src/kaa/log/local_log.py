"""The part of a log that knows files and positions, but not what the batches in them mean.

`LocalLog` holds the segments and the way from an offset to a region of a file, makes flush jobs
and removes segments. Producers and visible offsets are added by `UnifiedLog`
(`kaa.log.log`), the only class that others use.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import LOG_RECENT_POSITIONS_MAX
from kaa.log.errors import DamagedLogError, StorageError, error_text
from kaa.log.files import unlink_if_exists
from kaa.log.flush import EpochsFile, FlushJob
from kaa.log.names import DELETED_SUFFIX, SEGMENT_SUFFIXES
from kaa.log.segment import Segment, SegmentRegion
from kaa.records.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.log.config import LogConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.leader_epochs import LeaderEpochCache
    from kaa.log.producer_snapshots import ProducerSnapshots
    from kaa.log.producer_state import ProducerEntry, ProducerState
    from kaa.log.segments import Segments
    from kaa.model.seams import RandomSource
    from kaa.model.topics import TopicPartition
    from kaa.records.errors import RecordsError
    from kaa.wire.primitives import Uuid


class LogPlace(NamedTuple):
    """Whose log it is, and where it lies."""

    directory: LogDirectory
    folder: str
    partition: TopicPartition


class LogContents(NamedTuple):
    """What was found in the folder of a log, or made for a new one (`kaa.log.recovery`)."""

    topic_id: Uuid | None
    segments: Segments
    snapshots: ProducerSnapshots
    producer_state: ProducerState
    leader_epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class LocalLog:
    """Segments on disk."""

    def __init__(
        self,
        place: LogPlace,
        contents: LogContents,
        config: LogConfig,
        random: RandomSource,
        now_ms: int,
    ) -> None:
        self.directory, self.folder, self.partition = place
        self.config = config
        self.segments = contents.segments
        self.snapshots = contents.snapshots
        self.leader_epochs = contents.leader_epochs
        self.log_end_offset = contents.log_end_offset
        self.recovery_point = contents.recovery_point
        self.last_flushed_ms = self.directory.steady_ms(now_ms)
        # Counts truncations.
        self.generation = 0
        self.is_closed = False
        # Whether a job of `flush_job` is out; there is no need for a second one.
        self.is_flushing = False
        # Whether the name of the folder may still be lost: its parent was not synced since.
        self.is_new = False
        # Where copies of it that are found are void: see `kaa.log.cancelled_moves`.
        self.cancelled_in: frozenset[str] = frozenset()
        # The last epoch that the files named when it was loaded, though nothing of it may be left.
        self.loaded_epoch: int | None = None
        # Paths of files that the next flush syncs: snapshots, the topic id.
        self.unsynced_files: list[str] = []
        # Large snapshots of producers, by offset, that the next flush writes.
        self.unwritten_snapshots: list[tuple[int, list[ProducerEntry]]] = []
        self._random = random
        epochs = self.leader_epochs
        self._epochs_file = EpochsFile(
            self.directory.files, epochs.entries if epochs.version == 0 else None
        )
        # Offsets at which a batch starts, to segment and position; oldest first.
        self._recent: dict[int, tuple[Segment, int]] = {}
        # Renamed segments and snapshots, with the time at which they are unlinked.
        self._doomed: list[tuple[int, Segment | str]] = []
        self._is_renaming = False

    # --- positions

    def read_region(
        self, start_offset: int, end_offset: int, bytes_max: int, min_one_batch: bool
    ) -> SegmentRegion | None:
        start = self._position_of(start_offset)
        if start is None:
            return None
        segment, position = start
        end = segment.size
        if end_offset < self.log_end_offset:
            bound = self._position_of(end_offset)
            if bound is not None and bound[0] is segment:
                end = bound[1]
            elif bound is None or bound[0].base_offset < segment.base_offset:
                return None
        stop = segment.end_of_batches(position, bytes_max, end)
        if stop <= position and min_one_batch and position < end:
            stop = segment.end_of_first_batch(position)
        if stop <= position:
            return None
        return SegmentRegion(self.directory, segment, position, stop - position)

    def _position_of(self, offset: int) -> tuple[Segment, int] | None:
        """Where the batch starts that holds `offset`, or the first one after it."""
        found = self._recent.get(offset)
        if found is not None:
            return found
        if offset == self.log_end_offset:
            active = self.segments.active
            return active, active.size
        segment = self.segments.floor(offset)
        while segment is not None:
            extent = segment.locate(offset)
            if extent is not None:
                self.remember(offset, segment, extent.position)
                return segment, extent.position
            segment = self.segments.higher(segment.base_offset)
        return None

    def is_before(self, region: SegmentRegion, end_offset: int) -> bool:
        """Whether a region lies in an older segment than the one in which `end_offset` is."""
        segment = region.segment
        if segment is self.segments.active:
            return False
        following = self.segments.higher(segment.base_offset)
        return following is not None and following.base_offset <= end_offset

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        recent = self._recent
        recent[offset] = (segment, position)
        if len(recent) > LOG_RECENT_POSITIONS_MAX:
            del recent[next(iter(recent))]

    def forget_positions(self) -> None:
        self._recent.clear()

    # --- flushing

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        jitter_ms_max = min(self.config.segment_jitter_ms, self.config.segment_ms)
        segment = Segment.create(
            self.directory.files,
            self.folder,
            base_offset,
            self.config,
            created_ms=now_ms,
            jitter_ms=self._random.randrange(jitter_ms_max) if jitter_ms_max else 0,
        )
        self.segments.add(segment)
        return segment

    def needs_flush(self, now_ms: int) -> bool:
        """Whether the flush policy, or a roll, asks for a flush."""
        if self.is_flushing:
            return False
        if self.unwritten_snapshots:
            return True
        if self.recovery_point >= self.log_end_offset:
            return False
        if self.recovery_point < self.segments.active.base_offset:
            return True
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            return True
        return self.directory.steady_ms(now_ms) - self.last_flushed_ms >= self.config.flush_ms

    def flush_job(self) -> FlushJob:
        """What makes everything appended so far durable; run it, then `complete_flush`."""
        job = self.make_flush_job(self.log_end_offset, whole_active=False)
        self.is_flushing = True
        return job

    def make_flush_job(self, offset: int, *, whole_active: bool) -> FlushJob:
        if self.directory.offline_reason is not None:
            raise self.directory.storage_error()
        epochs, version = None, self.leader_epochs.version
        if version > self._epochs_file.durable_version:
            epochs = (self._epochs_file, version, self.leader_epochs.entries)
        with self.storage():
            job = FlushJob(
                self.directory.files,
                self.folder,
                offset,
                self.generation,
                self._unsynced_segments(),
                self.unsynced_files,
                epochs,
                partial(self._is_renamed, self.folder),
                whole_active=whole_active,
                new_folder=self.is_new,
                snapshots=[
                    (offset, self.snapshots.path(offset), entries)
                    for offset, entries in self.unwritten_snapshots
                ],
            )
        # Not before there is a job for them: too many files may be open.
        self.unsynced_files, self.unwritten_snapshots = [], []
        return job

    def _unsynced_segments(self) -> list[Segment]:
        """The active segment and those before it that a flush has not completed yet."""
        found = [self.segments.active]
        for segment in self.segments.newest_first():
            if segment is not found[0]:
                if segment.is_synced:
                    break
                found.append(segment)
        return found[::-1]

    @property
    def recovery_checkpoint(self) -> int:
        """Where recovery has to start: the recovery point, or inside an unsynced segment."""
        if len(self.segments) == 1 and self.segments.active.is_synced:
            return self.recovery_point
        oldest = self._unsynced_segments()[0]
        if oldest.is_synced or oldest.size == 0:
            return self.recovery_point
        following = self.segments.higher(oldest.base_offset)
        end_offset = self.log_end_offset if following is None else following.base_offset
        return min(self.recovery_point, end_offset - 1)

    def complete_flush(self, job: FlushJob, now_ms: int) -> None:
        """After `job.run` has succeeded."""
        job.close(done=True)
        self.is_flushing = False
        self.is_new = False
        for offset, path, _ in job.snapshots:
            if job.generation == self.generation:
                self.snapshots.add(offset)
            else:
                # Of producers that a truncation took back.
                with self.storage():
                    unlink_if_exists(self.directory.files, path)
        if job.generation == self.generation and job.offset > self.recovery_point:
            self.recovery_point = job.offset
            self.last_flushed_ms = self.directory.steady_ms(now_ms)

    def fail_flush(self, job: FlushJob, error: OSError) -> StorageError:
        """After `job.run` has failed: the directory is offline. Returns the error to raise."""
        job.close(done=False)
        self.is_flushing = False
        return self.failed(error)

    @property
    def is_clean(self) -> bool:
        """Whether everything that a start needs is on stable storage as it is. The topic id of a
        log without records is not needed, nor is an epoch in which nothing was written.
        """
        active = self.segments.active
        if self.recovery_point < self.log_end_offset or self.unwritten_snapshots:
            return False
        if not all(segment.is_synced or segment.size == 0 for segment in self.segments):
            return False
        if self.unsynced_files and (active.size or len(self.segments) > 1):
            return False
        return self._epochs_file.is_durable(self.leader_epochs, self.log_end_offset)

    def flush(self, now_ms: int, *, whole_active: bool = False) -> None:
        """Flushes at once, on the calling thread."""
        job = self.make_flush_job(self.log_end_offset, whole_active=whole_active)
        try:
            job.run()
        except OSError as error:
            raise self.fail_flush(job, error) from error
        self.complete_flush(job, now_ms)

    # --- removing

    def remove_segments(self, segments: Iterable[Segment], now_ms: int) -> None:
        """Takes segments out of the log; their files go when readers have had time to finish."""
        with self.storage():
            for segment in segments:
                self.segments.remove(segment)
                self.doom(segment, now_ms)
        self.forget_positions()

    def doom(self, segment: Segment, now_ms: int, *, with_snapshot: bool = True) -> None:
        """Renames the files of a segment, and of its snapshot, out of the way."""
        deadline_ms = self.directory.steady_ms(now_ms) + self.config.file_delete_delay_ms
        segment.rename(DELETED_SUFFIX)
        self._doomed.append((deadline_ms, segment))
        if with_snapshot:
            snapshot_path = self.snapshots.mark_deleted(segment.base_offset)
            if snapshot_path is not None:
                self._doomed.append((deadline_ms, snapshot_path))

    def take_due(self, now_ms: int) -> list[str]:
        """Paths of removed files whose time has come, for the caller to unlink."""
        return self._take_doomed(self.directory.steady_ms(now_ms)) if self._doomed else []

    def _take_doomed(self, now_ms: int) -> list[str]:
        paths: list[str] = []
        for deadline_ms, thing in self._doomed:
            if deadline_ms > now_ms:
                continue
            if isinstance(thing, Segment):
                thing.close()
                paths += [thing.path(suffix) for suffix in SEGMENT_SUFFIXES]
            else:
                paths.append(thing)
        self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        return paths

    def take_doomed(self) -> list[str]:
        """The same of all removed files, whose time has not come: nobody reads them."""
        return self._take_doomed(max((deadline_ms for deadline_ms, _ in self._doomed), default=0))

    # --- life

    def close(self) -> None:
        """Closes the files without writing anything."""
        self.is_closed = True
        for segment in self.segments:
            segment.close()
        for _, thing in self._doomed:
            if isinstance(thing, Segment):
                thing.close()

    def rename_folder(self, folder: str) -> None:
        """Gives the folder another name. OSError is the caller's."""
        # A thread may look for the old name before this one says that there is another.
        self._is_renaming = True
        try:
            self.directory.files.rename(self.folder, folder)
            self.set_folder(folder)
        finally:
            self._is_renaming = False

    def _is_renamed(self, folder: str) -> bool:
        """Whether the folder is called otherwise by now; for any thread."""
        return self._is_renaming or self.folder != folder

    def set_folder(self, folder: str) -> None:
        """Follows a rename of the folder."""
        before, self.folder = self.folder, folder
        self.snapshots.set_folder(folder)
        for segment in self.segments:
            segment.set_folder(folder)
        for index, (deadline_ms, thing) in enumerate(self._doomed):
            if isinstance(thing, Segment):
                thing.set_folder(folder)
            else:
                self._doomed[index] = (deadline_ms, folder + thing.removeprefix(before))

    def doom_renamed(self, folder: str, paths: Iterable[str]) -> None:
        """Files that were due, and whose folder got another name before they were unlinked."""
        self._doomed += [(0, self.folder + path.removeprefix(folder)) for path in paths]

    def rest(self) -> None:
        """Closes the descriptors of all segments but the active one, where nobody uses them."""
        for segment in self.segments:
            if segment is not self.segments.active:
                segment.rest()

    @contextmanager
    def storage(self) -> Iterator[None]:
        """An OSError inside takes the directory offline; stored bytes that are no batches cost the
        partition alone.
        """
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error
        except CorruptRecordsError as error:
            raise self.damaged(error) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The same for what changes nothing, and can be tried again when fewer files are open."""
        try:
            yield
        except OSError as error:
            raise self.failed(error, is_reading=True) from error
        except CorruptRecordsError as error:
            raise self.damaged(error) from error

    def failed(self, error: OSError, *, is_reading: bool = False) -> StorageError:
        """Takes the directory offline; the error to raise. That files of a log are gone which was
        deleted, or moved away, says nothing about the disk. Nor does it that too many files are
        open for a reader, or for a future log, whose move is given up.
        """
        if self.is_closed and isinstance(error, FileNotFoundError):
            return StorageError(f"{self.folder} is no longer in use: {error_text(error)}")
        if is_reading or self.directory.futures.get(self.partition) is self:
            return self.directory.fail_unless_short(error)
        return self.directory.fail(error)

    def damaged(self, error: RecordsError) -> DamagedLogError:
        """Tells of damage where it is met first; the error to raise."""
        if isinstance(error, DamagedLogError):
            return error
        text = f"{self.partition} is damaged: {error}"
        self.directory.report_once(
            f"{text}. Readers of it get CORRUPT_MESSAGE; other partitions are served. `kaa debug "
            "dump-log` shows what is left of the file: bring it back from a copy, or, if another "
            "replica leads, stop this broker and remove the folder, and all of it is fetched again"
        )
        return DamagedLogError(text)

    @property
    def size_in_bytes(self) -> int:
        return self.segments.size_in_bytes

    def update_config(self, config: LogConfig) -> None:
        """New settings count from the next append on; sealed segments stay as they are."""
        self.config = config
        self.segments.active.config = config
