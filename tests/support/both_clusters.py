"""Fixtures for tests that need a cluster: each runs twice, against Kaa and against Kafka."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

import pytest

from tests.support.broker_process import BrokerProcess

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kaa_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(params=["kaa", pytest.param("kafka", marks=pytest.mark.oracle)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    fixture = "kaa_node" if request.param == "kaa" else "real_kafka"
    servers = request.getfixturevalue(fixture).bootstrap_servers
    assert isinstance(servers, str)
    return servers


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name of one's own, also where workers share a broker."""
    name = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)
    return f"{name[:150]}-{os.getpid()}-{next(_numbers)}"
