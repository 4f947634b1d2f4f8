"""Keeps the one .venv that all scripts share true to the repository.

A stamp inside .venv holds a *key* and the extras that are installed. The key is a hash over all
that decides what an installation looks like: pyproject.toml, constraints.txt, the Cython sources,
the Python version, and whether this machine can compile C. While the key stands and the wanted
extras are there, nothing is done, within a few milliseconds. Otherwise the environment is brought
up to date: another Python makes a new one, another key installs Kaa again (which compiles the
kernels), a new extra is added to what is there. The stamp is written last, so that an installation
that was interrupted is done again.

Anyone who installs holds a lock on the folder of the repository; other scripts wait for it.

Only the standard library is used: this runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "kaa-stamp.json"
LOG = VENV / "install.log"


class Stamp(NamedTuple):
    """What is installed in .venv."""

    key: str
    python: str
    extras: list[str]


def main(arguments: list[str]) -> int:
    """Takes the wanted extras; `--beside PID` gives up when that process has ended."""
    beside_pid = None
    if arguments[:1] == ["--beside"]:
        beside_pid, arguments = int(arguments[1]), arguments[2:]
    try:
        ensure(arguments, beside_pid)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped installing; the next run goes on with it.", file=sys.stderr)
        return 130
    return 0


class SetupError(Exception):
    """The environment cannot be made; the message says in one line what to do."""


def ensure(extras: Iterable[str], beside_pid: int | None = None) -> None:
    """Brings .venv up to date and adds the extras that are missing."""
    wanted = set(extras)
    key = environment_key()
    stamp = read_stamp()
    if stamp is None or stamp.key != key or not wanted <= set(stamp.extras):
        from scripts._installer import install

        install(key, wanted, beside_pid)


def environment_key() -> str:
    """Hashes all that decides what an installation looks like."""
    digest = hashlib.sha256(sys.version.encode())
    digest.update(b"compiles" if can_compile() else b"compiles not")
    for path in (ROOT / "pyproject.toml", ROOT / "constraints.txt", *kernel_sources()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kernel_sources() -> list[Path]:
    """Lists the Cython sources."""
    found = (ROOT / "src" / "kaa").rglob("_*")
    return sorted(path for path in found if path.suffix in {".pyx", ".pxi"})


def can_compile() -> bool:
    """Tells whether a C compiler and the headers of this Python are there."""
    return not missing_for_compiling()


def missing_for_compiling() -> str:
    """Names what is missing to compile the kernels, or nothing."""
    compiler = os.environ.get("CC", "cc").split()[0]
    if not any(shutil.which(name) for name in (compiler, "gcc", "clang")):
        return "a C compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "the headers of Python"
    return ""


def read_stamp() -> Stamp | None:
    """Reads what is installed, or None where that is nothing whole."""
    try:
        return Stamp(**json.loads(STAMP.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
