"""The folders of new partitions outlive a power cut, before anybody is told where they are."""

from __future__ import annotations

import errno

import pytest

from kaa.log.sim_files import CrashError, CrashMode, Fault, SimFiles
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_topics import TopicRecord
from kaa.wire.primitives import Uuid
from tests.support.ids import uuid
from tests.unit.log.logs import run_jobs
from tests.unit.replication.support import TOPIC_ID, Replicas, partition
from tests.unit.replication.test_manager import Turns

COUNT = 5
DIRECTORY_ID = uuid(900)


class Created:
    """A topic that is made in turns, with a driver that makes its names durable when asked."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.turns = Turns()
        self.is_asked = False
        self.reported: list[int] = []
        self.replicas = Replicas(
            self.files, call_soon=self.turns, sync_folders=self._ask, assigned=self._assigned
        )
        (directory,) = self.replicas.logs.directories
        directory.directory_id = DIRECTORY_ID
        self.records = [partition(number=number) for number in range(COUNT)]

    def _ask(self) -> None:
        self.is_asked = True

    def _assigned(self, topic_id: Uuid, number: int, directory: Uuid | None) -> None:
        assert topic_id == TOPIC_ID
        if directory is not None:
            self.reported.append(number)

    def make(self) -> None:
        """Until nobody wants another turn."""
        self.replicas.replay(TopicRecord(name="t", topic_id=TOPIC_ID), *self.records)
        while self.turns.next():
            pass
        if self.files.dead:
            # Turns go on for the other partitions, whatever becomes of one.
            raise CrashError

    def settle(self) -> None:
        while self.is_asked:
            self.is_asked = False
            run_jobs(self.replicas.logs.sync_folders(), 0)
            self.replicas.manager.folders_synced()

    def syncs(self) -> int:
        return self.files.history.count(("sync_directory", "/data"))


def folders(files: SimFiles) -> set[int]:
    if not files.exists("/data"):
        return set()
    names = [name for name in files.list_directory("/data") if name.startswith("t-")]
    return {int(name.removeprefix("t-")) for name in names}


def test_folders_of_new_partitions_are_durable_by_one_sync() -> None:
    case = Created()
    case.files.sync_directory("/")
    before = case.syncs()
    case.make()
    assert case.syncs() == before
    case.settle()
    assert case.syncs() == before + 1
    assert all(not log.is_new for log in case.replicas.logs.logs.values())
    assert folders(case.files.restart("lost")) == set(range(COUNT))


def test_a_replica_is_reported_once_its_folder_is_durable() -> None:
    case = Created()
    case.make()
    assert case.is_asked
    assert not case.reported
    found = case.replicas.manager.find("t", 0)
    assert isinstance(found, Partition)
    assert found.is_leader
    case.settle()
    assert case.reported == list(range(COUNT))


def test_logs_made_while_others_are_synced_ask_again() -> None:
    case = Created()
    case.make()
    case.is_asked = False
    jobs = list(case.replicas.logs.sync_folders())
    case.replicas.replay(partition(number=COUNT))
    while case.turns.next():
        pass
    run_jobs(jobs, 0)
    case.replicas.manager.folders_synced()
    assert case.reported == list(range(COUNT))
    assert case.is_asked
    case.settle()
    assert case.reported == list(range(COUNT + 1))


def test_a_directory_that_cannot_be_synced_is_offline_and_nothing_is_reported() -> None:
    case = Created()
    case.make()
    case.files.faults.append(Fault("sync_directory", "/data", errno.EIO))
    case.settle()
    while case.turns.next():
        pass
    assert not case.reported
    assert case.replicas.manager.find("t", 0) is Errors.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_whatever_was_reported_is_there_after_a_crash(mode: CrashMode) -> None:
    crash, case = 0, Created()
    while len(case.reported) < COUNT:
        case = Created()
        case.files.sync_directory("/")
        case.files.crash_at = len(case.files.history) + crash
        try:
            case.make()
            case.settle()
        except CrashError:
            pass
        assert set(case.reported) <= folders(case.files.restart(mode, seed=crash)), crash
        crash += 1
    assert crash > COUNT
