"""How the interpreter that runs was built, which decides a quarter of what Kaa can do.

An *optimised* build was compiled along a profile of real runs (`--enable-optimizations`), as are
those of distributions (Debian, Ubuntu, Fedora, Homebrew), of python.org and of uv. A *plain* build,
as pyenv makes it unless told otherwise, was not: small requests then cost 1.2 to 1.3 times as much.

Distributions run the steps of such a build by themselves, so that nothing in the configuration says
so; they are known by their prefix.

Run as a program, which scripts do before anything is installed, it leaves with 0 if the interpreter
is optimised and can make an environment in which Kaa's kernels are compiled.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

_OF_DISTRIBUTIONS = ("/usr", "/opt/homebrew", "/usr/local/Cellar", "/home/linuxbrew")


class Build(NamedTuple):
    """What is known of the build."""

    version: str
    is_optimised: bool
    compiler: str

    def __str__(self) -> str:
        kind = "an optimised build" if self.is_optimised else "a plain build"
        return f"{self.version} ({kind}, {self.compiler})"


def build() -> Build:
    """The build of the interpreter that runs."""
    flags = [str(sysconfig.get_config_var(name) or "") for name in ("PY_CFLAGS", "LDFLAGS")]
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return Build(
        platform.python_version(),
        is_optimised(arguments, " ".join(flags), sys.base_prefix),
        platform.python_compiler().strip(),
    )


def is_optimised(arguments: str, flags: str, prefix: str) -> bool:
    """Whether a build is, by the arguments of its configuration, its flags and its place."""
    if "--enable-optimizations" in arguments or "-fprofile-use" in flags:
        return True
    # Who builds to /usr/local does so by hand; what lies below /usr itself came with the system.
    return prefix == "/usr" or any(prefix.startswith(f"{one}/") for one in _OF_DISTRIBUTIONS[1:])


def makes_environments() -> bool:
    """Whether it can make an environment, and has the headers that kernels are compiled with."""
    has_modules = all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))
    return has_modules and Path(sysconfig.get_path("include"), "Python.h").is_file()


if __name__ == "__main__":
    sys.exit(not (build().is_optimised and makes_environments()))
