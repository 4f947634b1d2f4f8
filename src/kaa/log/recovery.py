"""Loading a log from its folder, after a clean stop or after anything else.

After a clean stop nothing is scanned: the end of the log is found from the end of its last index,
and producer state from the snapshot taken at the stop. If it ends before what had been flushed, or
not with a whole batch, it was damaged since, and is not loaded. Otherwise:

1. Left-overs go. `.deleted` and `.tmp` files were on their way out. `.cleaned` files belong
   to a compaction that did not finish; with them goes every `.swap` file at or above their lowest
   offset, since the renames from one to the other had not finished either. The remaining `.swap`
   files are complete and replace the segments in the range that they span: those are deleted, then
   the swap files renamed. Every step can be repeated: a crash during recovery is one more crash.
2. Every segment from the one that holds the recovery point on is scanned: each batch is checked
   (size, magic, checksum, rising offsets), indexes are rebuilt, producer state and leader epochs
   brought up to date. The first batch that fails ends the log there: the file is cut, and later
   segments are removed. The same happens at a gap between two segments (the tail of the first was
   lost and the second was not), except in compacted logs, where gaps are natural, and where a log
   was compacted before its policy changed.
3. What lies below the recovery point is taken as it is; it was synced. Only a segment that spans
   more offsets than its indexes can tell apart is split (`kaa.log.overflow`), here as in step 2.

The recovery point itself does not move: what was scanned is readable, but not known to be on
stable storage before the next flush.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import PARTITIONS_NAMED_MAX, SCAN_WINDOW_BYTES
from kaa.log.cancelled_moves import read_cancelled
from kaa.log.config import LogManagerConfig
from kaa.log.errors import CorruptFileError
from kaa.log.files import TEMPORARY_SUFFIX, read_whole, unlink_if_exists
from kaa.log.index import RELATIVE_OFFSET_MAX
from kaa.log.leader_epochs import LeaderEpochCache
from kaa.log.local_log import LogContents, LogPlace
from kaa.log.log import UnifiedLog
from kaa.log.names import (
    ASIDE_SUFFIX,
    CLEAN_SHUTDOWN_FILE,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    FUTURE_FOLDER_SUFFIX,
    LEADER_EPOCH_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    LOG_SUFFIX,
    MOVE_CANCELLED_FILE,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    base_offset_of,
    file_name,
    folder_name,
)
from kaa.log.overflow import split_segment
from kaa.log.producer_snapshots import ProducerSnapshots
from kaa.log.producer_state import ProducerState
from kaa.log.properties import find_topic_id, write_topic_id
from kaa.log.replay import (
    load_newest_snapshot,
    note_completed_transaction,
    replay_batch,
    replay_segments,
)
from kaa.log.scan import iter_headers, iter_valid
from kaa.log.segment import Segment
from kaa.log.segments import Segments
from kaa.model.words import count_text
from kaa.records.batch import HEADER_BYTES
from kaa.records.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kaa.log.config import LogConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.files import Files
    from kaa.model.seams import RandomSource
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid

_RAFT_SNAPSHOT_DELETED_SUFFIX = ".checkpoint.deleted"
_OFFSET_MAX = 2**63 - 1


class RecoveryProgress(NamedTuple):
    """Where the recovery of a log is; handed out often enough for a loop to stay responsive."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the checkpoints and the clean-shutdown marker of the directory say about a log."""

    now_ms: int
    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    first_dirty_offset: int = 0
    """Up to where the log has been compacted, whatever its policy is today."""
    manager: LogManagerConfig = field(default_factory=LogManagerConfig)


def create_log(
    directory: LogDirectory,
    partition: TopicPartition,
    topic_id: Uuid | None,
    config: LogConfig,
    random: RandomSource,
    options: LoadOptions,
    *,
    folder: str | None = None,
) -> UnifiedLog:
    """A new, empty log in a folder of its own. OSError is the caller's."""
    folder = folder or f"{directory.path}/{folder_name(partition)}"
    if directory.lock is not None:
        directory.lock.check_place()
    directory.files.make_directory(folder)
    loader = _Loader(directory, folder, partition, config, options)
    loader.topic_id = topic_id
    loader.add_empty_segment()
    log = loader.finish(random)
    if topic_id is not None:
        log.unsynced_files.append(write_topic_id(directory.files, folder, topic_id))
    log.is_new = True
    return log


