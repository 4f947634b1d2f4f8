"""Logs on simulated disks, for the tests of everything above a single file."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.dirs import LogDirectory
from kaa.log.files import unlink_if_exists
from kaa.log.log import FetchIsolation
from kaa.log.lookup import BatchSearch, look_up
from kaa.log.names import RECOVERY_POINT_CHECKPOINT_FILE, folder_name
from kaa.log.recovery import LoadOptions, create_log, load_log
from kaa.log.sim_files import SimFiles
from kaa.model.topics import TopicPartition
from kaa.records.batch import RecordBatch, iter_batches
from kaa.records.record import Record, iter_records
from tests.support.ids import uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.log.jobs import Job
    from kaa.log.log import UnifiedLog
    from kaa.log.lookup import TimestampAndOffset

ROOT = "/data"
PARTITION = TopicPartition("topic", 0)
TOPIC_ID = uuid(77)
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150)
"""About five small batches per segment."""
NO_VERIFICATION = LogManagerConfig(transaction_partition_verification_enable=False)


def new_disk(crash_at: int | None = None) -> SimFiles:
    """An empty, durable log directory. `crash_at` counts from here."""
    files = SimFiles()
    files.make_directory(ROOT)
    files.sync_directory("/")
    if crash_at is not None:
        files.crash_at = len(files.history) + crash_at
    return files


def new_log(
    files: SimFiles,
    config: LogConfig = SMALL,
    *,
    partition: TopicPartition = PARTITION,
    manager: LogManagerConfig = NO_VERIFICATION,
) -> UnifiedLog:
    directory = LogDirectory(files, ROOT)
    options = LoadOptions(now_ms=0, manager=manager)
    log = create_log(directory, partition, TOPIC_ID, config, Random(1), options)
    directory.logs[partition] = log
    return log


def reload(
    files: SimFiles,
    config: LogConfig = SMALL,
    *,
    clean: bool = False,
    log_start_offset: int = 0,
    recovery_point: int | None = None,
    now_ms: int = 0,
    report: Callable[[str], None] = lambda _: None,
) -> UnifiedLog:
    """The log as the next process loads it, with the recovery point of the checkpoint."""
    directory = LogDirectory(files, ROOT)
    directory.report = report
    if not clean:
        files.sync_directory(ROOT)
    if recovery_point is None:
        table = directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT_FILE)
        recovery_point = table.get(PARTITION, 0)
    options = LoadOptions(
        now_ms=now_ms,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        manager=NO_VERIFICATION,
    )
    folder = f"{ROOT}/{folder_name(PARTITION)}"
    loading = load_log(directory, folder, PARTITION, config, Random(1), options)
    while True:
        try:
            next(loading)
        except StopIteration as stop:
            log: UnifiedLog = stop.value
            directory.logs[PARTITION] = log
            return log


def purge(log: UnifiedLog, now_ms: int) -> None:
    """Unlinks removed files whose time has come."""
    for path in log.take_due(now_ms):
        unlink_if_exists(log.directory.files, path)


def stored_batches(log: UnifiedLog, start_offset: int | None = None) -> list[RecordBatch]:
    """Every batch of the log, read as a replica reads it."""
    offset = log.log_start_offset if start_offset is None else start_offset
    batches: list[RecordBatch] = []
    while offset < log.log_end_offset:
        result = log.read(offset, bytes_max=300, isolation=FetchIsolation.LOG_END)
        if result.region is None:
            break
        batches += iter_batches(result.region.read())
        result.region.release()
        offset = batches[-1].next_offset
    return batches


def stored_records(log: UnifiedLog) -> list[Record]:
    return [record for batch in stored_batches(log) for record in iter_records(batch)]


def run_jobs(jobs: Iterable[Job | None], now_ms: int) -> None:
    """Runs jobs on the calling thread."""
    for job in jobs:
        if job is None:
            continue
        try:
            job.run()
        except OSError as error:
            job.failed(error)
        else:
            job.done(now_ms)


def fetch_offset(log: UnifiedLog, timestamp: int) -> TimestampAndOffset | None:
    """The answer to a timestamp or a question, after as many searches as it takes."""
    found = look_up(log, timestamp)
    while isinstance(found, BatchSearch):
        answer = found.run()
        if answer is not None:
            return answer
        found = look_up(log, timestamp, found.next_offset)
    return found
