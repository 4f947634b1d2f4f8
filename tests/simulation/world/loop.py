"""The event loop of one simulated process: asyncio's contract on the kernel's time.

It has what a node and `kaa.client` use of a loop: callbacks, timers, tasks, readiness of sockets,
executors and connections. Its `time` is the monotonic clock of its machine, which may run a little
fast or slow. A process may be paused, and then does nothing while time goes on; and killed, and
then nothing that it still holds has any effect.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import sys
import warnings
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

from kaa.log.sim_files import CrashError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.network import SimNetwork

# Only what nodes and clients use of a loop is there; the rest raises.
_AbstractEventLoop: Any = asyncio.AbstractEventLoop


class SimTask(asyncio.Task[Any]):
    """A task whose place in a set depends on its number and not on its address."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], loop: SimLoop, number: int) -> None:
        self.number = number
        super().__init__(coroutine, loop=loop)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(_AbstractEventLoop):  # type: ignore[misc]
    """See the module's text. `rate` is how fast its clock runs, `fatal` ends the process."""

    def __init__(
        self,
        kernel: Kernel,
        host: str,
        network: SimNetwork,
        *,
        rate: float = 1.0,
        fatal: Callable[[], None] = lambda: None,
        is_disk_dead: Callable[[], bool] = lambda: False,
    ) -> None:
        self.kernel = kernel
        kernel.living[self] = None
        self.host = host
        self.network = network
        self.is_dead = False
        # Its disk is gone, and what it still tries to do is not seen by anybody.
        self.is_dying = False
        self.paused_until = 0.0
        self.complaints: list[str] = []
        self._rate = rate
        self._booted = kernel.now
        self._fatal = fatal
        self._is_disk_dead = is_disk_dead
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._readers: dict[int, asyncio.Handle] = {}
        self._writers: dict[int, asyncio.Handle] = {}
        self._readable: dict[int, None] = {}
        self._writable: dict[int, None] = {}

    # --- as the kernel sees it

    def has_work(self) -> bool:
        if self.is_dead or self.paused_until > self.kernel.now:
            return False
        if self._ready:
            return True
        for descriptor in self._readable:
            if descriptor in self._readers:
                return True
        for descriptor in self._writable:
            if descriptor in self._writers:
                return True
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        return bool(timers) and timers[0][0] <= self.time()

    def wake(self) -> None:
        """There may be something to do."""
        self.kernel.busy[self] = None

    def pause(self, seconds: float) -> None:
        """Does nothing for a while, as a process that was stopped by a signal."""
        self.paused_until = self.kernel.now + seconds
        self.kernel.at(self.paused_until, self.wake)

    def iterate(self) -> None:
        """One round: what sockets and timers have to say, then all that was ready at its start."""
        self._poll()
        asyncio.events._set_running_loop(self)
        try:
            for _ in range(len(self._ready)):
                # Killed by its own callback, or by its disk.
                if self.is_dying or not self._ready:
                    return
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
                if self._is_disk_dead():
                    self.die()
                    return
        finally:
            asyncio.events._set_running_loop(None)

    def _poll(self) -> None:
        random = self.kernel.random
        arrived = [self._readers[key] for key in self._readable if key in self._readers]
        arrived += [self._writers[key] for key in self._writable if key in self._writers]
        if len(arrived) > 1:
            random.shuffle(arrived)
        self._ready.extend(arrived)
        due: list[asyncio.TimerHandle] = []
        now = self.time()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled():
                due.append(timer)
        if len(due) > 1:
            places = {id(timer): random.random() for timer in due}
            due.sort(key=lambda timer: (timer.when(), places[id(timer)]))
        self._ready.extend(due)

    def die(self) -> None:
        """The process met its end in the middle of something; it is buried once that returns."""
        if not self.is_dying:
            self.is_dying = True
            self.paused_until = inf
            self.kernel.after(0, self._fatal)

    # --- life

    def kill(self) -> None:
        """Nothing of the process happens any more; its coroutines end where they are."""
        if self.is_dead:
            return
        self.is_dead = self.is_dying = True
        self.kernel.busy.pop(self, None)
        self.kernel.living.pop(self, None)
        buried: set[int] = set()
        running = asyncio._get_running_loop()
        # What a coroutine does at its end may begin tasks: here, where they never run and end like
        # the others, not on whichever loop asyncio would find.
        asyncio._set_running_loop(self)
        try:
            while tasks := self._tasks_without(buried):
                buried.update(task.number for task in tasks)
                self._forget()
                _bury(tasks)
        finally:
            asyncio._set_running_loop(running)
        self._forget()

    def _forget(self) -> None:
        for queue in (self._ready, self._timers, self._readers, self._writers):
            queue.clear()

    def _tasks_without(self, numbers: set[int]) -> list[SimTask]:
        found = [task for task in asyncio.all_tasks(self) if isinstance(task, SimTask)]
        left = (task for task in found if task.number not in numbers)
        return sorted(left, key=lambda task: task.number)

    def pending_tasks(self) -> list[str]:
        return sorted(repr(task.get_coro()) for task in asyncio.all_tasks(self))

    def pending_timers(self) -> list[str]:
        return [repr(timer) for _, _, timer in self._timers if not timer.cancelled()]

    # --- callbacks and timers

    def time(self) -> float:
        return (self.kernel.now - self._booted) * self._rate

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_dead:
            self._ready.append(handle)
            self.kernel.busy[self] = None
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_dead:
            timer._scheduled = True  # type: ignore[attr-defined]
            heapq.heappush(self._timers, (when, self.kernel.number(), timer))
            # A hair later, so that rounding never leaves a timer that is due a moment from now.
            self.kernel.at(self._booted + when / self._rate + 1e-9, self.wake)
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, _: asyncio.TimerHandle) -> None:
        """It is left out when its time comes."""

    # --- tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[Any]:
        return SimTask(coro, self, self.kernel.number())

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        assert executor is not None, "executors are handed in"
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.is_dead or isinstance(error, CrashError):
            return
        self.complaints.append(f"{context.get('message')}: {error!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_dead

    def is_closed(self) -> bool:
        return self.is_dead

    # --- sockets

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        if not self.is_dead:
            self._readers[fd] = asyncio.Handle(callback, args, self, None)
            self.wake()

    def remove_reader(self, fd: Any) -> bool:
        return _drop_handle(self._readers, fd)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        if not self.is_dead:
            self._writers[fd] = asyncio.Handle(callback, args, self, None)
            self.wake()

    def remove_writer(self, fd: Any) -> bool:
        return _drop_handle(self._writers, fd)

    def ready_changed(self, descriptor: int, *, readable: bool, writable: bool) -> None:
        """Called by the sockets of this process."""
        for ready, is_so in ((self._readable, readable), (self._writable, writable)):
            if is_so:
                ready[descriptor] = None
                self.wake()
            else:
                ready.pop(descriptor, None)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: str, port: int, *, ssl: Any = None
    ) -> tuple[Any, Any]:
        assert ssl is None, "the simulated network carries plain text"
        return await self.network.connect(self, protocol_factory, host, port)


def _drop_handle(handles: dict[int, asyncio.Handle], descriptor: int) -> bool:
    handle = handles.pop(descriptor, None)
    if handle is not None:
        handle.cancel()
    return handle is not None


def _bury(tasks: list[SimTask]) -> None:
    """Ends coroutines whose process is gone. What they try to do about it has no effect."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            for _ in range(3):
                try:
                    coroutine.close()
                except (RuntimeError, CrashError):
                    continue
                except BaseException:  # noqa: BLE001  A dead process complains to nobody.
                    pass
                break
        tasks.clear()
        with warnings.catch_warnings():
            # Of a coroutine that had not begun.
            warnings.simplefilter("ignore", RuntimeWarning)
            gc.collect()
    finally:
        sys.unraisablehook = hook
