"""Future logs: copies that are to take the place of a log in another directory (KIP-113).

A future log lies in `<topic>-<partition>.<hex>-future` of the directory it moves to. It follows
its source as a replica follows its leader (`kaa.replication.moves`), and counts for nothing until
it takes the source's place. That is the swap, and these are its steps:

1. what the source has more, a little by then, is copied;
2. the future log is made as durable as the source is, and the checkpoints of its directory say
   what those of the source do: where it starts, from where on it is to be recovered, and up to
   where it was compacted, so that gaps are not taken for lost tails;
3. the source's folder is renamed to `...-delete`, with the hex part of the future log's name, and
   its directory synced;
4. the future log's folder gets the plain name, and its directory is synced;
5. the future log takes over what is not in the records: producers that have none left, epochs
   without records, the high watermark.

Nobody else writes to either log meanwhile, and readers are not disturbed. What a crash leaves:

| source | target | at the next start |
|---|---|---|
| plain | `-future` | the move goes on |
| `-delete` | `-future`, same hex part | the future log is the log: it was whole and durable |
| `-delete` | plain | the move is done |

There are never two folders with the plain name, since the first rename is durable before the
second one is made. A directory that fails in between leaves the other one whole. If it is the
target, the source gets its name back, durably, before anything is appended to it. If it is the
source, the future log has everything by then, and takes its place. Then the disk that failed may
have a folder with the plain name when it is back: that its log counts for nothing is noted before
anything is appended to the other one (`kaa.log.void`), and the log manager puts it aside.
"""

from __future__ import annotations

from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kaa.limits import MOVE_TAIL_BYTES_MAX
from kaa.log.append import UnexpectedAppendOffsetError, append_as_follower
from kaa.log.cancelled_moves import write_cancelled
from kaa.log.errors import DamagedLogError, LogError, StorageError, is_shortage
from kaa.log.files import unlink_if_exists
from kaa.log.jobs import CheckpointJob, checkpoint_in_pieces, recovery_checkpoint
from kaa.log.log import FetchIsolation
from kaa.log.names import (
    DELETE_FOLDER_SUFFIX,
    FUTURE_FOLDER_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    STRAY_FOLDER_SUFFIX,
    folder_name,
    marked_folder_name,
)
from kaa.log.recovery import LoadOptions, create_log
from kaa.log.truncation import PendingTruncation, truncate_fully_and_start_at, truncate_to
from kaa.log.void import NO_COPY
from kaa.records.errors import RecordsError
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from kaa.log.cleaner import LogCleaner
    from kaa.log.config import LogConfig, LogManagerConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.files import OpenDirectory
    from kaa.log.log import UnifiedLog
    from kaa.log.segment import SegmentRegion
    from kaa.log.truncation import Step
    from kaa.log.void import VoidLogs
    from kaa.model.seams import RandomSource
    from kaa.model.topics import TopicPartition


class FutureLogsHost(Protocol):
    """What future logs need of the log manager."""

    logs: dict[TopicPartition, UnifiedLog]
    cleaner: LogCleaner
    void: VoidLogs

    @property
    def config(self) -> LogManagerConfig: ...

    @property
    def random(self) -> RandomSource: ...

    def forget_stale(self, partition: TopicPartition) -> None: ...

    def doom(
        self, directory: LogDirectory, folder: str, config: LogConfig, now_ms: int
    ) -> None: ...

    def put_away(
        self,
        directory: LogDirectory,
        folder: str,
        partition: TopicPartition,
        suffix: str,
        now_ms: int,
    ) -> None: ...


