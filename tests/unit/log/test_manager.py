"""All logs of a broker over several directories."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kaa.log.append import append_as_leader
from kaa.log.dirs import LogDirectory
from kaa.log.errors import LogError, StorageError
from kaa.log.files import read_whole, write_new
from kaa.log.jobs import Job
from kaa.log.manager import LogManager
from kaa.log.names import RECOVERY_POINT_CHECKPOINT_FILE
from kaa.log.properties import write_clean_shutdown
from kaa.log.sim_files import CrashError, Fault, Inspection, SimFiles
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from tests.support.ids import uuid
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, run_jobs, stored_batches
from tests.unit.log.managers import (
    TOPIC_ID,
    A,
    B,
    filled,
    new_manager,
    partition_of,
    start,
    started,
    stop,
)


def _jobs(manager: LogManager, now_ms: int) -> list[Job]:
    return [job for job in manager.tick(now_ms) if job is not None]


# --- start and stop


def test_a_clean_stop_and_start() -> None:
    files = SimFiles()
    manager = started(files)
    assert manager.clean_broker_epochs == {A: None}
    filled(manager, partition_of(0))
    filled(manager, partition_of(1), 3)
    stop(manager)
    assert files.open_handles == 0
    assert read_whole(files, "/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":15}'
    files.sync_directory("/")
    files = files.restart("lost")
    manager = started(files)
    assert manager.clean_broker_epochs == {A: 15}
    assert not files.exists("/a/.kafka_cleanshutdown")
    log = manager.logs[partition_of(0)]
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (20, 20, 20)
    assert log.topic_id == TOPIC_ID
    assert manager.logs[partition_of(1)].log_end_offset == 6


def test_a_crash_while_loading_is_no_clean_stop() -> None:
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(0))
    stop(manager)
    files.sync_directory("/")
    files = files.restart("lost")
    manager = new_manager(files)
    manager.lock()
    assert next(manager.start(now_ms=0), None) is None
    manager = started(files.restart("lost"))
    assert manager.clean_broker_epochs == {A: None}
    assert manager.logs[partition_of(0)].log_end_offset == 20


def test_a_directory_in_use_is_refused_and_left_alone() -> None:
    files = SimFiles()
    started(files, (B,))
    other = new_manager(files, (A, B))
    with pytest.raises(BlockingIOError):
        other.lock()
    assert files.locked == {"/b/.lock"}


def test_foreign_and_metadata_folders_are_left_alone() -> None:
    files = SimFiles()
    for name in ("lost+found", "y-1.ab-stray", "__cluster_metadata-0"):
        files.make_directory(f"/a/{name}")
    files.create("/a/file").close()
    manager = started(files)
    assert manager.logs == {}
    assert manager.ignored_folders == ["/a/lost+found", "/a/y-1.ab-stray"]


@pytest.mark.parametrize("winner", [A, B])
def test_of_the_logs_of_two_topics_the_one_that_is_known_wins(winner: str) -> None:
    """A disk was away while its topic was made again."""
    files, ids = SimFiles(), {A: uuid(6), B: uuid(7)}
    for path, topic_id in ids.items():
        manager = started(files, (path,))
        log = manager.get_or_create(partition_of(0), topic_id, now_ms=0)
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
        stop(manager)
    manager = new_manager(files, (A, B))
    for _ in manager.start(0, lambda _, topic_id: topic_id == ids[winner]):
        pass
    log = manager.logs[partition_of(0)]
    assert (log.folder, log.topic_id) == (f"{winner}/t-0", ids[winner])
    loser = A if winner == B else B
    (aside,) = manager.strays
    assert aside.startswith(f"{loser}/t-0.")
    assert aside.endswith("-stray")
    assert files.exists(f"{aside}/00000000000000000000.log")
    assert not files.exists(f"{loser}/t-0")


@pytest.mark.parametrize("name", ["kafka-2", "kafka-2.ab-delete", "kafka-2.ab-future"])
@pytest.mark.parametrize("file", ["meta.properties", ".lock"])
def test_a_log_directory_inside_another_one_is_left_alone(name: str, file: str) -> None:
    files, reports = SimFiles(), list[str]()
    files.make_directory(f"{A}/{name}/t-0")
    write_new(files, f"{A}/{name}/{file}", b"")
    manager = new_manager(files, config=replace(SMALL, file_delete_delay_ms=0))
    manager.directories[0].report = reports.append
    start(manager)
    for now_ms in (0, 100_000):
        run_jobs(manager.tick(now_ms), now_ms)
    assert not manager.every_log
    assert manager.ignored_folders == [f"{A}/{name}"]
    assert files.list_directory(f"{A}/{name}") == sorted([file, "t-0"])
    (line,) = reports
    assert f"{A}/{name} is a log directory" in line


@pytest.mark.parametrize("paths", [(A, B), (B, A)])
@pytest.mark.parametrize("end", [1, 20])
def test_a_log_that_was_trimmed_to_its_end_is_later_than_one_of_an_earlier_epoch(
    paths: tuple[str, ...], end: int
) -> None:
    """It went on in place of one whose disk was away, and is shorter after an unclean election."""
    files, key = SimFiles(), partition_of(0)
    manager = started(files)
    old = filled(manager, key, 5)
    stop(manager)
    manager = started(files, (B,))
    log = manager.get_or_create(key, old.topic_id, now_ms=0)
    append_as_leader(log, batch(end), leader_epoch=1 if end == 1 else 0, now_ms=0)
    log.update_high_watermark(end)
    log.increment_log_start_offset(end)
    log.roll(0)
    log.remove_segments([log.segments.first], 0)
    stop(manager)
    manager = started(files, paths)
    assert manager.logs[key].folder == f"{B}/t-0"
    assert manager.logs[key].log_start_offset == end
    (aside,) = manager.strays
    outdone = manager.lost.outdone[aside]
    assert outdone.served_in == f"{B}/t-0"
    assert outdone.progress.end_offset == 10
    assert outdone.served_progress.end_offset == end


def test_a_log_in_two_directories_is_not_served() -> None:
    """Where nothing tells whose they are, and both have records."""
    files = SimFiles()
    for path in (A, B):
        manager = started(files, (path,))
        log = manager.get_or_create(partition_of(0), None, now_ms=0)
        append_as_leader(log, batch(2), leader_epoch=0, now_ms=0)
        stop(manager)
    manager, reports = new_manager(files, (A, B)), list[str]()
    for directory in manager.directories:
        directory.report = reports.append
    start(manager)
    assert not manager.logs
    assert manager.is_lost(partition_of(0))
    (line,) = reports
    assert f"{B}/t-0 and {A}/t-0 are of the same partition" in line
    # They are kept until there is another log of that name.
    assert all(files.exists(f"{path}/t-0/00000000000000000000.log") for path in (A, B))
    manager.get_or_create(partition_of(0), TOPIC_ID, now_ms=0)
    assert len(manager.strays) == 2
    stop(manager)
    assert files.open_handles == 0


@pytest.mark.parametrize("damaged", [A, B])
def test_a_log_that_was_begun_elsewhere_and_has_no_topic_is_put_aside(damaged: str) -> None:
    files = SimFiles()
    served = A if damaged == B else B
    manager = started(files, (served,))
    filled(manager, partition_of(0))
    stop(manager)
    files.make_directory(f"{damaged}/t-0")
    write_new(files, f"{damaged}/t-0/partition.metadata", b"")
    manager = started(files, (A, B))
    assert manager.logs[partition_of(0)].folder == f"{served}/t-0"
    assert len(manager.strays) == 1


# --- placement and failure


def test_new_logs_go_where_the_fewest_are() -> None:
    manager = started(SimFiles(), (A, B))
    manager.directories[1].directory_id = uuid(9)
    for n in range(4):
        manager.get_or_create(partition_of(n), None, now_ms=0)
    assert [len(directory.logs) for directory in manager.directories] == [2, 2]
    log = manager.get_or_create(partition_of(9), None, now_ms=0, directory_id=uuid(9))
    assert log.directory.path == B
    unknown = manager.get_or_create(partition_of(10), None, now_ms=0, directory_id=uuid(1))
    assert unknown.directory.path == A


def test_the_same_partition_is_the_same_log() -> None:
    manager = started(SimFiles())
    log = manager.get_or_create(partition_of(0), None, now_ms=0)
    assert manager.get_or_create(partition_of(0), TOPIC_ID, now_ms=0) is log
    assert log.topic_id == TOPIC_ID
    assert manager.get(partition_of(0)) is log
    assert manager.get(partition_of(1)) is None
    with pytest.raises(LogError) as caught:
        manager.get_or_create(partition_of(0), uuid(6), now_ms=0)
    assert caught.value.error is Errors.INCONSISTENT_TOPIC_ID


def test_a_failed_directory_leaves_the_others_serving() -> None:
    files = SimFiles()
    offline: list[LogDirectory] = []
    manager = start(new_manager(files, (A, B), offline=offline))
    logs = [filled(manager, partition_of(n)) for n in range(2)]
    files.faults.append(Fault("write", "/a/t-0", errno.EIO))
    with pytest.raises(StorageError):
        append_as_leader(logs[0], batch(1), leader_epoch=0, now_ms=0)
    append_as_leader(logs[1], batch(1), leader_epoch=0, now_ms=0)
    assert [directory.path for directory in offline] == [A]
    assert manager.get_or_create(partition_of(7), None, now_ms=0).directory.path == B
    for now_ms in range(0, 400_000, 100_000):
        run_jobs(manager.tick(now_ms), now_ms)
    stop(manager)
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")
    manager = started(files.restart("kill"), (A, B))
    assert manager.clean_broker_epochs == {A: None, B: 15}
    assert manager.logs[partition_of(0)].log_end_offset == 20


def test_a_directory_that_cannot_be_used_at_start_is_offline() -> None:
    files = SimFiles()
    files.create("/a").close()
    manager = started(files, (A, B))
    assert [directory.is_online for directory in manager.directories] == [False, True]
    files = SimFiles()
    files.create("/a").close()
    with pytest.raises(StorageError):
        started(files)


def test_creation_moves_on_to_the_next_directory() -> None:
    files = SimFiles()
    manager = started(files, (A, B))
    files.faults.append(Fault("create", "/a/t-0", errno.ENOSPC))
    assert manager.get_or_create(partition_of(0), None, now_ms=0).directory.path == B
    files.faults.append(Fault("mkdir", "/b/t-1", errno.EIO))
    with pytest.raises(StorageError):
        manager.get_or_create(partition_of(1), None, now_ms=0)


# --- deletion


def test_deleted_logs_are_renamed_then_removed() -> None:
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(0))
    log = filled(manager, partition_of(1))
    region = log.read(0, bytes_max=100).region
    assert region is not None
    manager.delete([partition_of(1), partition_of(99)], now_ms=1000)
    (name,) = (n for n in files.list_directory(A) if n.endswith("-delete"))
    assert name.startswith("t-1.")
    assert manager.get(partition_of(1)) is None
    run_jobs(manager.tick(60_999), 60_999)
    assert b"t 1 " not in read_whole(files, "/a/recovery-point-offset-checkpoint")
    assert files.exists(f"{A}/{name}")
    run_jobs(manager.tick(61_000), 61_000)
    assert not files.exists(f"{A}/{name}")
    assert len(region.read()) == region.length
    region.release()
    again = manager.get_or_create(partition_of(1), uuid(8), now_ms=0)
    assert again.log_end_offset == 0


def test_name_of_a_deleted_log_is_free_once_no_checkpoint_has_it() -> None:
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(1))
    run_jobs(manager.tick(0), 0)
    (directory,) = {log.directory for log in manager.logs.values()}
    directory.checkpoint_high_watermarks()
    manager.delete([partition_of(1)], now_ms=0)
    assert manager.is_stale(partition_of(1))
    assert not manager.is_stale(partition_of(2))
    jobs = [job for job in manager.forget_deleted() if job is not None]
    assert [job.directory for job in jobs] == [directory] * 4
    for job in jobs:
        assert manager.is_stale(partition_of(1))
        run_jobs([job], 0)
    assert not manager.is_stale(partition_of(1))
    name = f"{directory.path}/replication-offset-checkpoint"
    assert b"t 1 " not in read_whole(files, name)
    assert not list(manager.forget_deleted())


def test_folders_of_new_logs_are_durable_before_anything_is_flushed() -> None:
    files = SimFiles()
    manager = started(files, (A, B))
    files.sync_directory("/")
    for number in range(4):
        manager.get_or_create(partition_of(number), TOPIC_ID, now_ms=0)
    first, second = manager.sync_folders()
    assert {first.directory.path, second.directory.path} == {A, B}
    run_jobs([first, second], 0)
    assert not list(manager.sync_folders())
    assert not any(log.is_new for log in manager.logs.values())
    manager = started(files.restart("lost"), (A, B))
    assert set(manager.logs) == set(map(partition_of, range(4)))


def test_new_folders_stay_to_be_synced_while_too_many_files_are_open() -> None:
    files = SimFiles()
    manager = started(files)
    log = manager.get_or_create(partition_of(0), TOPIC_ID, now_ms=0)
    files.faults.append(Fault("sync_directory", "/a", errno.EMFILE))
    run_jobs(manager.sync_folders(), 0)
    assert log.is_new
    assert log.directory.is_online
    files.faults.clear()
    run_jobs(manager.sync_folders(), 0)
    assert not log.is_new


def test_folders_marked_for_deletion_are_removed_after_a_restart() -> None:
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(0))
    manager.delete([partition_of(0)], now_ms=0)
    manager.abandon()
    files = files.restart("kill")
    manager = started(files)
    assert manager.logs == {}
    run_jobs(manager.tick(60_000), 60_000)
    assert not [n for n in files.list_directory(A) if n.endswith("-delete")]


def _delete_records(manager: LogManager, offset: int) -> None:
    """Durably, of the first partition."""
    directory = manager.delete_records(partition_of(0), offset)
    assert directory is not None
    run_jobs(manager.checkpoint_starts(directory), 0)


def test_checkpoints_of_a_deleted_log_do_not_meet_its_successor() -> None:
    for crash_at in range(30):
        files = SimFiles()
        manager = started(files)
        filled(manager, partition_of(0))
        _delete_records(manager, 15)
        files.sync_directory("/")
        files.crash_at = len(files.history) + crash_at
        try:
            manager.delete([partition_of(0)], now_ms=0)
            manager.get_or_create(partition_of(0), uuid(6), now_ms=0)
            finished = True
        except CrashError:
            finished = False
        manager = started(files.restart("kill"))
        log = manager.get_or_create(partition_of(0), None, now_ms=0)
        assert (log.log_start_offset, log.log_end_offset) in {(15, 20), (0, 0)}
        if finished:
            return
    pytest.fail("the deletion never finished")


def test_of_two_equal_copies_the_one_whose_disk_did_not_fail_is_served() -> None:
    """The first one was loaded, and then its disk failed."""
    files = SimFiles()
    manager = started(files, (A, B))
    for number in range(4):
        filled(manager, partition_of(number))
    partition, last = sorted(manager.directories[0].logs)
    log = manager.logs[partition]
    copied, left = (A, B) if log.directory.path == A else (B, A)
    stop(manager)
    files.make_directory(f"{left}/{partition}")
    for name in files.list_directory(f"{copied}/{partition}"):
        write_new(
            files, f"{left}/{partition}/{name}", read_whole(files, f"{copied}/{partition}/{name}")
        )
    manager = new_manager(files, (A, B))
    manager.lock()
    files.faults = [Fault("open", f"{A}/{last}/")]
    for _ in manager.start(now_ms=0):
        pass
    assert not files.faults[0].times
    log = manager.logs[partition]
    assert (log.directory.path, log.log_end_offset) == (B, 20)
    assert not manager.strays
    stop(manager)


def test_too_many_open_files_keep_a_name_and_cost_no_disk() -> None:
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(0))
    manager.delete([partition_of(0)], now_ms=0)
    files.faults = [Fault("create", RECOVERY_POINT_CHECKPOINT_FILE, errno.EMFILE)]
    with pytest.raises(StorageError, match="too many files"):
        manager.forget_stale(partition_of(0))
    assert manager.is_stale(partition_of(0))
    assert manager.directories[0].is_online
    manager.forget_stale(partition_of(0))
    assert not manager.is_stale(partition_of(0))


def test_retention_goes_on_beside_a_damaged_segment() -> None:
    config = replace(SMALL, retention_ms=1000, segment_ms=10**9)
    files = SimFiles()
    manager = started(files, config=config)
    for number in range(2):
        filled(manager, partition_of(number), 30)
    stop(manager)
    folder = f"{A}/t-0/{'0' * 20}"
    files.unlink(f"{folder}.timeindex")
    files.open(f"{folder}.log").write([b"\xff" * 20], 0)
    manager = started(files, config=config)
    for now_ms in (0, 10**6):
        run_jobs(manager.tick(now_ms), now_ms)
    assert manager.logs[partition_of(1)].log_start_offset > 0


def test_strays_are_put_aside() -> None:
    files = SimFiles()
    manager = started(files)
    filled(manager, partition_of(0))
    filled(manager, partition_of(1))
    for _ in manager.mark_strays(lambda partition, _: partition.partition == 0, now_ms=0):
        pass
    assert set(manager.logs) == {partition_of(0)}
    (name,) = (n for n in files.list_directory(A) if n.endswith("-stray"))
    run_jobs(manager.tick(10**9), 10**9)
    assert files.exists(f"{A}/{name}")


def test_a_log_that_was_made_in_a_pause_is_no_stray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.log.manager.LOGS_PER_SLICE_MAX", 1)
    manager = started(SimFiles())
    for number in range(2):
        filled(manager, partition_of(number))
    old = manager.logs[partition_of(1)]
    marking = manager.mark_strays(lambda _, topic_id: topic_id != old.topic_id, now_ms=0)
    next(marking)
    manager.delete([partition_of(1)], 0)
    new = manager.get_or_create(partition_of(1), uuid(77), 0)
    for _ in marking:
        pass
    assert manager.logs[partition_of(1)] is new


def test_deleted_records_stay_deleted() -> None:
    files = SimFiles()
    manager = started(files)
    log = filled(manager, partition_of(0))
    log.flush(now_ms=0)
    files.sync_directory("/")
    _delete_records(manager, 7)
    assert manager.delete_records(partition_of(0), 7) is None, "it has not moved"
    with pytest.raises(LogError) as missing:
        manager.delete_records(partition_of(1), 1)
    assert missing.value.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(LogError) as refused:
        manager.delete_records(partition_of(0), 99)
    assert refused.value.error is Errors.OFFSET_OUT_OF_RANGE
    log = started(files.restart("lost")).logs[partition_of(0)]
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
        manager = started(self.files, config=replace(SMALL, file_delete_delay_ms=0))
        self.files.sync_directory("/")
        for number in range(3):
            self._write(manager, partition_of(number), 8)
        self._flush(manager, partition_of(0))
        _delete_records(manager, 5)
        self.start_offsets[partition_of(0)] = 5
        self.deleted.add(partition_of(1))
        manager.delete([partition_of(1)], now_ms=0)
        run_jobs(manager.tick(0), 0)
        run_jobs(manager.tick(60_000), 60_000)
        self._write(manager, partition_of(2), 8)
        self._flush(manager, partition_of(2))
        stop(manager)
        self.is_stopped = True

    def _write(self, manager: LogManager, partition: TopicPartition, count: int) -> None:
        log = manager.get_or_create(partition, TOPIC_ID, now_ms=0)
        for n in range(count):
            content = batch(2, base_offset=log.log_end_offset, timestamp=n)
            self.contents.setdefault(partition, []).append(bytes(content))
            append_as_leader(log, content, leader_epoch=0, now_ms=0)
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
            manager = started(after)
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
        manager = started(files, (A, B))
        for number in range(4):
            filled(manager, partition_of(number))
        if is_clean:
            stop(manager)
        else:
            files = files.restart("kill")
        files.faults = [Fault(operation, f"{B}/", skip=skip, times=10**9)]
        manager = started(files, (A, B))
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


# --- what a broker says of its last stop


def _stopped(*paths: str) -> SimFiles:
    """Files of a broker that was stopped with these directories."""
    files = SimFiles()
    stop(_identified(start(new_manager(files, paths))))
    return files


def _identified(manager: LogManager) -> LogManager:
    for number, directory in enumerate(manager.directories):
        directory.directory_id = uuid(100 + number)
    return manager


def test_a_clean_stop_of_all_directories_is_told() -> None:
    manager = _identified(new_manager(_stopped(A, B), (A, B)))
    assert manager.read_clean_shutdowns() == 15


def test_a_stop_is_not_clean_with_a_directory_that_is_away() -> None:
    manager = _identified(new_manager(_stopped(A, B), (A, B)))
    manager.exclude({B: "not there"})
    assert manager.read_clean_shutdowns() == -1


def test_a_stop_is_not_clean_with_a_directory_that_cannot_be_read() -> None:
    files = _stopped(A, B)
    files.faults.append(Fault("read", "/b", errno.EIO))
    manager = _identified(new_manager(files, (A, B)))
    assert manager.read_clean_shutdowns() == -1
    assert [directory.path for directory in manager.online_directories] == [A]


def test_a_stop_is_not_clean_with_a_directory_that_has_no_marker() -> None:
    manager = _identified(new_manager(_stopped(A), (A, B)))
    assert manager.read_clean_shutdowns() == -1


def test_a_stop_is_not_clean_without_one_of_its_directories() -> None:
    manager = _identified(new_manager(_stopped(A, B), (A,)))
    assert manager.read_clean_shutdowns() == -1


def test_a_stop_of_which_directories_tell_different_epochs_is_not_clean() -> None:
    files = _stopped(A, B)
    for epoch, is_older in ((14, True), (-1, False)):
        write_clean_shutdown(files, B, epoch)
        manager, reports = _identified(new_manager(files, (A, B))), list[str]()
        for directory in manager.directories:
            directory.report = reports.append
        assert manager.read_clean_shutdowns() == -1
        starts = [report.partition(":")[0] for report in reports]
        named = f"{B} is as it was at an earlier stop, in broker epoch 14 and not in 15 as {A}"
        assert starts == ([named] if is_older else [])


def test_a_clean_stop_of_kafka_names_no_directories() -> None:
    files = _stopped(A, B)
    for path in (A, B):
        write_clean_shutdown(files, path, 15)
    assert _identified(new_manager(files, (A, B))).read_clean_shutdowns() == 15
