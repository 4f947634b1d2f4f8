"""The metadata log on disk: `__cluster_metadata-0`, its segments and its snapshots.

The folder is an ordinary partition folder (`kaa.log`) with a fixed topic id, plus snapshots
(`kaa.quorum.snapshots`). Three things differ from the log of a topic:

* The recovery point needs no checkpoint. A snapshot holds committed records only, and what is
  committed was synced, so everything below the newest snapshot is durable, and recovery scans from
  there on.
* Records are removed only below a snapshot: the log start moves to the end offset of a snapshot
  that stays, then whole segments below it and older snapshots go. Retention by size counts log and
  snapshots together, retention by time looks at the newest record of a snapshot; the newest
  snapshot always stays.
* A log that ends before its newest snapshot (a snapshot was fetched, and the process ended before
  the log was emptied) is emptied and goes on at the snapshot's end.

The log start is not stored. After a restart it is the base offset of the first segment, and
snapshots below that are removed.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import METADATA_BATCH_BYTES_MAX, METADATA_DELETE_DELAY_MS, METADATA_READ_BYTES
from kaa.log.append import AppendSource, append_as_follower, append_as_leader
from kaa.log.config import LogConfig
from kaa.log.errors import CorruptFileError
from kaa.log.files import unlink_if_exists
from kaa.log.log import FetchIsolation
from kaa.log.names import LOG_SUFFIX, folder_name
from kaa.log.properties import write_topic_id
from kaa.log.recovery import LoadOptions, create_log, load_log
from kaa.log.truncation import begin_restart, begin_truncation, truncate_fully_and_start_at
from kaa.model.kinds import AppendOrigin
from kaa.model.pieces import finish
from kaa.model.topics import CLUSTER_METADATA, TopicPartition
from kaa.quorum.log_view import OffsetAndEpoch, end_offset_for_epoch
from kaa.quorum.snapshots import (
    DELETED_SUFFIX,
    PARTIAL_SUFFIX,
    SnapshotValues,
    load_snapshot,
    parse_snapshot_name,
    snapshot_name,
    snapshot_timestamp,
)
from kaa.records.batch import iter_batches
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from kaa.log.dirs import LogDirectory
    from kaa.log.files import File, Files
    from kaa.log.log import UnifiedLog
    from kaa.log.truncation import PendingTruncation
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.records.batch import RecordBatch

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA, 0)
METADATA_TOPIC_ID = Uuid((1).to_bytes(16, "big"))
_FOR_EVER = -1
_BY_QUORUM = AppendSource(AppendOrigin.RAFT_LEADER)


class MetadataLogConfig(NamedTuple):
    """The settings of the metadata log, under Kafka's names, with its defaults."""

    metadata_log_segment_bytes: int = 1024 * 1024 * 1024
    metadata_log_segment_ms: int = 604_800_000
    metadata_max_retention_bytes: int = 104_857_600
    metadata_max_retention_ms: int = 604_800_000

    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.metadata_log_segment_bytes,
            segment_ms=self.metadata_log_segment_ms,
            max_message_bytes=METADATA_BATCH_BYTES_MAX,
            file_delete_delay_ms=METADATA_DELETE_DELAY_MS,
            retention_ms=_FOR_EVER,
            retention_bytes=_FOR_EVER,
        )