class FutureLogs:
    """The future logs of a broker, one per partition. Owned by the log manager."""

    def __init__(self, host: FutureLogsHost) -> None:
        self._host = host
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        # Those that were found after a stop that was not clean.
        self.unclean: set[TopicPartition] = set()
        # Further copies of the same partitions, in other directories; only while logs are loaded.
        self._spare: list[UnifiedLog] = []

    @property
    def cleaner(self) -> LogCleaner:
        return self._host.cleaner

    def note_void(self, log: UnifiedLog, copy: str = NO_COPY) -> None:
        """Another log goes on in the place of one whose disk has failed. StorageError."""
        self._host.void.note(log.partition, log.topic_id, log.directory, copy)

    def free_name(self, log: UnifiedLog, names: OpenDirectory) -> None:
        """Before a future log gets the plain name. StorageError; OSError is the caller's."""
        self._host.void.free(log.partition, log.directory, names.sync)

    def get(self, partition: TopicPartition) -> UnifiedLog | None:
        return self.logs.get(partition)

    def add(self, log: UnifiedLog) -> None:
        self.logs[log.partition] = log
        log.directory.futures[log.partition] = log

    def found(self, log: UnifiedLog) -> None:
        """A future log was there at the start; a crash, or a disk that was away, may have left more
        than one.
        """
        if log.partition in self.logs:
            self._spare.append(log)
        else:
            self.add(log)

    def choose(self, rank: Callable[[UnifiedLog], tuple[bool, bool, int]], now_ms: int) -> None:
        """Of several copies of a partition goes on with the one that ranks highest. Where no source
        is known, any of them may be the last one of what it has, and is kept aside.
        """
        spare, self._spare = self._spare, []
        for log in spare:
            partition, worse = log.partition, log
            if rank(log) > rank(self.logs[partition]):
                worse = self.logs.pop(partition)
                del worse.directory.futures[partition]
                self.add(log)
            if partition in self._host.logs:
                self.discard(worse, now_ms)
            else:
                worse.close()
                directory, suffix = worse.directory, STRAY_FOLDER_SUFFIX
                self._host.put_away(directory, worse.folder, partition, suffix, now_ms)
                directory.stale[partition] = directory.number_checkpoint()

    def create(self, source: UnifiedLog, directory: LogDirectory, now_ms: int) -> UnifiedLog:
        """A future log in `directory`, which begins where the source does. StorageError."""
        partition, host = source.partition, self._host
        assert partition not in self.logs
        assert directory is not source.directory
        unique = Uuid(host.random.randbytes(16))
        name = marked_folder_name(partition, unique, FUTURE_FOLDER_SUFFIX)
        options = LoadOptions(
            now_ms=now_ms, log_start_offset=source.local_log_start_offset, manager=host.config
        )
        host.forget_stale(partition)
        if not directory.is_online:
            raise directory.storage_error()
        folder = f"{directory.path}/{name}"
        try:
            log = create_log(
                directory,
                partition,
                source.topic_id,
                source.config,
                host.random,
                options,
                folder=folder,
            )
        except OSError as error:
            if is_shortage(error):
                self._remove_unfinished(source, directory, folder, now_ms)
            raise directory.fail_unless_short(error) from error
        self.add(log)
        return log

    def _remove_unfinished(
        self, source: UnifiedLog, directory: LogDirectory, folder: str, now_ms: int
    ) -> None:
        """A folder that is no log yet must not be taken for a move at the next start."""
        files, name = directory.files, self._deleted_name(source.partition)
        try:
            if files.exists(folder):
                files.rename(folder, f"{directory.path}/{name}")
        except OSError as error:
            directory.fail(error)
            return
        self._host.doom(directory, f"{directory.path}/{name}", source.config, now_ms)

    def _deleted_name(self, partition: TopicPartition) -> str:
        unique = Uuid(self._host.random.randbytes(16))
        return marked_folder_name(partition, unique, DELETE_FOLDER_SUFFIX)

    def drop(self, partition: TopicPartition, now_ms: int) -> None:
        """Gives a future log up; its folder goes as that of a deleted log. On a directory that is
        offline it stays as it is.
        """
        log = self._take(partition)
        if log is not None:
            self.discard(log, now_ms)

    def discard(self, log: UnifiedLog, now_ms: int) -> None:
        """The same for one that nobody knows."""
        log.close_when_settled()
        if log.directory.is_online:
            self._doom(log, now_ms)

    def resume(self, source: UnifiedLog, now_ms: int) -> UnifiedLog:
        """The copy of a source with which a move goes on after a start: the one that was found, if
        it begins as its source does. StorageError.

        In a compacted log a hole that a power cut left looks like one that compaction left; below
        the recovery point there is none. And a source that was compacted without its copy, whose
        disk was away, may lack the tombstones of keys that the copy still has.
        """
        partition = source.partition
        future = self.logs[partition]
        is_right = _begins_as(future, source)
        if not is_right and partition in self.unclean:
            durable = future.segments.floor(future.recovery_point) or future.segments.first
            truncate_to(future, durable.base_offset, now_ms)
            is_right = _begins_as(future, source)
        self.unclean.discard(partition)
        if is_right:
            return future
        self.drop(partition, now_ms)
        return self.create(source, future.directory, now_ms)

    def _take(self, partition: TopicPartition) -> UnifiedLog | None:
        log = self.logs.pop(partition, None)
        self.unclean.discard(partition)
        if log is not None:
            del log.directory.futures[partition]
        return log

    def _doom(self, log: UnifiedLog, now_ms: int) -> None:
        """Renames the folder of a log that is not needed any more; it is removed later."""
        directory = log.directory
        try:
            rename_folder(log, self._deleted_name(log.partition))
        except OSError as error:
            directory.fail(error)
            return
        directory.stale[log.partition] = directory.number_checkpoint()
        self._host.doom(directory, log.folder, log.config, now_ms)

    def promote(self, partition: TopicPartition) -> UnifiedLog:
        """Makes the future log the log of its partition, which has no other. StorageError."""
        assert partition not in self._host.logs
        log = self.logs[partition]
        with (
            log.storage(),
            closing(log.directory.files.open_directory(log.directory.path)) as names,
        ):
            # Opened first: the name is durable then, however many files are open.
            self.free_name(log, names)
            rename_folder(log, folder_name(partition))
            names.sync()
        self._take(partition)
        self._host.logs[partition] = log.directory.logs[partition] = log
        return log

    def begin_swap(
        self,
        source: UnifiedLog,
        *,
        leader_epoch: int,
        now_ms: int,
        ended: Callable[[LogError | RecordsError | None], None],
        is_group_committed: bool = False,
    ) -> PendingTruncation:
        """Puts the future log in the place of its source, in the five steps above. Nothing may be
        pending on the future log, nor a compaction run on its source. `ended` is called when it is
        there, or with the reason why not. With `is_group_committed` a flush of the source may begin
        and end at any moment, and its records count from then on.
        """
        future = self.logs[source.partition]
        assert future.pending is None
        assert not future.is_flushing
        assert not source.is_cleaning
        swap = _Swap(self, source, future, leader_epoch, now_ms, ended, is_group_committed)
        return PendingTruncation(source, swap.steps())

    def swapped(self, source: UnifiedLog, future: UnifiedLog, now_ms: int) -> None:
        """The names on the disks are changed: now this is the log."""
        partition, host = source.partition, self._host
        self._take(partition)
        del source.directory.logs[partition]
        host.logs[partition] = future.directory.logs[partition] = future
        source.directory.stale[partition] = source.directory.number_checkpoint()
        source.close_when_settled()
        host.doom(source.directory, source.folder, source.config, now_ms)


