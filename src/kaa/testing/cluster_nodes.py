"""The nodes of a cluster in a test: on a thread each with the disk in memory, or as processes.

Both kinds can be killed, paused and cut off from each other.

**Pause.** The thread of a node is held in the middle of its loop, as SIGSTOP holds a process: its
sockets stay open, and nothing is said or answered until it goes on.

**Cut.** Each of two nodes can no longer reach the ports of the other (`cuts`). Clients can.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from kaa import limits
from kaa.broker import Broker, running
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.testing.cuts import CutLoop
from kaa.testing.memory_files import MemoryFiles
from kaa.testing.process_child import active_epoch
from kaa.testing.process_node import ProcessNode
from kaa.testing.remote import RemoteFaults

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kaa.log.files import Files
    from kaa.log.sim_files import CrashMode

DATA_FOLDER = "/data"


class ClusterNode(Protocol):
    """What a cluster does with a node, whatever it is made of."""

    id: int
    # Of clients, and of controllers.
    ports: tuple[int, int]

    @property
    def is_paused(self) -> bool: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def data_folder(self) -> str: ...

    @property
    def files(self) -> Files: ...

    @property
    def reports(self) -> Sequence[str]: ...

    @property
    def active_epoch(self) -> int | None:
        """The epoch that its controller is active in, if it is."""
        ...

    def launch(self, overrides: Sequence[str]) -> Future[None]:
        """Begins to start; the future says when the node serves."""
        ...

    def stop(self) -> None:
        """Stops cleanly, and waits for it."""
        ...

    def kill(self, *, keep_unflushed: bool) -> None:
        """Ends it at once; without `keep_unflushed` a disk in memory is left as by a power cut."""
        ...

    def pause(self) -> None:
        """Stops it in the middle of whatever it does, with its connections open."""
        ...

    def resume(self) -> None:
        """Lets a paused one go on."""
        ...

    def cut(self, ports: frozenset[int]) -> None:
        """These ports are out of reach from now on, and no others."""
        ...


class MemoryNode:
    """A node on a thread and loop of its own, over its lives."""

    data_folder = DATA_FOLDER

    def __init__(self, node_id: int, ports: tuple[int, int]) -> None:
        self.id = node_id
        self.ports = ports
        self.files = MemoryFiles()
        # The folder an operator would have made long before; a power cut leaves it.
        self.files.make_directory(DATA_FOLDER)
        self.files.sync_directory("/")
        self.reports: list[str] = []
        self.broker: Broker | None = None
        self._thread: threading.Thread | None = None
        self._loop: CutLoop | None = None
        self._is_to_stop = asyncio.Event()
        self._unreachable: frozenset[int] = frozenset()
        # Set when a paused node may go on; None while it runs.
        self._go_on: threading.Event | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def is_paused(self) -> bool:
        return self._go_on is not None

    @property
    def active_epoch(self) -> int | None:
        broker = self.broker
        return None if broker is None else active_epoch(broker)

    def launch(self, overrides: Sequence[str]) -> Future[None]:
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(list(overrides), ready), name=f"kaa-{self.id}", daemon=True
        )
        self._thread.start()
        return ready

    def stop(self) -> None:
        self.resume()
        self._on_loop(self._is_to_stop.set)
        self._join()

    def kill(self, *, keep_unflushed: bool) -> None:
        """Connections are cut, and the disk is what a kill or a power cut leaves. The thread then
        stops in peace, on a disk that nobody will read.
        """
        left: list[MemoryFiles] = []
        mode: CrashMode = "kill" if keep_unflushed else "lost"
        if self.is_paused:
            # What it does when it is let go must not count.
            left.append(self.files.left_by(mode))
            self.resume()

        def end() -> None:
            if self.broker is not None:
                self.broker.sever()
            left.append(self.files.left_by(mode))
            self._is_to_stop.set()

        self._on_loop(end)
        self._join()
        if left:
            self.files = left[0]

    def pause(self) -> None:
        if self.is_paused or self._loop is None:
            return
        go_on = self._go_on = threading.Event()
        is_held = threading.Event()

        def hold() -> None:
            is_held.set()
            go_on.wait()

        self._on_loop(hold)
        is_held.wait(limits.TESTING_ANSWER_SECONDS_MAX)

    def resume(self) -> None:
        go_on, self._go_on = self._go_on, None
        if go_on is not None:
            go_on.set()

    def cut(self, ports: frozenset[int]) -> None:
        self._unreachable = ports
        loop = self._loop
        if loop is not None:
            self._on_loop(lambda: loop.cut(ports))

    # --- the thread

    def _on_loop(self, function: Any) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join(limits.TESTING_STOP_SECONDS_MAX)
            self._thread = None

    def _new_loop(self) -> CutLoop:
        self._loop = CutLoop()
        self._loop.cut(self._unreachable)
        return self._loop

    def _run(self, overrides: list[str], ready: Future[None]) -> None:
        try:
            with asyncio.Runner(loop_factory=self._new_loop) as runner:
                runner.run(self._serve(overrides, ready))
        except BaseException as error:  # noqa: BLE001  The thread that waits for this one gets it.
            if not ready.done():
                ready.set_exception(error)
            else:
                self.reports.append(f"ended by itself: {error!r}")
        finally:
            self._loop = self.broker = None

    async def _serve(self, overrides: list[str], ready: Future[None]) -> None:
        self._is_to_stop = asyncio.Event()
        config = load_broker_config(development_settings(DATA_FOLDER, overrides=overrides)).config
        broker = Broker(config, files=self.files, report=self.reports.append)
        async with running(broker):
            self.broker = broker
            ready.set_result(None)
            await self._is_to_stop.wait()


class ChildNode:
    """A node as a child process, with its data in a folder of the test's."""

    def __init__(self, node_id: int, ports: tuple[int, int], folder: Path) -> None:
        from kaa.log.files import RealFiles

        self.id = node_id
        self.ports = ports
        self.is_paused = False
        self.files: Files = RealFiles()
        self._folder = folder
        self._process: ProcessNode | None = None
        self._unreachable: frozenset[int] = frozenset()

    @property
    def data_folder(self) -> str:
        return str(self._folder)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def active_epoch(self) -> int | None:
        return None if self._process is None else self._process.active_epoch

    @property
    def reports(self) -> list[str]:
        return [] if self._process is None else self._process.reports

    def launch(self, overrides: Sequence[str]) -> Future[None]:
        if self._process is None:
            self._process = ProcessNode(overrides, RemoteFaults(), data_folder=self._folder)
        return self._process.launch(unreachable=self._unreachable)

    def stop(self) -> None:
        self.resume()
        if self._process is not None:
            self._process.launch_stop().result(limits.TESTING_STOP_SECONDS_MAX)

    def kill(self, *, keep_unflushed: bool) -> None:
        """SIGKILL, whatever is asked for: the system keeps what was written."""
        del keep_unflushed
        if self._process is not None:
            self._process.kill()
        self.is_paused = False

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        if self.is_paused:
            self._signal(signal.SIGCONT)
            self.is_paused = False

    def cut(self, ports: frozenset[int]) -> None:
        self._unreachable = ports
        if self._process is not None:
            self._process.cut(ports)

    def clean_up(self) -> None:
        if self._process is not None:
            self._process.clean_up()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
