"""Waiting for one of the things that a client waits for."""

from __future__ import annotations

import asyncio


async def wait_for_event(event: asyncio.Event, timeout_ms: float | None) -> bool:
    """Waits for the event or for the time to pass; says whether the event came."""
    if timeout_ms is None:
        await event.wait()
        return True
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return False
    return True


def release(waiters: list[asyncio.Future[None]]) -> None:
    """Lets all go on that wait."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
