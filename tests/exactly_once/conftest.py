from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.exactly_once.java import Java
from tests.oracle.environment import OracleUnavailableError, command
from tests.oracle.maven import PROGRAMS, jars
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A node of one's own, which may be killed."""
    with BrokerProcess(tmp_path / "node") as running:
        yield running


@pytest.fixture
def java(tmp_path: Path) -> Iterator[Java]:
    """Kafka's programs; those that still run at the end are killed."""
    try:
        made = Java(command("java", "run Kafka's programs"), jars(artifacts=PROGRAMS), tmp_path)
    except OracleUnavailableError as error:
        if os.environ.get("CI"):
            pytest.fail(f"Kafka's programs must run in CI: {error}", pytrace=False)
        pytest.skip(f"without Kafka's programs: {error}")
    with made:
        yield made
