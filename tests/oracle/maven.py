"""Kafka's jars: fetched once through Maven, then shared by every run of the tests.

The jars lie in a folder whose name carries a hash of what was asked for, so a change of the list
below fetches anew and never mixes two sets. The folder appears by a rename: it is there complete or
not at all. Where Maven gets its files from is a matter of its own settings.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Final, NamedTuple

from kaa.wire.version import KAFKA_VERSION
from tests.oracle.environment import (
    OracleUnavailableError,
    Progress,
    cache_folder,
    command,
    locked,
    silent,
)

FETCH_SECONDS_MAX: Final = 900
PARTIAL: Final = "partial-"


class Artifact(NamedTuple):
    """A jar that is asked for by name; Maven adds what it depends on."""

    group: str
    name: str
    version: str = KAFKA_VERSION

    def dependency(self) -> str:
        """This artifact as Maven wants to read it."""
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version></dependency>"
        )


ARTIFACTS: Final = (
    Artifact("org.apache.kafka", "kafka-clients"),
    Artifact("org.apache.kafka", "kafka_2.13"),
    Artifact("org.apache.kafka", "kafka-tools"),
    Artifact("org.apache.kafka", "kafka-shell"),
    Artifact("org.apache.kafka", "connect-runtime"),
    # Kafka logs through slf4j and leaves the choice of what stands behind it to its user.
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)


def project() -> str:
    """A Maven project that is nothing but its dependencies."""
    dependencies = "".join(artifact.dependency() for artifact in ARTIFACTS)
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kaa</groupId>"
        f"<artifactId>oracle</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def jars(progress: Progress = silent) -> Path:
    """The folder with Kafka's jars; fetches them if this is the first time."""
    cache = cache_folder()
    digest = hashlib.sha256(project().encode()).hexdigest()[:12]
    folder = cache / f"jars-{digest}"
    if folder.is_dir():
        return folder
    with locked(cache):
        # Another process may have fetched them while this one waited.
        if not folder.is_dir():
            _fetch(cache, folder, progress)
    return folder


def _fetch(cache: Path, folder: Path, progress: Progress) -> None:
    for leftover in cache.glob(f"{PARTIAL}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    maven = command("mvn", "fetch Kafka's jars")
    work = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=cache))
    (work / "pom.xml").write_text(project())
    progress(f"fetching the jars of Kafka {KAFKA_VERSION} through Maven (about 60 MB)")
    _run_maven(
        [
            maven,
            "--batch-mode",
            f"--file={work / 'pom.xml'}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={work / 'jars'}",
        ],
        progress,
    )
    (work / "jars").rename(folder)
    shutil.rmtree(work)
    progress(f"{sum(1 for _ in folder.glob('*.jar'))} jars are in place")


def _run_maven(arguments: list[str], progress: Progress) -> None:
    """Run Maven, telling about each jar as it arrives; a failure carries Maven's own reason."""
    errors: list[str] = []
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        watchdog = threading.Timer(FETCH_SECONDS_MAX, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if arrived := re.match(r"Downloaded from .*/([^/]+\.jar) (\(.*\))", line):
                    progress(f"  {arrived[1]} {arrived[2]}")
                elif "[ERROR]" in line:
                    errors.append(line.partition("[ERROR]")[2].strip())
        finally:
            watchdog.cancel()
    if process.returncode != 0:
        reason = next(filter(None, errors), f"exit code {process.returncode}")
        raise OracleUnavailableError(f"Maven could not fetch Kafka's jars: {reason}")
