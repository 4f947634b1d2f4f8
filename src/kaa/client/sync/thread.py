"""The thread and loop on which an asynchronous client lives, for users without asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from kaa.client.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Twin = TypeVar("Twin", bound=Any)
Answer = TypeVar("Answer")


class ClientThread(Generic[Twin]):
    """Runs one asynchronous object on a thread, from `__enter__` to `__exit__`."""

    def __init__(self, make: Callable[[], Twin]) -> None:
        self._make = make
        self._twin: Twin | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kaa client", daemon=True)
        # A child of a fork has the object, but not the thread.
        self._process_id = os.getpid()

    def start(self) -> Self:
        """Begins to work; for those who do not write `with`, which calls it."""
        if self._started.done():
            raise ClosedError("the client was started already; make a new one to start again")
        return self.__enter__()

    def close(self) -> None:
        """Ends as a block of `with` does."""
        if self._thread.is_alive():
            self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._twin = None
        if self._failure is not None:
            raise self._failure

    @property
    def asynchronous(self) -> Twin:
        """The asynchronous object that does the work; use it on its own loop alone."""
        if self._twin is None:
            raise ClosedError("the client is not running; use it inside 'with', or call start()")
        return self._twin

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  The thread that waits gets it.
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._make() as twin:
            self._twin = twin
            self._started.set_result(None)
            await self._stop.wait()

    def _call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        if self._twin is None or self._loop is None:
            work.close()
            raise ClosedError("the client is not running; use it inside 'with', or call start()")
        if self._process_id != os.getpid():
            work.close()
            raise ClosedError("the client was made by another process; make one after the fork")
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result()
        except KeyboardInterrupt:
            # Nobody would get what it returns.
            done.cancel()
            raise

    def _do(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Calls a plain function on the loop."""

        async def work() -> Answer:
            return function(*arguments)

        return self._call(work())
