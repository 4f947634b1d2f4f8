"""Waiting for what a cluster does after it has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kaa.client.admin.admin import Admin


async def until(ask: Callable[[], Awaitable[bool]], *, expected: bool = True) -> None:
    """Brokers learn of a change after the controller has answered; waits for it."""
    for _ in range(1200):
        if await ask() is expected:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the change did not arrive")


async def is_listed(admin: Admin, name: str) -> bool:
    return name in {topic.name for topic in await admin.list_topics()}
