from __future__ import annotations

import asyncio
import errno
from random import Random

from kaa.log.dirs import LogDirectory
from kaa.log.errors import StorageError
from kaa.log.sim_files import Fault, SimFiles
from kaa.quorum.metadata_log import MetadataLog, MetadataLogConfig, open_metadata_log
from kaa.quorum.shared_sync import SharedSync
from tests.unit.quorum.disk_replica import ROOT, FixedClock, HeldExecutor, new_disk, settle
from tests.unit.quorum.test_metadata_log import append


class Rig:
    """A log, its group commit, and what that reports."""

    def __init__(self, files: SimFiles, linger_ms: int = 0) -> None:
        self.executor = HeldExecutor()
        self.written: list[tuple[int, int]] = []
        self.failures: list[BaseException] = []
        directory = LogDirectory(files, ROOT)
        self.log: MetadataLog = open_metadata_log(directory, MetadataLogConfig(), 0, Random(1)).log
        self.commits = SharedSync(
            self.log,
            FixedClock(),
            self.executor,
            asyncio.get_running_loop(),
            lambda event: self.written.append((event.write_id, event.end_offset)),
            self.failures.append,
            linger_ms,
        )

    def write(self, write_id: int, *, needs_sync: bool = True, may_linger: bool = False) -> None:
        append(self.log, b"value")
        self.commits.wrote(write_id, needs_sync=needs_sync, may_linger=may_linger)

    async def work(self) -> None:
        self.executor.work()
        await settle()


def test_one_report_stands_for_all_writes_of_a_sync() -> None:
    async def scenario() -> None:
        rig = Rig(new_disk())
        for write_id in (1, 2, 3):
            rig.write(write_id)
        assert (rig.written, len(rig.executor.jobs)) == ([], 1)
        await rig.work()
        assert rig.written == [(1, 1)]
        await rig.work()
        assert rig.written == [(1, 1), (3, 3)]
        assert rig.executor.jobs == []

    asyncio.run(scenario())


def test_a_write_without_a_sync_is_reported_at_once_unless_others_wait() -> None:
    async def scenario() -> None:
        rig = Rig(new_disk())
        rig.write(1, needs_sync=False)
        await settle()
        assert rig.written == [(1, 1)]
        rig.write(2)
        rig.write(3, needs_sync=False)
        await settle()
        assert rig.written == [(1, 1)]
        await rig.work()
        await rig.work()
        assert rig.written == [(1, 1), (2, 2), (3, 3)]

    asyncio.run(scenario())


def test_records_linger_for_more_of_them_and_others_do_not() -> None:
    async def scenario() -> None:
        rig = Rig(new_disk(), linger_ms=20)
        rig.write(1, may_linger=True)
        rig.write(2, may_linger=True)
        await settle()
        assert rig.executor.jobs == []
        await asyncio.sleep(0.04)
        await rig.work()
        assert rig.written == [(2, 2)], "one sync for both"
        rig.write(3, may_linger=True)
        rig.write(4, needs_sync=False)
        await rig.work()
        assert rig.written == [(2, 2), (4, 4)], "not before those that linger, and not later"
        await asyncio.sleep(0.04)
        assert rig.executor.jobs == [], "nothing is left of the timer"

    asyncio.run(scenario())


def test_nothing_lingers_longer_than_the_log_is_open() -> None:
    async def scenario() -> None:
        rig = Rig(new_disk(), linger_ms=1)
        rig.write(1, may_linger=True)
        rig.commits.close()
        await asyncio.sleep(0.02)
        assert (rig.executor.jobs, rig.written, rig.failures) == ([], [], [])

    asyncio.run(scenario())


def test_a_failed_sync_is_reported_once_and_not_repeated() -> None:
    async def scenario() -> None:
        files = new_disk()
        rig = Rig(files)
        files.faults.append(Fault("sync", ".log", errno.EIO))
        rig.write(1)
        rig.write(2)
        await rig.work()
        assert rig.written == []
        (failure,) = rig.failures
        assert isinstance(failure, StorageError)
        assert rig.executor.jobs == []
        rig.commits.wrote(3, needs_sync=True)
        assert rig.executor.jobs == []

    asyncio.run(scenario())
