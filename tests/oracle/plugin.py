"""The oracle as pytest fixtures, one JVM of each kind per run however many workers there are.

The process that begins the run makes a folder for it and names it in the environment, where the
workers find it. That process ends the JVMs when the run is over; should it be killed, they end by
themselves.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.oracle.broker import RealKafka
from tests.oracle.client import Oracle
from tests.oracle.environment import OracleUnavailableError
from tests.oracle.jvm import stop_running
from tests.oracle.schemas import Schema
from tests.oracle.schemas import kafka_schemas as read_schemas

RUN_FOLDER: Final = "KAA_ORACLE_RUN"
_OWNER: Final = pytest.StashKey[Path]()

Thing = TypeVar("Thing")


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run, unless this process is a part of one."""
    if RUN_FOLDER not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="kaa-oracle-"))
        os.environ[RUN_FOLDER] = str(folder)
        config.stash[_OWNER] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run that this process began."""
    if folder := config.stash.get(_OWNER, None):
        stop_running(folder)
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ[RUN_FOLDER]


def run_folder() -> Path:
    """The folder of the run that this process belongs to."""
    return Path(os.environ[RUN_FOLDER])


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Kafka's own classes, ready to be asked."""
    with _available(lambda: Oracle(run_folder())) as opened:
        yield opened


@pytest.fixture(scope="session")
def kafka_schemas() -> dict[str, Schema]:
    """Kafka's official message schemas by name."""
    return _available(read_schemas)


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[RealKafka]:
    """One running broker of Kafka itself; it is shared, so use names of your own."""
    with _available(lambda: RealKafka(run_folder())) as running:
        yield running


def _available(make: Callable[[], Thing]) -> Thing:
    """Make a thing; on a developer's machine its tests are skipped where it cannot be made."""
    try:
        return make()
    except OracleUnavailableError as error:
        if os.environ.get("CI"):
            pytest.fail(f"the oracle must run in CI: {error}", pytrace=False)
        pytest.skip(f"no oracle: {error}")
