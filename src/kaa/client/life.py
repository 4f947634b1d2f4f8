"""The life of a client that works in the background: begun once, ended once.

`async with` and the pair of `start()` and `close()` are the same. In between a client has the
connections of its cluster and a task group; what it starts ends with it.
"""

from __future__ import annotations

import asyncio
import warnings
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, ClassVar, Self

from kaa.client.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.client.cluster import Cluster


class ClientLife:
    """A client derives from it and says what happens when it begins and when it ends."""

    # What errors call the client.
    _noun: ClassVar[str]

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # From the start on, also when the client has ended: it is not started again.
        self._tasks: asyncio.TaskGroup | None = None
        self._is_running = False
        self._stack = AsyncExitStack()

    async def start(self) -> Self:
        """Begins to work; for those who do not write `async with`, which calls it."""
        if self._tasks is not None:
            raise ClosedError(
                f"the {self._noun} was started already; make a new one to start again"
            )
        return await self.__aenter__()

    async def close(self) -> None:
        """Ends, as the end of `async with` does."""
        if self._is_running:
            await self.__aexit__(None)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.cluster)
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._is_running = True
        self._begin(self._tasks)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            await self._finish(kind)
        finally:
            self._is_running = False
            self._stop()
            await self._stack.aclose()

    def _running(self) -> asyncio.TaskGroup:
        """The tasks of the client; raises ClosedError before its start and after its end."""
        if not self._is_running or self._tasks is None:
            raise ClosedError(
                f"the {self._noun} is not running; use it inside 'async with', or await start()"
            )
        return self._tasks

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        """Nothing can be done any more; somebody may want to know."""
        if self.__dict__.get("_is_running"):
            self._abandoned()
            warn(f"unclosed {self._noun}", ResourceWarning, source=self, stacklevel=2)

    # --- for the client

    def _abandoned(self) -> None:
        """Says what is lost, because it was not closed."""

    def _begin(self, tasks: asyncio.TaskGroup) -> None:
        """Starts what runs in the background."""

    async def _finish(self, kind: type[BaseException] | None) -> None:
        """What is still to be done while everything works; `kind` is what ends the block."""

    def _stop(self) -> None:
        """Stops what runs in the background, whether the work could be finished or not."""
