from __future__ import annotations

import asyncio

from kaa.client.waiting import release, wait_for_event


def test_event_or_time() -> None:
    async def run() -> None:
        event = asyncio.Event()
        assert not await wait_for_event(event, 1)
        asyncio.get_running_loop().call_soon(event.set)
        assert await wait_for_event(event, 10_000)
        assert await wait_for_event(event, None)

    asyncio.run(run())


def test_all_who_wait_go_on() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        waiters = [loop.create_future(), loop.create_future()]
        given_up, waiting = waiters
        given_up.cancel()
        release(waiters)
        assert waiters == []
        assert waiting.done()

    asyncio.run(run())
