"""All logs of a broker over several directories."""

from __future__ import annotations

import errno
from dataclasses import replace
from random import Random

import pytest

from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.dirs import LogDirectory
from kaa.log.errors import CorruptFileError, LogError, StorageError
from kaa.log.files import read_whole, remove_tree
from kaa.log.jobs import Job
from kaa.log.log import UnifiedLog
from kaa.log.manager import LogManager
from kaa.log.sim_files import CrashError, Fault, Inspection, SimFiles
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from tests.support.ids import uuid
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, run_jobs, stored_batches

A, B = "/a", "/b"
TOPIC_ID = uuid(5)
CONFIG = LogManagerConfig(transaction_partition_verification_enable=False)


def _manager(
    files: SimFiles,
    paths: tuple[str, ...] = (A,),
    config: LogConfig = SMALL,
    offline: list[LogDirectory] | None = None,
) -> LogManager:
    on_offline = None if offline is None else offline.append
    return LogManager(files, paths, CONFIG, Random(3), lambda _: config, on_offline)


def _started(
    files: SimFiles, paths: tuple[str, ...] = (A,), config: LogConfig = SMALL
) -> LogManager:
    manager = _manager(files, paths, config)
    return _start(manager)


def _start(manager: LogManager) -> LogManager:
    manager.lock()
    for _ in manager.start(now_ms=0):
        pass
    return manager


def _jobs(manager: LogManager, now_ms: int) -> list[Job]:
    return [job for job in manager.tick(now_ms) if job is not None]