class _Swap:
    """One swap under way."""

    def __init__(
        self,
        futures: FutureLogs,
        source: UnifiedLog,
        future: UnifiedLog,
        leader_epoch: int,
        now_ms: int,
        ended: Callable[[LogError | RecordsError | None], None],
        is_group_committed: bool,
    ) -> None:
        self._futures = futures
        self._source = source
        self._future = future
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._ended = ended
        self._is_group_committed = is_group_committed
        # The directories of both, while names are changed.
        self._opened: dict[str, OpenDirectory] = {}

    def steps(self) -> Generator[Step, None, None]:
        source, future = self._source, self._future
        # Keeps compaction and retention away from the one, and flushes from the other.
        source.is_cleaning = future.is_flushing = True
        error: LogError | RecordsError | None = None
        try:
            yield from self._copy_tail()
            yield from self._make_durable()
            yield from self._rename()
        except (LogError, RecordsError) as failure:
            error = failure
        finally:
            source.is_cleaning = future.is_flushing = False
        if error is None:
            self._take_over()
            self._futures.swapped(source, future, self._now_ms)
        self._ended(error)

    def _run(
        self, fail: Callable[[OSError], StorageError], call: Callable[[], object]
    ) -> Iterator[Step]:
        """A step for a thread; `fail` says what its failure costs."""
        caught: list[OSError | StorageError] = []
        yield partial(_catch, call, caught)
        for error in caught:
            raise fail(error) if isinstance(error, OSError) else error

    def _copy_tail(self) -> Iterator[Step]:
        source, future = self._source, self._future
        while future.log_end_offset < source.log_end_offset:
            found = source.read(
                future.log_end_offset,
                bytes_max=MOVE_TAIL_BYTES_MAX,
                isolation=FetchIsolation.LOG_END,
            )
            region = found.region
            if region is None:
                # Batches that compaction removed were the last ones before the log was cut.
                return
            records: list[bytes] = []
            try:
                yield from self._run(region.failed, partial(_read_into, records, region))
            finally:
                region.release()
            start_offset = future.log_end_offset
            self._append(records[0])
            if future.log_end_offset <= start_offset:
                # No leader has written such records, and to try again would hold appends for ever.
                raise LogError(
                    Errors.UNKNOWN_LEADER_EPOCH,
                    f"the records from offset {start_offset} on are of a later leader epoch than "
                    f"{self._leader_epoch}, which is the partition's",
                )

    def _append(self, records: bytes) -> None:
        future, epoch, now_ms = self._future, self._leader_epoch, self._now_ms
        try:
            append_as_follower(future, records, leader_epoch=epoch, now_ms=now_ms)
        except UnexpectedAppendOffsetError as error:
            if not error.first_offset < future.log_end_offset <= error.last_offset:
                raise
            # The source was trimmed inside of this batch, and the future log begun or cut there.
            if future.log_end_offset == future.log_start_offset:
                truncate_fully_and_start_at(future, error.first_offset, now_ms)
            else:
                truncate_to(future, error.first_offset, now_ms)
            append_as_follower(future, records, leader_epoch=epoch, now_ms=now_ms)

    def _make_durable(self) -> Iterator[Step]:
        source, future = self._source, self._future
        files = future.directory.files
        for path in future.take_doomed():
            yield from self._run(future.failed, partial(unlink_if_exists, files, path))
        self._follow_start()
        # A flush of the source that ends from now on must not be ahead of the future log.
        is_all = self._is_group_committed or source.is_flushing
        durable_offset = source.log_end_offset if is_all else source.recovery_point
        # A gap that a power cut leaves below this one would be taken for natural.
        cleaned_offset = self._futures.cleaner.cleaned_offset(source.partition)
        durable_offset = max(durable_offset, min(cleaned_offset, source.log_end_offset))
        if future.recovery_point < durable_offset or future.is_new:
            job = future.make_flush_job(future.log_end_offset, whole_active=False)
            try:
                yield from self._run(future.failed, job.run)
            except (GeneratorExit, StorageError):
                job.close(done=False)
                raise
            future.complete_flush(job, self._now_ms)
            future.is_flushing = True
        if source.cancelled_in:
            note = partial(write_cancelled, future, source.cancelled_in)
            yield from self._run(future.failed, note)
        for checkpoint in self._checkpoints(cleaned_offset):
            yield from self._run(future.failed, _rest if checkpoint is None else checkpoint.run)

    def _checkpoints(self, cleaned_offset: int) -> Iterator[CheckpointJob | None]:
        """Tables of the target, which may have thousands of logs; None where others have a turn."""
        source, future = self._source, self._future
        target = future.directory
        if source.is_tiered or future.log_start_offset > future.segments.first.base_offset:
            # What was deleted must stay so, whatever happens next.
            starts = target.log_start_offsets()
            yield CheckpointJob(target, LOG_START_OFFSET_CHECKPOINT_FILE, starts)
        if len(future.segments) > 1:
            # Recovery would cut the log at the first gap between two of them that it meets above
            # its recovery point, unless it was compacted.
            name = RECOVERY_POINT_CHECKPOINT_FILE
            yield from checkpoint_in_pieces(target, name, recovery_checkpoint)
            if cleaned_offset > 0:
                yield self._futures.cleaner.checkpoint_job(target)

    def _follow_start(self) -> None:
        source, future = self._source, self._future
        future.update_high_watermark(source.high_watermark)
        if source.log_start_offset > future.log_start_offset:
            future.increment_log_start_offset(source.log_start_offset)
        elif source.is_tiered:
            future.log_start_offset = source.log_start_offset

    def _rename(self) -> Iterator[Step]:
        try:
            for log in (self._future, self._source):
                yield from self._open_directory(log)
            yield from self._change_names()
        finally:
            for directory in self._opened.values():
                directory.close()

    def _open_directory(self, log: UnifiedLog) -> Iterator[Step]:
        """A name that is changed must be made durable, however many files are open by then."""
        directory = log.directory
        try:
            if not directory.is_online:
                raise directory.storage_error()
            yield from self._run(directory.fail_unless_short, partial(self._open, directory))
        except StorageError:
            if log is self._future or directory.is_online:
                raise

    def _open(self, directory: LogDirectory) -> None:
        self._opened[directory.path] = directory.files.open_directory(directory.path)

    def _change_names(self) -> Iterator[Step]:
        source, future = self._source, self._future
        aside = self._name_aside()
        free_name = partial(self._futures.free_name, future, self._opened[future.directory.path])
        yield from self._run(future.directory.fail, free_name)
        # Without its disk the source is of no use any more, and nobody needs to wait for it: the
        # future log has everything, durably.
        with suppress(StorageError):
            yield from self._rename_durably(source, aside)
        if not source.directory.is_online:
            yield from self._note_void(source, future.folder.rpartition("/")[2])
        try:
            yield from self._rename_durably(future, folder_name(source.partition))
        except StorageError:
            if source.directory.is_online:
                yield from self._rename_durably(source, folder_name(source.partition))
                yield from self._note_void(future, NO_COPY)
            raise

    def _note_void(self, log: UnifiedLog, copy: str) -> Iterator[Step]:
        """Its directory is offline, and the other one of the two goes on."""
        yield from self._run(log.directory.fail, partial(self._futures.note_void, log, copy))

    def _name_aside(self) -> str:
        """That the source has the number of the future log shows that this one is whole."""
        name = self._future.folder.rpartition("/")[2]
        return name.removesuffix(FUTURE_FOLDER_SUFFIX) + DELETE_FOLDER_SUFFIX

    def _rename_durably(self, log: UnifiedLog, name: str) -> Iterator[Step]:
        directory = log.directory
        if not directory.is_online:
            raise directory.storage_error()
        with log.storage():
            rename_folder(log, name)
        # Whatever the reason: which of the two names a crash leaves is not known any more.
        yield from self._run(directory.fail, self._opened[directory.path].sync)

    def _take_over(self) -> None:
        """What the source knows and its records do not tell."""
        source, future = self._source, self._future
        future.log_end_offset = source.log_end_offset
        self._follow_start()
        future.producer_state = source.producer_state
        future.leader_epochs.clear()
        for entry in source.leader_epochs.entries:
            future.leader_epochs.assign(entry.epoch, entry.start_offset)
        future.copied_offset = source.copied_offset
        future.truncated_offset = source.truncated_offset
        future.config = source.config
        future.segments.active.config = source.config
        future.update_high_watermark(source.high_watermark)
        try:
            with future.storage():
                future.producer_state.end_offset = future.log_end_offset
                future.take_snapshot()
        except StorageError:
            # The directory is offline, which is dealt with like any such failure from now on.
            return


