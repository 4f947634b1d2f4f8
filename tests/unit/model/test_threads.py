from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from kaa.model.threads import outlast, outlasted


def test_what_the_work_gives() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert await outlasted(loop.run_in_executor(None, int, "7")) == 7
        with pytest.raises(ValueError, match="seven"):
            await outlasted(loop.run_in_executor(None, int, "seven"))

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_who_is_cancelled_goes_when_the_work_has_ended(*, fails: bool) -> None:
    may_end, has_ended = Event(), Event()

    def work() -> None:
        may_end.wait()
        has_ended.set()
        if fails:
            raise OSError("nobody asks")

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as executor:
            loop = asyncio.get_running_loop()
            task = loop.create_task(outlasted(loop.run_in_executor(executor, work)))
            for _ in range(3):
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert has_ended.is_set()

    asyncio.run(scenario())


def test_a_cancellation_is_told_of() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        work: asyncio.Future[None] = loop.create_future()
        task = loop.create_task(outlast(work))
        await asyncio.sleep(0)
        task.cancel()
        loop.call_soon(work.set_result, None)
        assert await task
        assert not await outlast(work)

    asyncio.run(scenario())
