"""Copies that were found at a start and are read one after the other."""

from __future__ import annotations

import asyncio
import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kaa.log.append import append_as_leader
from kaa.log.copy_check import CopyCheck
from kaa.log.sim_files import Fault
from kaa.model.topics import TopicPartition
from kaa.replication import found_copies
from kaa.replication.found_copies import FoundCopies
from tests.unit.log.batches import batch
from tests.unit.log.logs import new_disk, new_log
from tests.unit.replication.movers import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaa.log.log import UnifiedLog
    from kaa.log.sim_files import SimFiles

BATCHES = 8


class Owner:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.whole: list[int] = []
        self.damaged: list[tuple[int, str]] = []
        self.bytes = 0
        self.bytes_per_second = 100
        self.go = asyncio.Event()
        self.go.set()

    async def rest_for(self, size: int) -> None:
        self.bytes += size
        await self.go.wait()

    def copy_is_whole(self, copy: UnifiedLog) -> None:
        self.whole.append(copy.partition.partition)

    def copy_is_damaged(self, copy: UnifiedLog, reason: str) -> None:
        self.damaged.append((copy.partition.partition, reason))


@asynccontextmanager
async def reading() -> AsyncIterator[tuple[Owner, FoundCopies]]:
    owner = Owner()
    with ThreadPoolExecutor(1) as executor:
        found = FoundCopies(owner, executor)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(found.run())
            yield owner, found
            task.cancel()


def _copy(files: SimFiles, number: int = 0) -> UnifiedLog:
    log = new_log(files, partition=TopicPartition("t", number))
    for _ in range(BATCHES):
        append_as_leader(log, batch(1), leader_epoch=0, now_ms=0)
    return log


def _damage(log: UnifiedLog) -> str:
    path = log.segments.first.path(".log")
    log.directory.files.open(path).write([b"x"], 70)
    return path


def test_copies_are_judged_in_order_no_faster_than_moves() -> None:
    files = new_disk()

    async def main() -> None:
        async with reading() as (owner, found):
            copies = [_copy(files, number) for number in range(3)]
            path = _damage(copies[1])
            for copy in copies:
                found.add(copy)
            await until(lambda: len(owner.whole) == 2)
            assert owner.whole == [0, 2]
            assert owner.damaged == [(1, f"{path}: no batch at position 0")]
            assert not [copy for copy in copies if copy in found]
            sizes = [sum(each.size for each in copy.segments) for copy in copies]
            assert owner.bytes == sizes[0] + sizes[2]

    asyncio.run(main())


def test_copy_that_is_given_up_meanwhile_is_not_judged() -> None:
    files = new_disk()

    async def main() -> None:
        async with reading() as (owner, found):
            copies = [_copy(files, number) for number in range(2)]
            owner.go.clear()
            found.add(copies[0])
            found.add(copies[1])
            await until(lambda: owner.bytes > 0)
            read = owner.bytes
            found.forget(copies[0])
            copies[0].close()
            owner.go.set()
            await until(lambda: owner.whole == [1])
            assert owner.bytes == read + sum(each.size for each in copies[1].segments)
            assert not [path for path in files.open_paths() if "t-0" in path]

    asyncio.run(main())


def test_copy_waits_until_fewer_files_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_copies, "DUTY_RETRY_SECONDS", 0.01)
    files = new_disk()

    async def main() -> None:
        async with reading() as (owner, found):
            copy = _copy(files)
            copy.rest()
            fault = Fault("open", copy.folder, errno.EMFILE, times=2)
            files.faults = [fault]
            found.add(copy)
            await until(lambda: owner.whole == [0])
            assert fault.times == 0
            assert copy.directory.is_online

    asyncio.run(main())


def test_copy_whose_disk_fails_is_left_to_the_end_of_its_move() -> None:
    files = new_disk()

    async def main() -> None:
        async with reading() as (owner, found):
            copy = _copy(files)
            files.faults = [Fault("read", copy.folder)]
            found.add(copy)
            await until(lambda: copy not in found)
            assert not copy.directory.is_online
            assert (owner.whole, owner.damaged) == ([], [])

    asyncio.run(main())


def test_stop_waits_for_the_thread_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are closed next."""
    files, go, is_reading = new_disk(), threading.Event(), threading.Event()
    ended: list[int] = []
    read = CopyCheck.read

    def slow(check: CopyCheck, bytes_max: int) -> int:
        is_reading.set()
        go.wait(60)
        size = read(check, bytes_max)
        ended.append(size)
        return size

    monkeypatch.setattr(CopyCheck, "read", slow)

    async def main() -> None:
        copy = _copy(files)
        async with reading() as (_, found):
            found.add(copy)
            await until(is_reading.is_set)
            asyncio.get_running_loop().call_later(0.02, go.set)
        assert len(ended) == 1
        copy.close()
        assert files.open_paths() == []

    asyncio.run(main())
