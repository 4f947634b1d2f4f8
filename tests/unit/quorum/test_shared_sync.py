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

    def __init__(self, files: SimFiles) -> None:
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
        )

    def write(self, write_id: int, *, needs_sync: bool = True) -> None:
        append(self.log, b"value")
        self.commits.wrote(write_id, needs_sync=needs_sync)

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