def load_log(
    directory: LogDirectory,
    folder: str,
    partition: TopicPartition,
    config: LogConfig,
    random: RandomSource,
    options: LoadOptions,
) -> Generator[RecoveryProgress, None, UnifiedLog]:
    """The log in `folder`. OSError is the caller's, and so is CorruptRecordsError if the log is not
    what it was, in a place that recovery does not put right.
    """
    loader = _Loader(directory, folder, partition, config, options)
    try:
        yield from loader.load()
        return loader.finish(random)
    except BaseException:
        loader.close()
        raise


def damage_text(
    partition: TopicPartition,
    error: CorruptRecordsError,
    path: str,
    options: LoadOptions,
    *,
    is_future: bool,
) -> str:
    """What the operator hears of a log that `load_log` refused."""
    if is_future:
        return (
            f"the copy of {partition} that a move has begun is damaged: {error}. It is made again "
            "where the log that it copies is served"
        )
    step = (
        f", or stop it, remove {path}/{CLEAN_SHUTDOWN_FILE} and start it, to go on with what is "
        "valid of the log"
        if options.clean
        else ""
    )
    return (
        f"{partition} is damaged and not served: {error}. Unless another replica has its records, "
        f"bring the files back from a copy and restart the broker{step}"
    )


def two_logs_text(folder: str, other: str) -> str:
    """What the operator hears of two logs of a partition that do not tell which one is right."""
    return (
        f"{folder} and {other} are of the same partition, and one of them has lost the id "
        "of its topic: neither is served. A disk failed while the partition was made or moved: "
        "unless another replica has its records, delete the folder on that disk, and restart the "
        "broker"
    )


