from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest

from kaa.log.jobs import FlushLogJob
from kaa.log.sim_files import Fault
from kaa.records.errors import CorruptRecordsError
from kaa.serving.shared_flush import SharedFlush
from tests.unit.log.batches import batch
from tests.unit.replication.support import Replicas


def test_appends_share_a_flush_and_count_when_it_is_done() -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            commit = SharedFlush(asyncio.get_running_loop(), executor, lambda: 0)
            partition = Replicas(request_flush=commit.request).create()
            done = asyncio.Event()
            for _ in range(10):
                partition.append(batch(1), now_ms=0)
            assert partition.online_log().high_watermark < 1
            partition.wait(done.set)
            await asyncio.wait_for(done.wait(), 60)
            assert partition.online_log().high_watermark >= 10
            assert commit.flush_count == 1
            done.clear()
            partition.append(batch(1), now_ms=0)
            await asyncio.wait_for(done.wait(), 60)
            assert partition.online_log().high_watermark >= 11
            assert commit.flush_count == 2

    asyncio.run(main())


def test_failed_flush_takes_the_directory_offline() -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            commit = SharedFlush(asyncio.get_running_loop(), executor, lambda: 0)
            replicas = Replicas(request_flush=commit.request)
            partition = replicas.create()
            log = partition.online_log()
            done = asyncio.Event()
            partition.wait(done.set)
            replicas.files.faults.append(Fault("sync", "/data/t-0"))
            partition.append(batch(1), now_ms=0)
            await asyncio.wait_for(done.wait(), 60)
            assert partition.log is None
            assert log.high_watermark == 0

    asyncio.run(main())


def _fails(_: object) -> NoReturn:
    raise ValueError("negative file descriptor")


def _is_damaged(*_: object, **__: object) -> NoReturn:
    raise CorruptRecordsError("of an index that cannot be made again")


@pytest.mark.parametrize("is_made", [True, False])
def test_flush_that_goes_wrong_in_any_way_does_not_keep_the_next_one(
    monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        with ThreadPoolExecutor(1) as executor:
            commit = SharedFlush(asyncio.get_running_loop(), executor, lambda: 0)
            partition = Replicas(request_flush=commit.request).create()
            with monkeypatch.context() as broken:
                if is_made:
                    broken.setattr(FlushLogJob, "run", _fails)
                else:
                    broken.setattr("kaa.log.local_log.FlushJob", _is_damaged)
                partition.append(batch(1), now_ms=0)
                await asyncio.sleep(0.1)
            done = asyncio.Event()
            partition.wait(done.set)
            partition.append(batch(1), now_ms=0)
            await asyncio.wait_for(done.wait(), 5)
            assert partition.online_log().high_watermark >= 2

    asyncio.run(main())
