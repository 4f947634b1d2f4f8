"""Threads of a simulated process: work is done at once, and done some time after it was given.

An executor has so many threads; each takes the oldest piece of work and needs a while, drawn by the
seed and longer while the disk is slow. The work itself runs in one go at the end of that while.
Code that cannot wait for the loop and asks a future for its result makes the executor catch up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

from kaa.log.sim_files import CrashError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.loop import SimLoop

WORK_SECONDS_MIN = 0.00002
WORK_SECONDS_MAX = 0.002


class Work(Future[Any]):
    """The future of one piece of work."""

    def __init__(self, executor: SimExecutor, call: Callable[[], Any]) -> None:
        super().__init__()
        self.executor = executor
        self.call = call

    def result(self, timeout: float | None = None) -> Any:
        self.executor.catch_up(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.executor.catch_up(self)
        return super().exception(timeout)


class SimExecutor(Executor):
    """See the module's text. `slowness` multiplies how long work takes."""

    def __init__(
        self, kernel: Kernel, loop: SimLoop, name: str, threads: int, slowness: Callable[[], float]
    ) -> None:
        self._kernel = kernel
        self._loop = loop
        self.name = name
        self._idle = threads
        self._slowness = slowness
        self._queue: deque[Work] = deque()
        # What threads are busy with, in the order in which it was taken.
        self._taken: dict[Work, None] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Work:
        work = Work(self, lambda: fn(*args, **kwargs))
        self._queue.append(work)
        self._take()
        return work

    def _take(self) -> None:
        while self._idle and self._queue:
            self._idle -= 1
            work = self._queue.popleft()
            self._taken[work] = None
            seconds = self._kernel.random.uniform(WORK_SECONDS_MIN, WORK_SECONDS_MAX)
            self._kernel.after(seconds * self._slowness(), self._finish, work)

    def _finish(self, work: Work) -> None:
        if work not in self._taken:
            return
        if self._loop.paused_until > self._kernel.now:
            self._kernel.at(self._loop.paused_until, self._finish, work)
            return
        del self._taken[work]
        self._idle += 1
        self._perform(work)
        self._take()

    def _perform(self, work: Work) -> None:
        if self._loop.is_dying or not work.set_running_or_notify_cancel():
            return
        # A thread has no loop; what it calls must not find one by chance.
        running = asyncio.events._get_running_loop()
        asyncio.events._set_running_loop(None)
        try:
            result = work.call()
        except CrashError:
            self._loop.die()
        except BaseException as error:  # noqa: BLE001  It belongs to the waiter.
            work.set_exception(error)
        else:
            work.set_result(result)
        finally:
            asyncio.events._set_running_loop(running)

    def catch_up(self, work: Work) -> None:
        """Does what was given before `work`, and it, now."""
        while not work.done():
            if self._loop.is_dying:
                raise CrashError
            self._perform_earliest()
        self._take()

    def _perform_earliest(self) -> None:
        earliest = next(iter(self._taken), None)
        if earliest is None:
            earliest = self._queue.popleft()
        else:
            del self._taken[earliest]
            self._idle += 1
        self._perform(earliest)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        # Work that was cancelled is there too, and is done already: it is passed over.
        while wait and (self._taken or self._queue) and not self._loop.is_dying:
            self._perform_earliest()