class _Loader:
    """The steps of loading, with what they share."""

    def __init__(
        self,
        directory: LogDirectory,
        folder: str,
        partition: TopicPartition,
        config: LogConfig,
        options: LoadOptions,
    ) -> None:
        self._directory = directory
        self._files: Files = directory.files
        self._folder = folder
        self._partition = partition
        self._config = config
        self._options = options
        self._segments = Segments()
        self._snapshots = ProducerSnapshots(self._files, folder)
        self._state = ProducerState(options.manager.producer_id_expiration_ms)
        self._epochs = LeaderEpochCache()
        # Base offsets of segments whose transaction index cannot be read.
        self._rescan: set[int] = set()
        # Whether the scan met a batch that is valid, but too far from the name of its segment.
        self._has_overflowed = False
        # Whether the operator has been informed that recovery ended the log.
        self._has_reported_cut = False
        # Base offsets of segments that came from splitting one; gaps between them are natural.
        self._split_offsets: set[int] = set()
        self._log_end_offset = options.log_start_offset
        self.topic_id: Uuid | None = None
        self._cancelled_in: frozenset[str] = frozenset()
        self._loaded_epoch: int | None = None

    def load(self) -> Iterator[RecoveryProgress]:
        names = clean_up_folder(self._files, self._folder, self._config)
        self._snapshots.scan(names)
        if MOVE_CANCELLED_FILE in names:
            self._cancelled_in = read_cancelled(self._files, self._folder)
        # Where a power cut took it, the cluster's metadata will tell it again.
        self.topic_id = find_topic_id(self._files, self._folder)
        self._load_segments(names)
        self._check_transaction_indexes()
        self._split_overflowed()
        self._load_epochs()
        if not self._options.clean or self._rescan:
            yield from self._recover()
        self._find_end()
        self._check_end()
        if self._log_end_offset < self._options.log_start_offset:
            self._settle_start()
        if not len(self._segments):
            self.add_empty_segment()
        self._loaded_epoch = self._epochs.latest_epoch
        self._epochs.truncate_from_end(self._log_end_offset)
        self._epochs.truncate_from_start(self._options.log_start_offset)
        yield from self._load_producer_state()
        if not self._options.clean:
            # Names that a killed process left may not be durable, and nobody else would notice.
            self._files.sync_directory(self._folder)

    def close(self) -> None:
        """Gives up: nothing stays open of a log that could not be loaded."""
        for segment in self._segments:
            segment.close()

    def finish(self, random: RandomSource) -> UnifiedLog:
        options = self._options
        end = self._log_end_offset
        recovery_point = end if options.clean else min(options.recovery_point, end)
        for segment in self._segments:
            # A log that nobody uses needs no descriptor.
            segment.rest()
        log_start_offset = options.log_start_offset
        if not self._config.remote_storage_enable:
            # What lies below the first segment of a tiered log is in remote storage. If a crash
            # came before the first checkpoint, the leader finds out how far down that goes.
            log_start_offset = max(log_start_offset, self._segments.first.base_offset)
        contents = LogContents(
            self.topic_id,
            self._segments,
            self._snapshots,
            self._state,
            self._epochs,
            log_start_offset=log_start_offset,
            log_end_offset=end,
            recovery_point=min(self._rescan | {recovery_point}),
        )
        log = UnifiedLog(
            LogPlace(self._directory, self._folder, self._partition),
            contents,
            self._config,
            random,
            verify_transactions=options.manager.transaction_partition_verification_enable,
            now_ms=options.now_ms,
        )
        log.cancelled_in = self._cancelled_in
        log.loaded_epoch = self._loaded_epoch
        return log

    def add_empty_segment(self) -> None:
        self._log_end_offset = self._options.log_start_offset
        segment = Segment.create(
            self._files,
            self._folder,
            self._log_end_offset,
            self._config,
            created_ms=self._options.now_ms,
        )
        self._segments.add(segment)

    # --- files

    def _load_segments(self, names: list[str]) -> None:
        present = set(names)
        orphans: set[int] = set()
        for name in names:
            base_offset = base_offset_of(name)
            if base_offset is None:
                continue
            if name == file_name(base_offset, LOG_SUFFIX):
                segment = Segment.load(self._files, self._folder, base_offset, self._config)
                segment.is_synced = True
                self._segments.add(segment)
            elif (
                name.endswith(SEGMENT_SUFFIXES)
                and file_name(base_offset, LOG_SUFFIX) not in present
            ):
                orphans.add(base_offset)
                self._files.unlink(f"{self._folder}/{name}")
        if orphans:
            self._report_missing(sorted(orphans))

    def _report_missing(self, orphans: list[int]) -> None:
        """Names segments that were there, as their indexes show, and that others follow. What is
        missing at the end shows by the recovery point. A kill may leave indexes of segments that
        were compacted, or were never flushed; and below the first segment, of one that was deleted.
        """
        options, bases = self._options, self._segments.base_offsets
        if not options.clean:
            known = range(options.first_dirty_offset, options.recovery_point)
            orphans = [each for each in orphans if each in known and not self._config.compact]
        # By the segment that follows the first offset that is missing before it.
        missing: dict[int, int] = {}
        for orphan in orphans:
            number = bisect_left(bases, orphan)
            if number < len(bases) and bases[number] > options.log_start_offset:
                missing.setdefault(bases[number], orphan)
        if not missing:
            return
        gaps = [f"{start} to {end - 1}" for end, start in missing.items()]
        named = ", ".join(gaps[:PARTITIONS_NAMED_MAX])
        more = len(gaps) - PARTITIONS_NAMED_MAX
        others = f" and {count_text(more, 'more range')}" if more > 0 else ""
        path = f"{self._folder}/{file_name(next(iter(missing.values())), LOG_SUFFIX)}"
        doubt = (
            ". Only if the broker was killed while it deleted old segments, nothing is lost"
            if not options.clean and list(missing) == bases[:1]
            else ""
        )
        self._directory.report(
            f"{path} is missing, and its index is there: offsets {named}"
            f"{others} of {self._partition} "
            f"are lost here, and what follows them is served{doubt}. Unless another replica has "
            "the records, stop the broker and bring the files back from a copy"
        )

    def _check_transaction_indexes(self) -> None:
        segments = list(self._segments)
        for segment, following in zip_longest(segments, segments[1:]):
            try:
                aborts = segment.transaction_index.entries
            except CorruptFileError:
                self._rescan.add(segment.base_offset)
                continue
            if not aborts or (following is None and not self._options.clean):
                # What is recovered is scanned in any case.
                continue
            end = segment.read_next_offset() if following is None else following.base_offset
            if aborts[-1].last_offset >= end:
                self._rescan.add(segment.base_offset)

    def _split_overflowed(self) -> None:
        """Only offsets that lie far apart tell; what recovery scans tells it by its batches."""
        segments = list(self._segments)
        for segment, following in pairwise(segments):
            reach = following.base_offset - 1 - segment.base_offset
            if reach > RELATIVE_OFFSET_MAX and self._is_overflowed(segment):
                self._split(segment)
        is_trusted = self._options.clean and self._config.compact
        if segments and is_trusted and self._is_overflowed(segments[-1]):
            self._split(segments[-1])

    def _is_overflowed(self, segment: Segment) -> bool:
        try:
            return segment.read_next_offset() - 1 - segment.base_offset > RELATIVE_OFFSET_MAX
        except CorruptRecordsError:
            return False

    def _split(self, segment: Segment) -> None:
        self._segments.remove(segment)
        made = split_segment(self._files, segment)
        for new in made:
            self._segments.add(new)
            self._split_offsets.add(new.base_offset)

    def _load_epochs(self) -> None:
        path = f"{self._folder}/{LEADER_EPOCH_CHECKPOINT_FILE}"
        try:
            self._epochs = LeaderEpochCache.decode(path, read_whole(self._files, path))
        except FileNotFoundError:
            return
        except CorruptFileError:
            self._rebuild_epochs()

    def _rebuild_epochs(self) -> None:
        """Every batch carries its epoch; only epochs without a batch are lost for good."""
        for segment in self._segments:
            for batch in iter_headers(segment.file, 0, segment.size):
                self._take_epoch(batch.partition_leader_epoch, batch.base_offset)

    def _take_epoch(self, epoch: int, base_offset: int) -> None:
        latest = self._epochs.latest_epoch
        if epoch >= 0 and (latest is None or epoch > latest):
            self._epochs.assign(epoch, base_offset)

    # --- scanning

    def _recover(self) -> Iterator[RecoveryProgress]:
        """Scans from the segment of the recovery point on, or from a damaged one if that is
        earlier.
        """
        start = _OFFSET_MAX if self._options.clean else self._options.recovery_point
        unflushed = self._segments.between(min(self._rescan | {start}), _OFFSET_MAX)
        if not unflushed:
            return
        first = unflushed[0]
        yield from self._load_state_up_to(first.base_offset)
        next_offset = first.base_offset
        for number, segment in enumerate(unflushed):
            is_natural = (
                self._config.compact
                or segment.base_offset <= self._options.first_dirty_offset
                or segment.base_offset in self._split_offsets
            )
            has_gap = segment.base_offset > next_offset and not is_natural
            if segment.base_offset < next_offset or (has_gap and number > 0):
                self._report_cut(unflushed[number - 1], 0, unflushed[number:])
                self._remove(unflushed[number:])
                return
            for offset in self._recover_segment(segment):
                yield RecoveryProgress(self._partition, offset)
            if self._has_overflowed:
                # Once more from the start, with segments that fit.
                self._has_overflowed = False
                segment.size = segment.file.size()
                self._split(segment)
                yield from self._recover()
                return
            next_offset = self._state.end_offset
            is_spare = self._is_spare(segment)
            excess = segment.cut_file()
            if excess > 0:
                # Durable before anything is written over it; see kaa.log.truncation.
                segment.file.sync()
                later = unflushed[number + 1 :]
                if not is_spare or later:
                    self._report_cut(segment, excess, later)
                self._remove(later)
                return

    def _is_spare(self, segment: Segment) -> bool:
        """Whether what follows the last batch is room that was set aside for more of them."""
        return self._config.preallocate and not any(segment.file.read(HEADER_BYTES, segment.size))

    def _report_cut(self, segment: Segment, excess: int, later: list[Segment]) -> None:
        """Distinguishes what was never flushed, and may be torn, from what was, and is damaged."""
        self._has_reported_cut = True
        end, durable = self._state.end_offset, self._options.recovery_point
        segments = f", with {count_text(len(later), 'later segment')}" if later else ""
        lost = f". Offsets {end} to {durable - 1} had been flushed, and are lost here"
        self._directory.report(
            f"{self._partition} was recovered up to offset {end}: {segment.path(LOG_SUFFIX)} has "
            f"no valid batch at {segment.size}; {count_text(excess, 'byte')} from there on were "
            f"cut off{segments}{lost if durable > end else ''}"
        )

    def _load_state_up_to(self, offset: int) -> Iterator[RecoveryProgress]:
        start_offset = self._options.log_start_offset
        load_newest_snapshot(
            self._state, self._snapshots, start_offset, offset, self._options.now_ms
        )
        for end in replay_segments(self._state, self._segments, start_offset, offset):
            yield RecoveryProgress(self._partition, end)

    def _recover_segment(self, segment: Segment) -> Iterator[int]:
        """Takes over the valid batches of a segment; yields offsets on the way."""
        state = self._state
        state.end_offset = segment.base_offset
        if segment.base_offset > max([self._options.log_start_offset, *self._snapshots.offsets]):
            self._write_snapshot()
        end = segment.size
        segment.size = 0
        segment.is_synced = False
        segment.reset_indexes()
        segment.transaction_index.reset()
        next_yield = SCAN_WINDOW_BYTES
        for batch in iter_valid(segment.file, 0, end):
            if not segment.can_hold(batch.base_offset, batch.last_offset):
                # Only compaction put batches so far apart; elsewhere the offset is damaged.
                is_far = segment.base_offset <= batch.base_offset
                self._has_overflowed = is_far and self._config.compact
                break
            segment.commit(((batch.last_offset, batch.max_timestamp, batch.size_in_bytes),))
            self._take_epoch(batch.partition_leader_epoch, batch.base_offset)
            completed = replay_batch(state, segment, batch)
            if completed is not None:
                note_completed_transaction(state, segment, completed)
            if batch.file_position >= next_yield:
                next_yield = batch.file_position + SCAN_WINDOW_BYTES
                yield batch.next_offset
        segment.seal()

    def _write_snapshot(self) -> None:
        self._snapshots.write(self._state.end_offset, self._state.producers.values())

    def _remove(self, segments: list[Segment]) -> None:
        """Deletes segments beyond the end of the log, the newest first, so that no hole appears."""
        for segment in reversed(segments):
            self._segments.remove(segment)
            segment.delete()
            if segment.base_offset in self._snapshots.offsets:
                self._snapshots.delete(segment.base_offset)

    # --- the end

    def _find_end(self) -> None:
        if not len(self._segments):
            return
        self._log_end_offset = self._segments.active.read_next_offset()

    def _settle_start(self) -> None:
        """The log ends below its start. A clean stop writes both down, and a start beyond an end
        that is as it was then is wrong. Otherwise the end was lost, or removed by somebody else:
        what is left was to be deleted. But a wrong start looks the same, so it is put aside.
        """
        options, end, start = self._options, self._log_end_offset, self._options.log_start_offset
        said = f"{self._directory.path}/{LOG_START_OFFSET_CHECKPOINT_FILE} says"
        if options.clean and end >= options.recovery_point > 0:
            self._options = replace(options, log_start_offset=0)
            self._directory.report(
                f"{said} that {self._partition} begins at offset {start}, but it ended at {end} "
                "when the broker was stopped: that is not believed, and all records of it that are "
                "there are served. If some of them had been deleted, delete them again"
            )
            return
        self._directory.report(
            f"{said} that {self._partition} begins at offset {start}, but it ends at {end}: it is "
            f"empty now, and goes on at {start}. Records that were left are put aside in "
            f"{self._folder}, as *{LOG_SUFFIX}{ASIDE_SUFFIX}: delete these files. If the start was "
            "wrong, and no other replica has the records, stop the broker, set the start in that "
            "line to the right one and the recovery point of the partition to 0, remove "
            f"{CLEAN_SHUTDOWN_FILE}, and rename the files to *{LOG_SUFFIX}, in place of those there"
        )
        for segment in reversed(list(self._segments)):
            if segment.size:
                path = segment.path(LOG_SUFFIX)
                self._files.rename(path, path + ASIDE_SUFFIX)
            self._remove([segment])
        self._epochs.clear()

    def _check_end(self) -> None:
        """After a clean stop the cluster counts on this copy of all that was flushed. One that has
        lost some of it must not be taken for whole, nor be written to. After any other stop the
        cluster knows, and goes by what was recovered; the operator hears of it. A log without any
        record is taken for lost (`kaa.log.lost`), and of a copy its move makes up for what it lost.
        """
        end, durable = self._log_end_offset, self._options.recovery_point
        if end >= durable:
            return
        if self._options.clean:
            raise CorruptRecordsError(
                f"{self._folder} ends at offset {end}, and went on to {durable} when the broker "
                "was stopped"
            )
        is_empty = not len(self._segments) or end == self._segments.first.base_offset
        is_future = self._folder.endswith(FUTURE_FOLDER_SUFFIX)
        # Below its start the end is reported by itself, with what becomes of the log.
        is_said = self._has_reported_cut or end < self._options.log_start_offset
        if not is_empty and not is_future and not is_said:
            self._directory.report(
                f"{self._partition} ends at offset {end}: {self._folder} is shorter than it was. "
                f"Offsets {end} to {durable - 1} had been flushed, and are lost here: files of it "
                "were removed, or put back from an older copy. Only if the broker was killed while "
                "it cut the log back to that of its leader, nothing is lost. Unless another "
                "replica has the records, stop the broker and bring the files back from a copy"
            )

    def _load_producer_state(self) -> Iterator[RecoveryProgress]:
        end = self._log_end_offset
        self._snapshots.remove_strays(set(self._segments.base_offsets))
        start_offset = max(self._options.log_start_offset, self._segments.first.base_offset)
        if self._options.clean and not self._snapshots.offsets:
            # Nobody who writes snapshots was ever here; a scan of the whole log would find nothing.
            self._state.clear(end)
        elif self._state.end_offset != end or self._options.clean:
            load_newest_snapshot(
                self._state, self._snapshots, start_offset, end, self._options.now_ms
            )
            for offset in replay_segments(self._state, self._segments, start_offset, end):
                yield RecoveryProgress(self._partition, offset)
        if end > (self._snapshots.offsets[-1] if self._snapshots.offsets else start_offset):
            self._write_snapshot()


