"""Crashes of the driver at every changing operation, with lost and torn writes.

A scenario of appends, snapshots, retention and restarts is run once to count its operations, then
once for each of them with a crash there, for each thing that a crash may leave. After the restart
the state holds every value that was committed before, in order and once; what was appended and not
committed may be there or not. Then the next leader appends, and a second restart sees that too.
"""

from __future__ import annotations

import asyncio

import pytest

from kaa.log.sim_files import CrashError, CrashMode, SimFiles
from kaa.quorum.metadata_log import MetadataLogConfig
from tests.unit.quorum.disk_replica import FOLDER, DiskReplica, new_disk, settle

# Two or three batches a segment, and retention that removes what it may.
CONFIG = MetadataLogConfig(metadata_log_segment_bytes=300, metadata_max_retention_bytes=600)


class Run:
    """One pass through the scenario, and what it saw committed."""

    def __init__(self) -> None:
        self.committed: list[bytes] = []
        self.appended: list[bytes] = []

    async def play(self, files: SimFiles) -> None:
        replica = DiskReplica(files, config=CONFIG)
        await self._settle(replica)
        for number in range(12):
            value = b"value %d" % number
            self.appended.append(value)
            replica.append(value)
            if number % 2:
                await self._settle(replica)
            if number % 4 == 3:
                replica.snapshot()
                replica.clock.ms += 61_000
                replica.clean()
        await self._settle(replica)
        replica.driver.shut_down(100)
        await self._settle(replica)
        replica.log.close(0)

    async def _settle(self, replica: DiskReplica) -> None:
        for _ in range(30):
            await asyncio.sleep(0)
            self.committed = list(replica.state.values)
            if replica.files.dead:
                raise CrashError


def play(files: SimFiles) -> Run:
    """Plays until the end or the crash."""
    run = Run()

    async def scenario() -> None:
        # A crash inside a callback reaches the loop, not the scenario.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        try:
            await run.play(files)
        except CrashError:
            assert files.dead

    asyncio.run(scenario())
    return run


def check_after_crash(files: SimFiles, run: Run) -> None:
    async def scenario() -> None:
        replica = DiskReplica(files, config=CONFIG)
        await settle()
        found = list(replica.state.values)
        assert found[: len(run.committed)] == run.committed
        assert found == run.appended[: len(found)]
        assert replica.append(b"after") is not None
        await settle()
        again = DiskReplica(files.restart("lost"), config=CONFIG)
        await settle()
        assert again.state.values == [*found, b"after"]
        leftovers = [name for name in again.files.list_directory(FOLDER) if name.endswith(".part")]
        assert leftovers == []

    asyncio.run(scenario())


def operations() -> int:
    files = new_disk()
    before = len(files.history)
    run = play(files)
    assert run.committed == run.appended
    return len(files.history) - before


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_nothing_committed_is_lost_wherever_the_crash_comes(mode: CrashMode) -> None:
    count = operations()
    assert count > 60
    for step in range(count):
        files = new_disk()
        files.crash_at = len(files.history) + step
        run = play(files)
        assert files.dead
        for seed in range(3 if mode == "torn" else 1):
            check_after_crash(files.restart(mode, seed=seed), run)


def test_a_crash_during_recovery_is_one_more_crash() -> None:
    files = new_disk()
    files.crash_at = len(files.history) + operations() * 2 // 3
    run = play(files)
    recovered = files.restart("torn", seed=5)
    before = len(recovered.history)
    play_recovery(recovered)
    for step in range(len(recovered.history) - before):
        disk = files.restart("torn", seed=5, crash_at=step)
        play_recovery(disk)
        check_after_crash(disk.restart("torn", seed=step), run)


def play_recovery(files: SimFiles) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        try:
            DiskReplica(files, config=CONFIG)
            await settle()
        except CrashError:
            assert files.dead

    asyncio.run(scenario())
