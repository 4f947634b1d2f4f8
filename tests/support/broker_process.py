"""A node as users run it: a child process of `kaa broker start`, with a port and folder of its own.

The process dies with the one that started it, however that ends: it watches a pipe between them.
What it prints goes to a file, so that it never waits for a reader. The port stays the same over
restarts, so that clients find the node again.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from tests.oracle.environment import wait_until
from tests.support.ports import LOOPBACK, free_port

# Far more than a start or a stop takes, even on a machine that has much else to do.
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 60
# Tests write records that are years old, and are not to lose them by chance.
KEEPS_RECORDS = "log.retention.check.interval.ms=86400000"

# What a shell starts in the background ignores Ctrl-C, and so does all that it starts in turn: a
# run of the tests too; under `nohup` it ignores the end of a terminal. A command under test is
# interrupted like one on a terminal.
_PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from kaa.cli import main
main()
"""
# Ends as soon as the other end of its standard input is gone, which only this process holds.
_PROGRAM_WITH_PARENT = f"""
import os, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
{_PROGRAM}
"""
# What a node prints when a request or a duty met something that was not foreseen.
_TROUBLE = re.compile(r"^Traceback|\bfailed: |could not be loaded", re.MULTILINE)
_ADDRESS = re.compile(r"^(\S+) +(\S+:\d+)$", re.MULTILINE)


def kaa_command(*arguments: str, program: str = _PROGRAM) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


class BrokerProcess:
    """See the module's text. As a context it runs, and is killed at the end."""

    def __init__(
        self, folder: Path, *overrides: str, config_file: Path | None = None, port: int = 0
    ) -> None:
        """Overrides are NAME=VALUE; with a configuration file they come on top of it."""
        self.folder = folder
        self.data_dir = folder / "data"
        self.overrides = overrides
        self.config_file = config_file
        self.port = port or free_port()
        self.output_file = folder / "output"
        self.process: subprocess.Popen[bytes] | None = None
        # Addresses by listener, in small letters, as the node printed them.
        self.addresses: dict[str, str] = {}
        # What stands before the command, and what the process runs before the node starts.
        self.prefix: tuple[str, ...] = ()
        self.preamble = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def controller(self) -> str:
        return self.addresses["controller"]

    @property
    def output(self) -> str:
        """What this start printed."""
        return self.output_file.read_text()

    # --- life

    def launch(self, *more_overrides: str) -> subprocess.Popen[bytes]:
        """Starts the process and does not wait."""
        assert self.process is None, "it runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.config_file is None:
            arguments = ["--data-dir", str(self.data_dir)]
            own = [KEEPS_RECORDS, f"listeners=PLAINTEXT://{self.bootstrap_servers}"]
        else:
            arguments, own = [str(self.config_file)], []
        for override in (*own, *self.overrides, *more_overrides):
            arguments += ["--override", override]
        with self.output_file.open("wb") as output:
            program = f"{self.preamble}\n{_PROGRAM_WITH_PARENT}"
            self.process = subprocess.Popen(
                [*self.prefix, *kaa_command("broker", "start", *arguments, program=program)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )
        return self.process

    def start(self) -> None:
        """Starts the process; it serves when this returns."""
        process = self.launch()
        wait_until(
            lambda: "\nready " in self.output or process.poll() is not None, START_SECONDS_MAX
        )
        if "\nready " not in self.output:
            self.kill()
            raise AssertionError(f"the node did not start:\n{self.output}")
        self.addresses = dict(_ADDRESS.findall(self.output))

    def end(self) -> int:
        """Waits for the process to end by itself; gives its exit code."""
        process = self._running()
        code = process.wait(STOP_SECONDS_MAX)
        self._forget(process)
        return code

    def stop(self) -> None:
        """Stops the process as an operator does; it must end cleanly."""
        self._running().send_signal(signal.SIGTERM)
        code = self.end()
        assert code == 0, f"the node ended with {code}:\n{self.output}"
        self._check_output()

    def kill(self) -> None:
        """Ends the process at once, if it runs."""
        process = self.process
        if process is not None:
            process.kill()
            process.wait()
            self._forget(process)

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        self.process = None

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "it does not run"
        return self.process

    # --- measures

    def check_health(self) -> None:
        """It runs, and nothing went wrong in it that it did not expect."""
        code = self._running().poll()
        assert code is None, f"the node ended with {code}:\n{self.output}"
        self._check_output()

    def _check_output(self) -> None:
        assert not _TROUBLE.search(self.output), self.output

    @property
    def resident_bytes(self) -> int:
        return int(psutil.Process(self._running().pid).memory_info().rss)

    @property
    def descriptors(self) -> list[str]:
        """What its descriptors lead to, as far as that can be told."""
        folder = Path(f"/proc/{self._running().pid}/fd")
        found = []
        for link in folder.iterdir() if folder.is_dir() else ():
            with suppress(FileNotFoundError):
                found.append(str(link.readlink()))
        return sorted(found)

    @property
    def descriptor_count(self) -> int:
        return int(psutil.Process(self._running().pid).num_fds())
