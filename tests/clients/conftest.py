from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def session_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One node for all tests of a worker that do not restart it."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def broker(session_broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """A shared node; it must be well after each test too."""
    session_broker.check_health()
    yield session_broker
    session_broker.check_health()


# Short sessions and quick heartbeats, so that no test waits long for a dead member; but not so
# short that a member is given up because a busy machine was late: librdkafka waits about one
# heartbeat interval for an answer, and then connects anew.
QUICK_SESSIONS = (
    "group.consumer.min.session.timeout.ms=10000",
    "group.consumer.session.timeout.ms=10000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1000",
    "group.consumer.assignment.interval.ms=100",
    "group.share.min.heartbeat.interval.ms=300",
    "group.share.heartbeat.interval.ms=300",
    "group.share.assignment.interval.ms=100",
)


@pytest.fixture(scope="session")
def session_quick_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("quick"), *QUICK_SESSIONS) as running:
        yield running


@pytest.fixture
def quick_broker(session_quick_broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """A shared node whose consumer groups have short times."""
    session_quick_broker.check_health()
    yield session_quick_broker
    session_quick_broker.check_health()


@pytest.fixture
def bootstrap(broker: BrokerProcess) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic of one's own, which does not exist yet."""
    name = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)
    return f"{name[:200]}-{next(_numbers)}"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A node of one's own, which may be stopped, killed and started again."""
    with BrokerProcess(tmp_path / "node") as running:
        yield running
