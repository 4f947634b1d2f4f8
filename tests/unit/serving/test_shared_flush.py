from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from kaa.log.sim_files import Fault
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
