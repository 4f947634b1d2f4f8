"""Tries Kaa on every Python that it says it runs on: `scripts/check versions [3.13 ...]`.

For each of 3.11 to 3.14 an interpreter is looked for: on the PATH, among those of pyenv and uv, and
in `KAA_PYTHONS` (paths with colons between them); of several of one version an optimised one is
taken. In an environment of its own (`.venv-3.13`) Kaa is installed with what its tests need. Then
the program starts, and the tests of the units and of real clients run.
Versions of which there is no interpreter are named and do not count as failed.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = ("tests/unit", "tests/clients")
# What only Spark and tables need takes long to install; these tests are of neither.
WITHOUT = ("--ignore=tests/unit/spark", "-m", "not oracle")
_PLACES = ("~/.pyenv/versions/*/bin/python", "~/.local/share/uv/python/*/bin/python")
_ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


class Outcome(NamedTuple):
    """How one version did."""

    version: str
    python: str
    state: str
    seconds: float


def main(names: Sequence[str]) -> int:
    """Tries the named versions, or all."""
    unknown = set(names) - set(VERSIONS)
    if unknown:
        print(f"Kaa runs on {', '.join(VERSIONS)}, not on {', '.join(sorted(unknown))}.")
        return 2
    found = interpreters()
    outcomes = [_try(version, found.get(version)) for version in names or VERSIONS]
    print(f"{'VERSION':<9}{'STATE':<24}{'SECONDS':>8}  PYTHON")
    for one in outcomes:
        print(f"{one.version:<9}{one.state:<24}{one.seconds:>8.0f}  {one.python}")
    return int(any(one.state.startswith("failed") for one in outcomes))


def interpreters() -> dict[str, str]:
    """One interpreter of each version, an optimised one where there is a choice."""
    found: dict[str, str] = {}
    quick: set[str] = set()
    for path in _candidates():
        version = _output([path, "-ISc", _ASK])
        if version not in VERSIONS or version in quick:
            continue
        if _output([path, "-IS", str(ROOT / "src" / "kaa" / "interpreter.py")]) is not None:
            quick.add(version)
            found[version] = path
        found.setdefault(version, path)
    return found


def _candidates() -> Iterator[str]:
    yield from filter(None, os.environ.get("KAA_PYTHONS", "").split(":"))
    for name in ("python3", *(f"python{version}" for version in VERSIONS)):
        path = shutil.which(name)
        if path is not None:
            yield path
    yield "/usr/bin/python3"
    for pattern in _PLACES:
        yield from sorted(glob.glob(str(Path(pattern).expanduser())), reverse=True)  # noqa: PTH207


def _output(command: Sequence[str]) -> str | None:
    """What a command prints; None if it cannot run or fails."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if answer.returncode else answer.stdout.strip()


def _try(version: str, python: str | None) -> Outcome:
    if python is None:
        return Outcome(version, "-", "no interpreter found", 0)
    started = time.monotonic()
    folder = ROOT / f".venv-{version}"
    log = folder / "versions.log"
    for what, command in _steps(python, folder):
        print(f"{version}: {what}", flush=True)
        folder.mkdir(exist_ok=True)
        with log.open("ab") as file:
            answer = subprocess.run(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                env=_environment(),
            )
        if answer.returncode:
            print("\n".join(log.read_text("utf-8", "replace").splitlines()[-25:]))
            state = f"failed: {what}"
            return Outcome(version, python, state, time.monotonic() - started)
    return Outcome(version, python, "ok", time.monotonic() - started)


def _environment() -> dict[str, str]:
    constraints = str(ROOT / "constraints.txt")
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}


def _steps(python: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    own = str(folder / "bin" / "python")
    # The package manager of this environment serves them all; not every Python brings one.
    pip = [sys.executable, "-m", "pip", "--python", own]
    yield "environment", [python, "-m", "venv", "--clear", "--without-pip", str(folder)]
    yield "install", [*pip, "install", "-q", "-e", str(ROOT), *_requirements()]
    yield "kaa --version", [own, "-c", "from kaa.cli import main; main()", "--version"]
    yield "unit and client tests", [own, "-m", "pytest", "-q", "-n", "2", *TESTS, *WITHOUT]


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*extras["dev"], *extras["bench"], *extras["tier"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