def _partition(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def _filled(manager: LogManager, partition: TopicPartition, count: int = 10) -> UnifiedLog:
    log = manager.get_or_create(partition, TOPIC_ID, now_ms=0)
    for n in range(count):
        log.append(batch(2, timestamp=n), leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    return log


def _stop(manager: LogManager) -> None:
    for _ in manager.shutdown(now_ms=0, broker_epoch=15):
        pass


# --- start and stop


def test_a_clean_stop_and_start() -> None:
    files = SimFiles()
    manager = _started(files)
    assert manager.clean_broker_epochs == {A: None}
    _filled(manager, _partition(0))
    _filled(manager, _partition(1), 3)
    _stop(manager)
    assert files.open_handles == 0
    assert read_whole(files, "/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":15}'
    files.sync_directory("/")
    files = files.restart("lost")
    manager = _started(files)
    assert manager.clean_broker_epochs == {A: 15}
    assert not files.exists("/a/.kafka_cleanshutdown")
    log = manager.logs[_partition(0)]
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (20, 20, 20)
    assert log.topic_id == TOPIC_ID
    assert manager.logs[_partition(1)].log_end_offset == 6


def test_a_crash_while_loading_is_no_clean_stop() -> None:
    files = SimFiles()
    manager = _started(files)
    _filled(manager, _partition(0))
    _stop(manager)
    files.sync_directory("/")
    files = files.restart("lost")
    manager = _manager(files)
    manager.lock()
    assert next(manager.start(now_ms=0), None) is None
    manager = _started(files.restart("lost"))
    assert manager.clean_broker_epochs == {A: None}
    assert manager.logs[_partition(0)].log_end_offset == 20


def test_a_directory_in_use_is_refused_and_left_alone() -> None:
    files = SimFiles()
    _started(files, (B,))
    other = _manager(files, (A, B))
    with pytest.raises(BlockingIOError):
        other.lock()
    assert files.locked == {"/b/.lock"}


def test_foreign_and_metadata_folders_are_left_alone() -> None:
    files = SimFiles()
    for name in ("lost+found", "y-1.ab-stray", "__cluster_metadata-0"):
        files.make_directory(f"/a/{name}")
    files.create("/a/file").close()
    manager = _started(files)
    assert manager.logs == {}
    assert manager.ignored_folders == ["/a/lost+found", "/a/y-1.ab-stray"]


@pytest.mark.parametrize("winner", [A, B])
def test_of_the_logs_of_two_topics_the_one_that_is_known_wins(winner: str) -> None:
    """A disk was away while its topic was made again."""
    files, ids = SimFiles(), {A: uuid(6), B: uuid(7)}
    for path, topic_id in ids.items():
        manager = _started(files, (path,))
        log = manager.get_or_create(_partition(0), topic_id, now_ms=0)
        log.append(batch(2), leader_epoch=0, now_ms=0)
        _stop(manager)
    manager = _manager(files, (A, B))
    for _ in manager.start(0, lambda _, topic_id: topic_id == ids[winner]):
        pass
    log = manager.logs[_partition(0)]
    assert (log.folder, log.topic_id) == (f"{winner}/t-0", ids[winner])
    loser = A if winner == B else B
    (aside,) = manager.strays
    assert aside.startswith(f"{loser}/t-0.")
    assert aside.endswith("-stray")
    assert files.exists(f"{aside}/00000000000000000000.log")
    assert not files.exists(f"{loser}/t-0")


def test_a_log_in_two_directories_stops_the_start() -> None:
    files = SimFiles()
    for path in (A, B):
        files.make_directory(f"{path}/t-0")
    with pytest.raises(CorruptFileError, match=f"{B}/t-0: the same partition is in {A}/t-0"):
        _started(files, (A, B))


# --- placement and failure


def test_new_logs_go_where_the_fewest_are() -> None:
    manager = _started(SimFiles(), (A, B))
    manager.directories[1].directory_id = uuid(9)
    for n in range(4):
        manager.get_or_create(_partition(n), None, now_ms=0)
    assert [len(directory.logs) for directory in manager.directories] == [2, 2]
    log = manager.get_or_create(_partition(9), None, now_ms=0, directory_id=uuid(9))
    assert log.directory.path == B
    unknown = manager.get_or_create(_partition(10), None, now_ms=0, directory_id=uuid(1))
    assert unknown.directory.path == A


def test_the_same_partition_is_the_same_log() -> None:
    manager = _started(SimFiles())
    log = manager.get_or_create(_partition(0), None, now_ms=0)
    assert manager.get_or_create(_partition(0), TOPIC_ID, now_ms=0) is log
    assert log.topic_id == TOPIC_ID
    assert manager.get(_partition(0)) is log
    assert manager.get(_partition(1)) is None
    with pytest.raises(LogError) as caught:
        manager.get_or_create(_partition(0), uuid(6), now_ms=0)
    assert caught.value.error is Errors.INCONSISTENT_TOPIC_ID


def test_a_failed_directory_leaves_the_others_serving() -> None:
    files = SimFiles()
    offline: list[LogDirectory] = []
    manager = _start(_manager(files, (A, B), offline=offline))
    logs = [_filled(manager, _partition(n)) for n in range(2)]
    files.faults.append(Fault("write", "/a/t-0", errno.EIO))
    with pytest.raises(StorageError):
        logs[0].append(batch(1), leader_epoch=0, now_ms=0)
    logs[1].append(batch(1), leader_epoch=0, now_ms=0)
    assert [directory.path for directory in offline] == [A]
    assert manager.get_or_create(_partition(7), None, now_ms=0).directory.path == B
    for now_ms in range(0, 400_000, 100_000):
        run_jobs(manager.tick(now_ms), now_ms)
    _stop(manager)
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")
    manager = _started(files.restart("kill"), (A, B))
    assert manager.clean_broker_epochs == {A: None, B: 15}
    assert manager.logs[_partition(0)].log_end_offset == 20


def test_a_directory_that_cannot_be_used_at_start_is_offline() -> None:
    files = SimFiles()
    files.create("/a").close()
    manager = _started(files, (A, B))
    assert [directory.is_online for directory in manager.directories] == [False, True]
    files = SimFiles()
    files.create("/a").close()
    with pytest.raises(StorageError):
        _started(files)


def test_creation_moves_on_to_the_next_directory() -> None:
    files = SimFiles()
    manager = _started(files, (A, B))
    files.faults.append(Fault("create", "/a/t-0", errno.ENOSPC))
    assert manager.get_or_create(_partition(0), None, now_ms=0).directory.path == B
    files.faults.append(Fault("mkdir", "/b/t-1", errno.EIO))
    with pytest.raises(StorageError):
        manager.get_or_create(_partition(1), None, now_ms=0)


# --- deletion


def test_deleted_logs_are_renamed_then_removed() -> None:
    files = SimFiles()
    manager = _started(files)
    _filled(manager, _partition(0))
    log = _filled(manager, _partition(1))
    region = log.read(0, bytes_max=100).region
    assert region is not None
    manager.delete([_partition(1), _partition(99)], now_ms=1000)
    (name,) = (n for n in files.list_directory(A) if n.endswith("-delete"))
    assert name.startswith("t-1.")
    assert manager.get(_partition(1)) is None
    run_jobs(manager.tick(60_999), 60_999)
    assert b"t 1 " not in read_whole(files, "/a/recovery-point-offset-checkpoint")
    assert files.exists(f"{A}/{name}")
    run_jobs(manager.tick(61_000), 61_000)
    assert not files.exists(f"{A}/{name}")
    assert len(region.read()) == region.length
    region.release()
    again = manager.get_or_create(_partition(1), uuid(8), now_ms=0)
    assert again.log_end_offset == 0


def test_name_of_a_deleted_log_is_free_once_no_checkpoint_has_it() -> None:
    files = SimFiles()
    manager = _started(files)
    _filled(manager, _partition(1))
    run_jobs(manager.tick(0), 0)
    (directory,) = {log.directory for log in manager.logs.values()}
    directory.checkpoint_high_watermarks()
    manager.delete([_partition(1)], now_ms=0)
    assert manager.is_stale(_partition(1))
    assert not manager.is_stale(_partition(2))
    jobs = [job for job in manager.forget_deleted() if job is not None]
    assert [job.directory for job in jobs] == [directory] * 4
    for job in jobs:
        assert manager.is_stale(_partition(1))
        run_jobs([job], 0)
    assert not manager.is_stale(_partition(1))
    name = f"{directory.path}/replication-offset-checkpoint"
    assert b"t 1 " not in read_whole(files, name)
    assert not list(manager.forget_deleted())


def test_folders_marked_for_deletion_are_removed_after_a_restart() -> None:
    files = SimFiles()
    manager = _started(files)
    _filled(manager, _partition(0))
    manager.delete([_partition(0)], now_ms=0)
    manager.abandon()
    files = files.restart("kill")
    manager = _started(files)
    assert manager.logs == {}
    run_jobs(manager.tick(60_000), 60_000)
    assert not [n for n in files.list_directory(A) if n.endswith("-delete")]


def _delete_records(manager: LogManager, offset: int) -> None:
    """Durably, of the first partition."""
    directory = manager.delete_records(_partition(0), offset)
    assert directory is not None
    run_jobs(manager.checkpoint_starts(directory), 0)


def test_checkpoints_of_a_deleted_log_do_not_meet_its_successor() -> None:
    for crash_at in range(30):
        files = SimFiles()
        manager = _started(files)
        _filled(manager, _partition(0))
        _delete_records(manager, 15)
        files.sync_directory("/")
        files.crash_at = len(files.history) + crash_at
        try:
            manager.delete([_partition(0)], now_ms=0)
            manager.get_or_create(_partition(0), uuid(6), now_ms=0)
            finished = True
        except CrashError:
            finished = False
        manager = _started(files.restart("kill"))
        log = manager.get_or_create(_partition(0), None, now_ms=0)
        assert (log.log_start_offset, log.log_end_offset) in {(15, 20), (0, 0)}
        if finished:
            return
    pytest.fail("the deletion never finished")


def test_a_log_that_somebody_removed_is_known_to_be_lost_until_there_is_another_one() -> None:
    files = SimFiles()
    manager = _started(files, (A, B))
    for number in range(4):
        _filled(manager, _partition(number))
    gone = next(iter(manager.directories[1].logs))
    _stop(manager)
    remove_tree(files, f"{B}/{gone}")
    for _ in range(2):
        manager = _started(files, (A, B))
        assert [one for one in map(_partition, range(4)) if manager.is_lost(one)] == [gone]
        _stop(manager)
    manager = _started(files, (A, B))
    manager.get_or_create(gone, TOPIC_ID, now_ms=0)
    assert not manager.is_lost(gone)
    # The new one is recovered from where it begins, not from where the old one was durable.
    for directory in manager.directories:
        assert directory.read_checkpoint("recovery-point-offset-checkpoint").get(gone, 0) == 0
    manager = _started(files.restart("kill"), (A, B))
    assert not manager.is_lost(gone)


def test_a_log_that_this_broker_removed_or_was_about_to_is_not_lost() -> None:
    files = SimFiles()
    manager = _started(files, (A, B))
    for number in range(2):
        _filled(manager, _partition(number))
    _stop(manager)
    manager = _started(files, (A, B))
    first = next(iter(manager.directories[0].logs))
    manager.delete([first], now_ms=0)
    second = next(iter(manager.directories[1].logs))
    files.rename(f"{B}/{second}", f"{B}/{second}.{'0' * 32}-future")
    manager = _started(files.restart("kill"), (A, B))
    assert not manager.is_lost(first)
    assert not manager.is_lost(second)
    assert manager.get_or_create(first, TOPIC_ID, now_ms=0).log_end_offset == 0
    assert manager.futures.logs[second].log_end_offset == 20


def test_strays_are_put_aside() -> None:
    files = SimFiles()
    manager = _started(files)
    _filled(manager, _partition(0))
    _filled(manager, _partition(1))
    for _ in manager.mark_strays(lambda partition, _: partition.partition == 0, now_ms=0):
        pass
    assert set(manager.logs) == {_partition(0)}
    (name,) = (n for n in files.list_directory(A) if n.endswith("-stray"))
    run_jobs(manager.tick(10**9), 10**9)
    assert files.exists(f"{A}/{name}")


def test_deleted_records_stay_deleted() -> None:
    files = SimFiles()
    manager = _started(files)
    log = _filled(manager, _partition(0))
    log.flush(now_ms=0)
    files.sync_directory("/")
    _delete_records(manager, 7)
    assert manager.delete_records(_partition(0), 7) is None, "it has not moved"
    with pytest.raises(LogError) as missing:
        manager.delete_records(_partition(1), 1)
    assert missing.value.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(LogError) as refused:
        manager.delete_records(_partition(0), 99)
    assert refused.value.error is Errors.OFFSET_OUT_OF_RANGE
    log = _started(files.restart("lost")).logs[_partition(0)]
    assert log.log_start_offset == 7


# --- crashes


class _Life:
    """What a broker does between two starts, with what it promised on the way."""

    def __init__(self, files: SimFiles) -> None:
        self.files = files
        self.contents: dict[TopicPartition, list[bytes]] = {}
        self.durable: dict[TopicPartition, int] = {}
        self.start_offsets: dict[TopicPartition, int] = {}
        self.deleted: set[TopicPartition] = set()
        self.is_stopped = False

    def live(self) -> None:
        manager = _started(self.files, config=replace(SMALL, file_delete_delay_ms=0))
        self.files.sync_directory("/")
        for number in range(3):
            self._write(manager, _partition(number), 8)
        self._flush(manager, _partition(0))
        _delete_records(manager, 5)
        self.start_offsets[_partition(0)] = 5
        self.deleted.add(_partition(1))
        manager.delete([_partition(1)], now_ms=0)
        run_jobs(manager.tick(0), 0)
        run_jobs(manager.tick(60_000), 60_000)
        self._write(manager, _partition(2), 8)
        self._flush(manager, _partition(2))
        _stop(manager)
        self.is_stopped = True

    def _write(self, manager: LogManager, partition: TopicPartition, count: int) -> None:
        log = manager.get_or_create(partition, TOPIC_ID, now_ms=0)
        for n in range(count):
            content = batch(2, base_offset=log.log_end_offset, timestamp=n)
            self.contents.setdefault(partition, []).append(bytes(content))
            log.append(content, leader_epoch=0, now_ms=0)
        log.update_high_watermark(log.log_end_offset)

    def _flush(self, manager: LogManager, partition: TopicPartition) -> None:
        log = manager.logs[partition]
        log.flush(now_ms=0)
        self.durable[partition] = log.recovery_point

    def check(self, manager: LogManager, *, killed: bool) -> None:
        for partition, contents in self.contents.items():
            log = manager.logs.get(partition)
            promised = self.durable.get(partition, 0)
            if killed:
                promised = max(promised, 2 * (len(contents) - 1))
            if partition in self.deleted:
                promised = 0
            if log is None:
                assert promised == 0
                continue
            assert log.log_end_offset >= promised
            assert log.log_start_offset >= self.start_offsets.get(partition, 0)
            assert log.log_start_offset in {0, 5}
            first = log.log_start_offset // 2
            found = [bytes(b.view) for b in stored_batches(log)]
            assert found == contents[first : first + len(found)]
        if self.is_stopped:
            assert manager.clean_broker_epochs == {A: 15}


def test_a_crash_at_every_step_of_a_broker_keeps_its_promises() -> None:
    crash_at, finished = 0, False
    while not finished:
        for mode, seed in (("kill", 0), ("lost", 0), ("torn", crash_at), ("torn", crash_at + 7)):
            life = _Life(SimFiles(crash_at=crash_at))
            try:
                life.live()
                finished = True
            except CrashError:
                finished = False
            after = life.files.restart(mode, seed=seed)  # type: ignore[arg-type]
            manager = _started(after)
            life.check(manager, killed=mode == "kill")
            run_jobs(manager.tick(60_000), 60_000)
            run_jobs(manager.tick(120_000), 120_000)
            names = after.list_directory(A)
            assert not [n for n in names if n.endswith(("-delete", ".tmp"))]
        crash_at += 1
    assert crash_at > 100


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("operation", ["open", "read", "size", "list"])
def test_a_directory_that_cannot_be_read_at_the_start_is_offline_alone(
    operation: Inspection, is_clean: bool
) -> None:
    """Wherever it fails: segments, indexes, snapshots, checkpoints, names."""
    skip = offline = 0
    while True:
        files = SimFiles()
        manager = _started(files, (A, B))
        for number in range(4):
            _filled(manager, _partition(number))
        if is_clean:
            _stop(manager)
        else:
            files = files.restart("kill")
        files.faults = [Fault(operation, f"{B}/", skip=skip, times=10**9)]
        manager = _started(files, (A, B))
        first, second = manager.directories
        assert first.is_online
        assert all(log.log_end_offset == 20 for log in first.logs.values())
        if second.is_online:
            break
        offline += 1
        for log in second.logs.values():
            with pytest.raises(StorageError):
                log.read(0, bytes_max=100)
            log.close()
        assert not [path for path in files.open_paths() if path.startswith(f"{B}/t")]
        skip += 1
    assert offline > (0 if operation in {"list", "size"} else 2)