def clean_up_folder(files: Files, folder: str, config: LogConfig) -> list[str]:
    """Removes what was on its way out, finishes or undoes a swap; returns the names that stay."""
    cleaned: list[str] = []
    swaps: list[str] = []
    kept: list[str] = []
    for name in files.list_directory(folder):
        if name.endswith(CLEANED_SUFFIX):
            cleaned.append(name)
        elif name.endswith(SWAP_SUFFIX):
            swaps.append(name)
        elif name.endswith(_RAFT_SNAPSHOT_DELETED_SUFFIX):
            kept.append(name)
        elif name.endswith((TEMPORARY_SUFFIX, DELETED_SUFFIX)):
            files.unlink(f"{folder}/{name}")
        else:
            kept.append(name)
    if not cleaned and not swaps:
        return kept
    lowest_cleaned = min((base_offset_of(name) or 0 for name in cleaned), default=_OFFSET_MAX)
    for name in list(swaps):
        if (base_offset_of(name) or 0) >= lowest_cleaned:
            swaps.remove(name)
            files.unlink(f"{folder}/{name}")
    for name in cleaned:
        files.unlink(f"{folder}/{name}")
    _finish_swaps(files, folder, swaps, config)
    return files.list_directory(folder)


def _finish_swaps(files: Files, folder: str, swaps: list[str], config: LogConfig) -> None:
    """Deletes the segments that complete swap files replace, then gives these their names."""
    for name in swaps:
        base_offset = base_offset_of(name)
        if base_offset is None or not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            continue
        swap = Segment(files, folder, base_offset, config, suffix=SWAP_SUFFIX)
        swap.size = files.size(swap.path(LOG_SUFFIX))
        end_offset = base_offset
        with closing(swap):
            for batch in iter_headers(swap.file, 0, swap.size):
                end_offset = batch.next_offset
        for other in files.list_directory(folder):
            other_offset = base_offset_of(other)
            if (
                other_offset is not None
                and other.endswith(SEGMENT_SUFFIXES)
                and base_offset <= other_offset < max(end_offset, base_offset + 1)
            ):
                unlink_if_exists(files, f"{folder}/{other}")
    for name in swaps:
        files.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")
