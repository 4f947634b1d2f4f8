"""Programs of their own that use Spark, as users start them: from a shell that knows nothing of it.

They are the files `*_program.py` beside this one. All processes of a program, the Java and the
Python workers of Spark too, are in one session of the system, so that nothing of it is overlooked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.oracle.environment import wait_until

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
# Java starts sooner when it compiles only lightly, and none of what is run here runs for long.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_KEPT = ("HOME", "LANG", "JAVA_HOME", "TMPDIR", "XDG_CACHE_HOME", "PYTHONPATH")


def shell() -> dict[str, str]:
    """The environment of a shell in which no environment is active and Spark was never started."""
    # Not what the session of these tests has set.
    before = psutil.Process().environ()
    java = Path(before.get("JAVA_HOME", ""), "bin")
    kept = {name: value for name, value in before.items() if name in _KEPT}
    return kept | {"PATH": f"/usr/bin:/bin:{java}", "JDKJAVA_OPTIONS": JAVA_OPTIONS}


_started: list[Program] = []


def kill_all() -> None:
    """Ends what a test that failed has left behind."""
    while _started:
        _started.pop().kill()


class Program:
    """A running program; what it and Spark print goes to a file."""

    def __init__(
        self, name: str, folder: Path, *arguments: str, environment: dict[str, str] | None = None
    ) -> None:
        self.output_file = folder / "output"
        with self.output_file.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(FOLDER / f"{name}_program.py"), *arguments],
                env=shell() if environment is None else environment,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        _started.append(self)

    @property
    def output(self) -> str:
        return self.output_file.read_text("utf-8", "replace")

    def family(self) -> list[psutil.Process]:
        """All processes of the session that are alive."""
        return [one for one in psutil.process_iter() if _is_in(one, self.process.pid)]

    def end(self, timeout_s: float = 280) -> None:
        """Waits for the program, which must end well and leave no process behind."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end:\n{self.output}") from None
        assert code == 0, self.output
        assert wait_until(lambda: not self.family(), 60), self.family()

    def kill(self) -> None:
        """Everything at once, as when a machine loses its power."""

        def is_gone() -> bool:
            family = self.family()
            for one in family:
                try:
                    one.kill()
                except psutil.NoSuchProcess:
                    continue
            self.process.poll()
            return not family

        assert wait_until(is_gone, 60), self.family()


def _is_in(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.NoSuchProcess):
        return False
