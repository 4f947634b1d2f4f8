"""Children of tests: every test ends what it started, also when it fails or is killed.

Two nets, one below the other:

- `running` starts a child for a `with` block and kills it at the end of the block, however that
  ends. `subprocess.Popen` as a context would wait for it, for ever if need be.
- `Reaper` is for what slips through: a test process that is killed itself (a time-out, the out-of-
  memory killer) runs no `finally`. Every child inherits a mark in its environment. A small program
  that holds the other end of a pipe sees the test process go, and kills what still bears the mark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

MARK: Final = "KAA_TEST_RUN"

# Waits until the pipe is closed, then kills. It reads /proc, and does nothing where there is none.
_WATCHER: Final = """
import os, signal, sys
mark = sys.argv[1].encode()
sys.stdin.buffer.read()
for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
    if name.isdigit() and int(name) != os.getpid():
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                is_marked = mark in file.read().split(b"\\0")
            if is_marked:
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
"""


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A child that does not outlive the block; `options` are those of `subprocess.Popen`."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


class Reaper:
    """Kills what this process has started and left, when this process has ended."""

    def __init__(self) -> None:
        outer = os.environ.get(MARK)
        mark = f"{os.getpid()}-{os.urandom(8).hex()}"
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        self._watcher = subprocess.Popen(
            [sys.executable, "-ISc", _WATCHER, f"{MARK}={mark}"],
            stdin=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._outer = outer
        os.environ[MARK] = mark

    def close(self) -> None:
        """Kills now what is left."""
        if self._outer is None:
            os.environ.pop(MARK, None)
        else:
            os.environ[MARK] = self._outer
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait()
