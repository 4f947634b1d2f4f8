"""What the oracle needs from this machine: Java, Maven, and a folder outside the tree.

All that is kept there is derived (jars, compiled classes), so it may be deleted at any time.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kaa.wire.version import KAFKA_VERSION

Progress = Callable[[str], None]


class OracleUnavailableError(Exception):
    """The oracle cannot run here; the message says what is missing."""


def silent(line: str) -> None:
    """Drop a progress line."""


def command(name: str, purpose: str) -> str:
    """The path of a command; JAVA_HOME comes before PATH, as in Kafka's own scripts."""
    home = os.environ.get("JAVA_HOME")
    if home and name in {"java", "javac"} and (found := shutil.which(f"{home}/bin/{name}")):
        return found
    if found := shutil.which(name):
        return found
    raise OracleUnavailableError(f"the command '{name}' is missing; it is needed to {purpose}")


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for something that other processes do; tell whether it came to be."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def alive(pid: int) -> bool:
    """Whether a process of this user is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def cache_folder() -> Path:
    """The folder for what belongs to the pinned Kafka version; it is made if it is not there."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    folder = root / "kaa" / "oracle" / KAFKA_VERSION
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder against every other process; the kernel lets go when this one dies."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
