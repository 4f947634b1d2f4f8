"""Nodes outside of this process: a child with a node of its own, and a foreign cluster.

The child (`process_child`) has a temporary folder, which is gone when it is stopped, and dies
with the process that started it, however that ends (on Linux the kernel sees to it). What it prints
goes to a file in that folder, so that it never waits for a reader. Rules and time travel by two
pipes (`remote`), and outlive a restart, as its folder and port do.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kaa import limits
from kaa.testing.remote import Control, RemoteClock
from kaa.testing.thread_node import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.testing.deliveries import Handed
    from kaa.testing.remote import RemoteFaults
    from kaa.wire.registry import ApiKey

_PROGRAM: Final = """
import os, sys
parent, commands, events = map(int, sys.argv[1:])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != parent:
    os._exit(1)
from kaa.testing.process_child import main
main(commands, events)
"""


class ProcessNode:
    """A node in a child process, with real files and a real kill. `launch` and `launch_stop` give
    futures; `clean_up` removes its folder.
    """

    def __init__(
        self, overrides: Iterable[str], faults: RemoteFaults, data_folder: Path | None = None
    ) -> None:
        self._overrides = tuple(overrides)
        self._faults = faults
        self.clock = RemoteClock()
        self._pid = os.getpid()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        # Somebody else's, who has it ready and removes it; None for one in the folder above.
        self._data_folder = data_folder
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Control | None = None
        self._port = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._pid == os.getpid()

    @property
    def output(self) -> str:
        """What the child printed since its last start."""
        return "" if self._folder is None else Path(self._folder.name, "output").read_text()

    @property
    def reports(self) -> list[str]:
        return self.output.splitlines()

    def launch(self, unreachable: frozenset[int] = frozenset()) -> Future[None]:
        """Begins to start; these ports are out of reach for the node from the beginning."""
        if self._pid != os.getpid():
            raise RuntimeError("this broker belongs to the process that started it")
        if self._process is not None:
            raise RuntimeError("the broker runs already")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kaa-testing-")
        control = self._control = Control(self._faults.happened)
        command = [sys.executable, "-c", _PROGRAM, str(os.getpid())]
        command += map(str, control.descriptors)
        with Path(self._folder.name, "output").open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603  This very Python, and our program.
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=control.descriptors,
            )
        control.start()
        # A port that was once given stays, so that clients find a restarted node again.
        listeners = f"listeners=PLAINTEXT://{self.bootstrap_servers}"
        overrides = [listeners, *DEFAULTS, *self._overrides]
        data = str(self._data_folder or Path(self._folder.name, "data"))
        # A child that is gone already is found out by the one who waits for it.
        with suppress(OSError):
            rules = self._faults.in_force()
            control.send(data, overrides, *rules, self.clock.shift_ns, unreachable)
        # Where the kernel does not see to it: a script that never stops its broker.
        atexit.register(self.kill)
        return _in_thread(self._wait_until_ready)

    def _wait_until_ready(self) -> None:
        assert self._control is not None
        try:
            address = self._control.ready.result(limits.TESTING_START_SECONDS_MAX)
        except (RuntimeError, TimeoutError):
            self.kill()
            raise RuntimeError(f"the broker did not start:\n{self.output}") from None
        self._port = int(address.rpartition(":")[2])
        self._faults.attach(self._control)
        self.clock.attach(self._control)

    def launch_stop(self) -> Future[None]:
        """Begins to stop; the future says when the process has ended."""
        return _in_thread(self._stop)

    def _stop(self) -> None:
        if not self.is_running or self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        # A test may have paused it by a signal of its own.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(limits.TESTING_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._ended()

    def kill(self) -> None:
        """SIGKILL: what was written is kept by the system, flushed or not."""
        if self.is_running and self._process is not None:
            self._process.kill()
            self._process.wait()
            self._ended()

    def _ended(self) -> None:
        self._process = None
        self._faults.attach(None)
        self.clock.attach(None)
        if self._control is not None:
            self._control.close()
            self._control = None

    @property
    def pid(self) -> int | None:
        """The child's process id, for debuggers and signals; None while it is not running."""
        return None if self._process is None else self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process, if there is one."""
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def active_epoch(self) -> int | None:
        """The epoch that the child's controller is active in, if it is."""
        if self._control is None:
            return None
        try:
            epoch: int | None = self._control.call("active_epoch")
        except (RuntimeError, TimeoutError):
            return None
        return epoch

    def cut(self, ports: frozenset[int]) -> None:
        """These ports are out of reach from now on. A child that is paused does it later."""
        if self._control is not None:
            self._control.send(0, "cut", (ports,))

    def delivered(self, group_id: str) -> list[Handed]:
        """What members of a share group were given."""
        return self._asked("delivered", group_id)

    def held(self, group_id: str) -> list[Handed]:
        """What members of a share group hold now."""
        return self._asked("held", group_id)

    def _asked(self, verb: str, group_id: str) -> list[Handed]:
        if self._control is None:
            raise RuntimeError("the broker is not running")
        found: list[Handed] = self._control.call(verb, group_id)
        return found

    def cap(self, versions: Mapping[ApiKey, int]) -> None:
        """Has the node claim no more than these versions."""
        self._faults.cap(versions)

    def join(self) -> None:
        """Nothing is left to wait for."""

    def clean_up(self) -> None:
        """Removes the folder; the next start begins with an empty one."""
        atexit.unregister(self.kill)
        if self._folder is not None and self._pid == os.getpid():
            self._folder.cleanup()
            self._folder = None


class ForeignCluster:
    """A cluster that somebody else runs: it is used, and neither started nor stopped."""

    is_running = True
    reports: tuple[str, ...] = ()

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def launch(self) -> Future[None]:
        return _done()

    def launch_stop(self) -> Future[None]:
        return _done()

    def join(self) -> None:
        """There is nothing to wait for."""


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _in_thread(function: object) -> Future[None]:
    """Runs something that blocks on a thread that ends with it."""
    assert callable(function)
    done: Future[None] = Future()

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001  Anyone who waits gets it.
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="kaa-testing-child").start()
    return done
