"""A node on a thread and loop of this process, with its disk in memory.

The thread of a test must not run the node: clients that block, as librdkafka's do, would wait for
an answer that nobody could give. So the node has a thread of its own, and everything that looks
into it or changes it is run on its loop (`call`).

**Kill.** A thread cannot be killed. Instead every connection is cut, a copy of the disk is taken as
a power cut would leave it, and then the node is stopped in peace on a disk that nobody will read.
To its clients, and to the next start, that is the same.

**Fork.** A child process inherits the object but not the thread. It may not use the node, and
stopping it there does nothing: the node belongs to the process that started it.

**Time.** The loop lives by a clock that a test can move (`clock`).

**Exit.** The thread does not keep its process alive: a script that never stops its broker ends, and
the memory that held everything with it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from random import SystemRandom
from typing import TYPE_CHECKING, TypeVar

from kaa import limits
from kaa.broker import Broker, running
from kaa.broker.development import format_if_empty
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.testing.clock import Clock
from kaa.testing.deliveries import held
from kaa.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.config.server import BrokerConfig
    from kaa.testing.deliveries import Handed
    from kaa.testing.faults import Faults
    from kaa.wire.registry import ApiKey

Answer = TypeVar("Answer")

LOOPBACK = "127.0.0.1"
DATA_FOLDER = "/data"
DEFAULTS = (
    # Small internal topics: a test waits for their partitions to be created and loaded.
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "share.coordinator.state.topic.num.partitions=1",
    # The first member of a share group gets its partitions with a later heartbeat.
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.heartbeat.interval.ms=100",
    # A broker whose clock is moved ahead has missed heartbeats, and is not fenced for that.
    "broker.session.timeout.ms=2147483647",
    # Nor does it hang up on clients for being idle meanwhile.
    "connections.max.idle.ms=9223372036854775807",
)


class ThreadNode:
    """A node on a thread of this process. `launch` and `launch_stop` give futures; `call` runs a
    function on its loop and waits for the result.
    """

    def __init__(self, overrides: Iterable[str], faults: Faults) -> None:
        self._overrides = tuple(overrides)
        self._faults = faults
        self._files = MemoryFiles()
        # The folder an operator would have made long before; a power cut leaves it.
        self._files.make_directory(DATA_FOLDER)
        self._files.sync_directory("/")
        self.clock = Clock()
        self._pid = os.getpid()
        self._port = 0
        self._thread: threading.Thread | None = None
        self._broker: Broker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_to_stop: asyncio.Event | None = None
        # What the node said about itself.
        self.reports: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._pid == os.getpid()

    # --- life

    def launch(self) -> Future[None]:
        """Begins to start; the future says when the node serves, or why it does not."""
        if self._pid != os.getpid():
            raise RuntimeError("this broker belongs to the process that started it")
        if self._thread is not None:
            raise RuntimeError("the broker runs already")
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="kaa-testing", daemon=True
        )
        self._thread.start()
        return ready

    def launch_stop(self) -> Future[None]:
        """Begins to stop; the future says when it is done. Nothing happens in a forked child."""
        stopped: Future[None] = Future()
        if not self.is_running:
            stopped.set_result(None)
            return stopped
        assert self._loop is not None
        assert self._is_to_stop is not None
        self._stopped = stopped
        self._loop.call_soon_threadsafe(self._is_to_stop.set)
        return stopped

    def join(self) -> None:
        """Waits for the thread, which has nothing left to do."""
        if self.is_running and self._thread is not None:
            self._thread.join(limits.TESTING_STOP_SECONDS_MAX)
            self._thread = None

    def cut(self, *, keep_unflushed: bool) -> None:
        """The moment of a kill: clients are cut off, and the disk is what is left."""

        def cut() -> MemoryFiles:
            assert self._broker is not None
            listeners = self._broker.listeners
            listeners.stop_accepting()
            for listener in listeners.by_name.values():
                listener.close_connections("killed")
            return self._files.left_by("kill" if keep_unflushed else "lost")

        self._files = self.call(cut)

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Runs a function on the node's loop, the only place where its state may be touched."""
        if not self.is_running or self._loop is None:
            raise RuntimeError("the broker is not running")

        async def run() -> Answer:
            return function()

        waiting = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return waiting.result(limits.TESTING_ANSWER_SECONDS_MAX)

    def delivered(self, group_id: str) -> list[Handed]:
        """What members of a share group were given."""
        return self.call(lambda: self._faults.deliveries.of_group(group_id))

    def held(self, group_id: str) -> list[Handed]:
        """What members of a share group hold now."""

        def look() -> list[Handed]:
            assert self._broker is not None
            return held(self._broker, group_id)

        return self.call(look)

    def cap(self, versions: Mapping[ApiKey, int]) -> None:
        """Has the node claim no more than these versions."""
        self.call(lambda: self._faults.cap(versions))

    # --- the thread

    _stopped: Future[None] | None = None

    def _run(self, ready: Future[None]) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=self.clock.new_loop) as runner:
                runner.run(self._serve(ready))
        except BaseException as error:  # noqa: BLE001  The thread that waits for this one gets it.
            failure = _plain(error)
        self._loop = None
        self.clock.leave_loop()
        stopped, self._stopped = self._stopped, None
        for waiting in (ready, stopped):
            if waiting is not None and not waiting.done():
                if failure is not None:
                    waiting.set_exception(failure)
                else:
                    waiting.set_result(None)

    async def _serve(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_to_stop = asyncio.Event()
        config = self._config()
        format_if_empty(config, self._files, SystemRandom(), self.clock.wall_ms())
        broker = Broker(config, files=self._files, clock=self.clock, report=self.reports.append)
        async with running(broker):
            self._broker = broker
            self._port = int(broker.bootstrap_servers.rpartition(":")[2])
            self._faults.install(broker)
            ready.set_result(None)
            await self._is_to_stop.wait()
        self._broker = None

    def _config(self) -> BrokerConfig:
        # A port that was once given stays, so that clients find a restarted node again.
        listeners = f"listeners=PLAINTEXT://{LOOPBACK}:{self._port}"
        settings = development_settings(
            DATA_FOLDER, overrides=[listeners, *DEFAULTS, *self._overrides]
        )
        return load_broker_config(settings).config


def _plain(error: BaseException) -> BaseException:
    """The one error inside of groups of one, which says more than they do."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