class MetadataLog:
    """The metadata log of one node, with its snapshots; the `kaa.quorum.LogView` of the machine.
    Appends are durable only after a flush (`flush_job`, then `complete_flush`).
    """

    def __init__(
        self, log: UnifiedLog, config: MetadataLogConfig, snapshot_sizes: dict[OffsetAndEpoch, int]
    ) -> None:
        self._log = log
        self._config = config
        self._files: Files = log.directory.files
        # Every complete snapshot, oldest first, with its size in bytes.
        self._snapshots = dict(sorted(snapshot_sizes.items()))
        # Paths of removed snapshots, with the time at which they are unlinked.
        self._doomed: list[tuple[int, str]] = []
        # What is the same for every log.
        self.begin_truncation = partial(begin_truncation, log)
        self.update_high_watermark = log.update_high_watermark
        self.flush_job = log.flush_job
        self.complete_flush = log.complete_flush
        self.fail_flush = log.fail_flush

    @property
    def folder(self) -> str:
        return self._log.folder

    def steady_ms(self, now_ms: int) -> int:
        """The time by which removed files wait for their end."""
        return self._log.directory.steady_ms(now_ms)

    # --- what the machine may ask

    def end(self) -> OffsetAndEpoch:
        epoch = self._log.leader_epochs.latest_epoch
        if epoch is None:
            latest = self.latest_snapshot_id()
            epoch = 0 if latest is None else latest.epoch
        return OffsetAndEpoch(self._log.log_end_offset, epoch)

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def start_offset(self) -> int:
        return self._log.log_start_offset

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        entries = self._log.leader_epochs.entries
        return end_offset_for_epoch(entries, self.end(), self.earliest_snapshot_id(), epoch)

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(iter(self._snapshots), None)

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(reversed(self._snapshots), None)

    def snapshot_size_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        return self._snapshots.get(snapshot_id)

    # --- records

    def append_as_leader(self, batch: bytearray, epoch: int, now_ms: int) -> int:
        """Appends one batch at the end; returns the offset of its first record."""
        info = append_as_leader(
            self._log, batch, leader_epoch=epoch, now_ms=now_ms, source=_BY_QUORUM
        )
        return info.first_offset

    def append_as_follower(self, records: bytes | memoryview, epoch: int, now_ms: int) -> None:
        append_as_follower(self._log, records, leader_epoch=epoch, now_ms=now_ms)

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on, at least one unless at the end."""
        found = self._log.read(offset, bytes_max=bytes_max, isolation=FetchIsolation.LOG_END)
        if found.region is None:
            return b""
        try:
            return found.region.read()
        finally:
            found.region.release()

    def batches(self, start_offset: int, end_offset: int) -> Iterator[RecordBatch]:
        """The batches from one boundary between batches to another."""
        offset = start_offset
        while offset < end_offset:
            for batch in iter_batches(self.read(offset, METADATA_READ_BYTES)):
                if batch.base_offset >= end_offset:
                    return
                yield batch
                offset = batch.next_offset

    def close(self, now_ms: int) -> None:
        self._log.close_cleanly(now_ms)

    def abandon(self) -> None:
        """Closes the files as they are, after a failure."""
        self._log.close()

    # --- snapshots

    def snapshot_path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self.folder}/{snapshot_name(snapshot_id)}"

    def begin_snapshot(self, snapshot_id: OffsetAndEpoch) -> SnapshotWriter:
        return SnapshotWriter(self._files, self.folder, snapshot_id)

    def add_snapshot(self, writer: SnapshotWriter, now_ms: int) -> None:
        """Takes note of a snapshot that was finished."""
        self._snapshots[writer.id] = writer.size
        self._snapshots = dict(sorted(self._snapshots.items()))
        if writer.id.offset < self._log.log_start_offset:
            # Another one was fetched meanwhile, and took the place of the log.
            self._remove_snapshot(writer.id, now_ms)

    def open_snapshot(self, snapshot_id: OffsetAndEpoch) -> File:
        """For the caller to read and to close; the snapshot may be removed meanwhile."""
        return self._files.open(self.snapshot_path(snapshot_id))

    def start_at_snapshot(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        """Empties the log; it goes on at the end of a snapshot that is kept."""
        truncate_fully_and_start_at(self._log, snapshot_id.offset, now_ms)
        self.remove_snapshots_before(snapshot_id, now_ms)

    def begin_start_at(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> PendingTruncation:
        """The same in steps; `remove_snapshots_before` is for the caller to call after the last."""
        return begin_restart(self._log, snapshot_id.offset, now_ms)

    def cleaning_steps(self, now_ms: int) -> Iterator[Callable[[], object]]:
        """Applies retention, and unlinks what was removed long enough ago. A step waits for the
        disk, and a thread may take it; in between files are renamed at most.
        """
        steady_ms = self.steady_ms(now_ms)
        due = [path for deadline_ms, path in self._doomed if deadline_ms <= steady_ms]
        self._doomed = [entry for entry in self._doomed if entry[0] > steady_ms]
        for path in (*self._log.take_due(now_ms), *due):
            yield partial(unlink_if_exists, self._files, path)
        self._clean_by_size(now_ms)
        yield from self._clean_by_time(now_ms)

    def _clean_by_size(self, now_ms: int) -> None:
        bytes_max = self._config.metadata_max_retention_bytes
        if bytes_max < 0:
            return
        for oldest, following in pairwise(list(self._snapshots)):
            total = self._log.size_in_bytes + sum(self._snapshots.values())
            if total <= bytes_max or not self._delete_before(following, now_ms):
                break
            assert oldest not in self._snapshots

    def _clean_by_time(self, now_ms: int) -> Iterator[Callable[[], object]]:
        retention_ms = self._config.metadata_max_retention_ms
        if retention_ms < 0:
            return
        timestamps: list[int] = []

        def read(path: str) -> None:
            timestamps.append(snapshot_timestamp(self._files, path))

        for oldest, following in pairwise(list(self._snapshots)):
            yield partial(read, self.snapshot_path(oldest))
            if following not in self._snapshots:
                # Others removed it meanwhile.
                break
            is_old = now_ms - timestamps[-1] > retention_ms
            if not is_old or not self._delete_before(following, now_ms):
                break

    def _delete_before(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> bool:
        """Lets the log start at a snapshot; whether it did."""
        log = self._log
        if snapshot_id.offset > log.high_watermark:
            return False
        if not log.increment_log_start_offset(snapshot_id.offset):
            return False
        old = [
            segment
            for segment, following in pairwise(list(log.segments))
            if following.base_offset <= log.log_start_offset
        ]
        log.remove_segments(old, now_ms)
        self.remove_snapshots_before(snapshot_id, now_ms)
        return True

    def remove_snapshots_before(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        for older in [other for other in self._snapshots if other < snapshot_id]:
            self._remove_snapshot(older, now_ms)

    def _remove_snapshot(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        del self._snapshots[snapshot_id]
        doomed = f"{self.folder}/{snapshot_name(snapshot_id, DELETED_SUFFIX)}"
        self._files.rename(self.snapshot_path(snapshot_id), doomed)
        self._doomed.append((self.steady_ms(now_ms) + METADATA_DELETE_DELAY_MS, doomed))


class SnapshotWriter:
    """A snapshot on its way to disk. Safe to use from another thread than the log's."""

    def __init__(self, files: Files, folder: str, snapshot_id: OffsetAndEpoch) -> None:
        self.id = snapshot_id
        self.size = 0
        self._files = files
        self._folder = folder
        self._path = f"{folder}/{snapshot_name(snapshot_id, PARTIAL_SUFFIX)}"
        self._file: File = files.create(self._path)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._file.write([data], self.size)
        self.size += len(data)

    def finish(self) -> None:
        """Makes the file durable and gives it its name."""
        self._file.sync()
        self._file.close()
        self._publish()

    def finish_checked(self) -> SnapshotContent:
        """The same with what somebody else wrote, if nothing is wrong with it. CorruptFileError
        leaves no file.
        """
        self._file.sync()
        self._file.close()
        try:
            content = load_snapshot(self._files, self._path)
        except CorruptFileError:
            unlink_if_exists(self._files, self._path)
            raise
        return content._replace(values=SnapshotValues(self._files, self._publish()))

    def _publish(self) -> str:
        path = f"{self._folder}/{snapshot_name(self.id)}"
        self._files.rename(self._path, path)
        self._files.sync_directory(self._folder)
        return path

    def abandon(self) -> None:
        self._file.close()
        unlink_if_exists(self._files, self._path)


