"""kafka-python's own integration tests, run against a node of ours.

They come with the source package, which is fetched once and kept outside the tree. It lacks the
module that starts brokers, so that one of ours, which starts none, takes its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tests.oracle.environment import OracleUnavailableError, cache_folder, locked

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker_process import BrokerProcess

FETCH_SECONDS_MAX = 120
RUN_SECONDS_MAX = 300
# The tests find their way by this number; what it says of brokers they take from the broker.
KAFKA_VERSION = "4.3.0"
SERVICE = '''"""Brokers that run already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    close = dump_logs = open

    def wait_for(self, pattern, timeout=30):
        pass


class SpawnedService(ExternalService):
    pass
'''


def source_folder() -> Path:
    """The unpacked source package of the installed version."""
    name = f"kafka_python-{version('kafka-python')}"
    cache = cache_folder()
    with locked(cache):
        folder = cache / name
        if not folder.is_dir():
            _fetch(cache, name)
        return folder


def _fetch(cache: Path, name: str) -> None:
    requirement = f"kafka-python=={version('kafka-python')}"
    options = ("--no-deps", "--no-binary", "kafka-python", "--dest", str(cache))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, requirement],
        capture_output=True,
        check=False,
        text=True,
        timeout=FETCH_SECONDS_MAX,
    )
    archive = cache / f"{name}.tar.gz"
    if done.returncode != 0 or not archive.is_file():
        raise OracleUnavailableError(f"the source of {requirement} cannot be had: {done.stderr}")
    work = cache / f"partial-{name}"
    shutil.rmtree(work, ignore_errors=True)
    with tarfile.open(archive) as content:
        # Python before 3.11.4 has no filters.
        filters: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        content.extractall(work, **filters)
    unpacked = work / name
    (unpacked / "test" / "__init__.py").touch()
    (unpacked / "test" / "service.py").write_text(SERVICE)
    unpacked.rename(cache / name)
    work.rmdir()
    archive.unlink()


def run(broker: BrokerProcess, work_folder: Path) -> dict[str, str]:
    """The outcome of each test by its name: passed, failed or skipped."""
    report = work_folder / "report.xml"
    # It must exist, even if nothing is started from it.
    root = work_folder / "root"
    root.mkdir()
    environment = os.environ | {
        "KAFKA_ROOT": str(root),
        "KAFKA_URI": f"kafka://{broker.bootstrap_servers}",
        "KAFKA_VERSION": KAFKA_VERSION,
    }
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "test/integration", "-q", "-k", "not (sasl or ssl)"),
            *("-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "60"),
            # What clients did in a test that failed is the only trace of the reason.
            *("--show-capture=log", "--log-level=DEBUG", f"--junitxml={report}"),
        ],
        cwd=source_folder(),
        check=False,
        env=environment,
        timeout=RUN_SECONDS_MAX,
    )
    return {
        case.attrib["name"]: _outcome(case) for case in ET.parse(report).getroot().iter("testcase")
    }


def _outcome(case: ET.Element) -> str:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"
