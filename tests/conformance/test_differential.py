"""Every advertised API at its lowest, middle and highest version, sent to Kafka and to Kaa."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaa.handlers.registry import BROKER_APIS, CONTROLLER_APIS
from kaa.wire.registry import ApiKey
from tests.differential.case import compare, versions_of
from tests.differential.every import CASES
from tests.differential.known import KNOWN
from tests.differential.peers import CONTROLLER, Peer
from tests.differential.running import kaa_peer, kafka_peer
from tests.differential.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark import ParameterSet

    from tests.differential.case import Case

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "differential.md"

# One worker for all: both nodes must see the same requests in the same order.
in_order = [pytest.mark.oracle, pytest.mark.xdist_group("differential")]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Peer]:
    with kafka_peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def kaa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with kaa_peer(tmp_path_factory.mktemp("kaa")) as peer:
        yield peer


def runs() -> Iterator[ParameterSet]:
    for told in CASES:
        for version in versions_of(told.key):
            if told.low <= version <= told.high:
                for listener in told.listeners:
                    name = f"{told.key.name}-{version}-{listener}-{told.name}"
                    yield pytest.param(told, version, listener, id=name, marks=in_order)


@pytest.mark.parametrize(("told", "version", "listener"), list(runs()))
def test_the_same_answers(kafka: Peer, kaa: Peer, told: Case, version: int, listener: str) -> None:
    found = compare(told, version, listener, kafka, kaa)
    known = (told.key, told.name)
    if known in KNOWN:
        assert found, "the known difference is gone: delete it"
    else:
        assert not found, "\n".join(found)


def test_differences_are_of_cases_that_exist() -> None:
    names = {(told.key, told.name) for told in CASES}
    assert KNOWN.keys() <= names


def test_every_served_api_has_a_case() -> None:
    served = {each if isinstance(each, ApiKey) else each[0] for each in CONTROLLER_APIS}
    assert {*BROKER_APIS, *served} <= {told.key for told in CASES}
    assert served <= {told.key for told in CASES if CONTROLLER in told.listeners}


def test_the_page_is_current() -> None:
    """REWRITE_DIFFERENTIAL=1 writes it."""
    if os.environ.get("REWRITE_DIFFERENTIAL"):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(table())
    assert PAGE.read_text() == table()