class OpenedLog(NamedTuple):
    """A metadata log after recovery, and the snapshot to start from."""

    log: MetadataLog
    snapshot_id: OffsetAndEpoch | None
    snapshot: SnapshotContent | None


def open_metadata_log(
    directory: LogDirectory, config: MetadataLogConfig, now_ms: int, random: Random
) -> OpenedLog:
    """Recovers the log in `directory`, or creates it, and leaves it durable."""
    files = directory.files
    folder = f"{directory.path}/{folder_name(METADATA_PARTITION)}"
    files.make_directory(folder)
    names = files.list_directory(folder)
    newest = _newest_snapshot(files, folder, names, directory.report)
    newest_id, content = newest if newest is not None else (None, None)
    options = LoadOptions(now_ms, recovery_point=0 if newest_id is None else newest_id.offset)
    log_config = config.log_config()
    if any(name.endswith(LOG_SUFFIX) for name in names):
        unified = finish(
            load_log(directory, folder, METADATA_PARTITION, log_config, random, options)
        )
        # The name of the folder may be as young as the killed process that made it.
        files.sync_directory(directory.path)
        if unified.topic_id is None:
            unified.unsynced_files.append(write_topic_id(files, folder, METADATA_TOPIC_ID))
    else:
        unified = create_log(
            directory, METADATA_PARTITION, METADATA_TOPIC_ID, log_config, random, options
        )
    log = MetadataLog(unified, config, _clean_snapshots(files, folder, unified, newest_id))
    if newest_id is not None and newest_id > log.end():
        log.start_at_snapshot(newest_id, now_ms)
    unified.flush(now_ms)
    return OpenedLog(log, newest_id, content)


def _newest_snapshot(
    files: Files, folder: str, names: list[str], report: Callable[[str], None]
) -> tuple[OffsetAndEpoch, SnapshotContent] | None:
    """The newest snapshot that is not damaged. A damaged one is passed over, not removed."""
    parsed = [parse_snapshot_name(name) for name in names]
    ids = sorted(name.id for name in parsed if name is not None and not name.mark)
    damages: list[CorruptFileError] = []
    for snapshot_id in reversed(ids):
        name = snapshot_name(snapshot_id)
        try:
            content = load_snapshot(files, f"{folder}/{name}")
        except CorruptFileError as error:
            damages.append(error)
            continue
        for damage in damages:
            report(f"{damage}: this snapshot is passed over for {name} and the log after it")
        return snapshot_id, content
    if damages:
        raise damages[-1]
    return None


def _clean_snapshots(
    files: Files, folder: str, log: UnifiedLog, newest_id: OffsetAndEpoch | None
) -> dict[OffsetAndEpoch, int]:
    """Removes what was being written, what was on its way out, and what is below the log."""
    if log.log_start_offset > 0 and (newest_id is None or newest_id.offset < log.log_start_offset):
        raise CorruptFileError(
            folder,
            f"the log starts at {log.log_start_offset} and no usable snapshot reaches that far",
        )
    sizes = {}
    for name in files.list_directory(folder):
        parsed = parse_snapshot_name(name)
        if parsed is None:
            continue
        if parsed.mark or parsed.id.offset < log.log_start_offset:
            unlink_if_exists(files, f"{folder}/{name}")
        elif newest_id is not None and parsed.id <= newest_id:
            sizes[parsed.id] = files.size(f"{folder}/{name}")
    return sizes
