from __future__ import annotations

import asyncio
import inspect

from kaa.model.errands import Errands


def test_an_errand_that_fails_is_reported_and_ends_alone() -> None:
    async def scenario() -> None:
        reports: list[str] = []
        done: list[int] = []

        async def fail() -> None:
            raise ValueError("no")

        async def work() -> None:
            await asyncio.sleep(0)
            done.append(1)

        async with asyncio.TaskGroup() as tasks:
            errands = Errands(tasks.create_task, reports.append)
            errands.begin("the first", fail())
            errands.begin("the second", work())
        assert reports == ["the first failed: ValueError('no')"]
        assert done == [1]

    asyncio.run(scenario())


def test_errands_are_given_up_with_their_node() -> None:
    async def scenario() -> None:
        reports: list[str] = []
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            errands = Errands(tasks.create_task, reports.append)
            errands.begin("a", wait("a"))
            errands.begin("b", wait("b"))
            await asyncio.sleep(0)
            errands.cancel()
        assert (ended, reports) == (["a", "b"], [])
        # A group that is ending takes nothing more; nothing is left that was never awaited.
        errands.begin("c", wait("c"))
        assert ended == ["a", "b"]

    asyncio.run(scenario())


def test_an_errand_that_is_given_up_before_its_first_step_is_closed() -> None:
    async def scenario() -> None:
        async def wait() -> None:
            await asyncio.Event().wait()

        work = wait()
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            errands = Errands(tasks.create_task, list[str]().append)
            errands.begin("a", work)
            errands.cancel()
        assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED

    asyncio.run(scenario())