def rename_folder(log: UnifiedLog, name: str) -> None:
    """Gives the folder of a log another name in its directory. OSError is the caller's."""
    before = log.folder
    folder = f"{log.directory.path}/{name}"
    log.rename_folder(folder)
    log.unsynced_files = [
        folder + path.removeprefix(before) if path.startswith(f"{before}/") else path
        for path in log.unsynced_files
    ]


def _read_into(records: list[bytes], region: SegmentRegion) -> None:
    records.append(region.read())


def _catch(call: Callable[[], object], caught: list[OSError | StorageError]) -> None:
    try:
        call()
    except (OSError, StorageError) as error:
        caught.append(error)


def _rest() -> None:
    """A step of nothing: the loop has a turn."""


def _begins_as(future: UnifiedLog, source: UnifiedLog) -> bool:
    """Whether a copy has as many bytes as its source up to where the shorter one ends, from where
    the source begins. Batches are copied as they are, and compaction takes away more than it adds.
    Where the two have nothing in common, the follower cuts or restarts the copy.
    """
    if future.topic_id != source.topic_id:
        # It does not tell its topic, and may be of an earlier one.
        return False
    if future.segments.first.base_offset > source.local_log_start_offset:
        # A follower never asks for what lies before its own log: it would be lost with the source.
        return False
    start = max(source.local_log_start_offset, future.local_log_start_offset)
    end = min(source.log_end_offset, future.log_end_offset)
    if start >= end:
        return True
    try:
        sizes = {_bytes_before(log, end) - _bytes_before(log, start) for log in (source, future)}
    except DamagedLogError:
        # A damaged copy is of no use. That a source is damaged is said when it is copied.
        return False
    return len(sizes) == 1


def _bytes_before(log: UnifiedLog, offset: int) -> int:
    """How much of a log lies before the batch that holds an offset."""
    segment = log.segments.floor(offset)
    if segment is None:
        return 0
    with log.reading():
        found = segment.locate(offset)
    earlier = sum(each.size for each in log.segments.between(0, segment.base_offset))
    return earlier + (segment.size if found is None else found.position)
