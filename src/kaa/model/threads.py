"""Waiting for work on a thread, which nothing can stop.

A task that is cancelled meanwhile, and gives back what the thread still uses, closes files under
it: another file may have their descriptors by then, or the work fails with a bad one, which looks
like a broken disk.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

Found = TypeVar("Found")


async def outlast(work: asyncio.Future[Found]) -> bool:
    """Waits until the work has ended; whether a cancellation came meanwhile."""
    was_cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            was_cancelled = True
    return was_cancelled


async def outlasted(work: asyncio.Future[Found]) -> Found:
    """What the work gives; a cancellation takes effect when it has ended."""
    if await outlast(work):
        if not work.cancelled():
            # Nobody asks any more how it ended.
            work.exception()
        raise asyncio.CancelledError
    return work.result()
