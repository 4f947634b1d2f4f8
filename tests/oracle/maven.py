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
_NOTHING_ELSE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


class Artifact(NamedTuple):
    """A jar that is asked for by name; Maven adds what it depends on."""

    group: str
    name: str
    version: str = KAFKA_VERSION
    # Which jar of the artifact, where it is not the main one.
    classifier: str = ""
    # Whether what it depends on is wanted as well.
    with_dependencies: bool = True

    def dependency(self) -> str:
        """This artifact as Maven wants to read it."""
        classifier = f"<classifier>{self.classifier}</classifier>" if self.classifier else ""
        exclusions = "" if self.with_dependencies else _NOTHING_ELSE
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version>{classifier}{exclusions}</dependency>"
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


# Kafka Streams with its own tests, and Connect with its file connectors: programs of Kafka's own
# that are run as they are against a node. They are many, and most runs do without them.
PROGRAMS: Final = (
    *ARTIFACTS,
    Artifact("org.apache.kafka", "kafka-clients", classifier="test"),
    Artifact("org.apache.kafka", "kafka-streams"),
    Artifact("org.apache.kafka", "kafka-streams", classifier="test"),
    Artifact("org.apache.kafka", "connect-file"),
)


# Kafka's remote storage in a directory, which is among the tests of its storage.
REMOTE_STORAGE: Final = (
    Artifact("org.apache.kafka", "kafka-storage", classifier="test", with_dependencies=False),
    Artifact("org.apache.kafka", "kafka-clients", classifier="test", with_dependencies=False),
)


def project(artifacts: tuple[Artifact, ...] = ARTIFACTS) -> str:
    """A Maven project that is nothing but its dependencies."""
    dependencies = "".join(artifact.dependency() for artifact in artifacts)
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kaa</groupId>"
        f"<artifactId>oracle</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def jars(progress: Progress = silent, artifacts: tuple[Artifact, ...] = ARTIFACTS) -> Path:
    """The folder with these jars; fetches them if this is the first time."""
    cache = cache_folder()
    digest = hashlib.sha256(project(artifacts).encode()).hexdigest()[:12]
    folder = cache / f"jars-{digest}"
    if folder.is_dir():
        return folder
    with locked(cache):
        # Another process may have fetched them while this one waited.
        if not folder.is_dir():
            _fetch(cache, folder, artifacts, progress)
    return folder


def _fetch(cache: Path, folder: Path, artifacts: tuple[Artifact, ...], progress: Progress) -> None:
    for leftover in cache.glob(f"{PARTIAL}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    maven = command("mvn", "fetch Kafka's jars")
    work = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=cache))
    (work / "pom.xml").write_text(project(artifacts))
    progress(f"fetching the jars of Kafka {KAFKA_VERSION} through Maven")
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
