"""The registry of APIs against Java's enum of API keys."""

from __future__ import annotations

import pytest

from kaa.wire import ApiKey, Versions, api
from tests.oracle.client import Oracle
from tests.oracle.model import ApiKeyRow

pytestmark = pytest.mark.oracle

REMOVED_KEYS = {4, 5, 6, 7}


@pytest.fixture(scope="module")
def rows(oracle: Oracle) -> list[ApiKeyRow]:
    """The keys that Kafka serves."""
    every = oracle.api_keys()
    assert {row.id for row in every if not row.served} == REMOVED_KEYS
    return [row for row in every if row.served]


def test_keys_and_names(rows: list[ApiKeyRow]) -> None:
    assert {key.name: int(key) for key in ApiKey} == {row.name: row.id for row in rows}
    assert {key: api(key).name for key in ApiKey} == {row.id: row.schema for row in rows}


def test_served_versions(rows: list[ApiKeyRow]) -> None:
    for row in rows:
        assert row.oldest is not None
        assert row.latest is not None
        assert row.latest_stable is not None
        assert api(row.id).served_versions(unstable=True) == Versions(row.oldest, row.latest)
        assert api(row.id).served_versions() == Versions(row.oldest, row.latest_stable)


def test_header_versions(rows: list[ApiKeyRow]) -> None:
    for row in rows:
        served = api(row.id).served_versions(unstable=True)
        assert [header.version for header in row.headers] == [*range(served.low, served.high + 1)]
        for header in row.headers:
            assert api(row.id).request_header_version(header.version) == header.request
            assert api(row.id).response_header_version(header.version) == header.response


def test_listeners(rows: list[ApiKeyRow]) -> None:
    for row in rows:
        ours = {listener.upper() for listener in api(row.id).listener_types}
        assert ours == set(row.listeners), row.name


def test_advertised_versions(rows: list[ApiKeyRow]) -> None:
    for row in rows:
        for listener in row.listeners:
            advertised = api(row.id).advertised_versions()
            if listener in row.advertised:
                assert advertised == row.advertised[listener], row.name
            else:
                assert advertised.low > advertised.high, row.name
    assert api(ApiKey.PRODUCE).advertised_versions().low == 0
    assert api(ApiKey.PRODUCE).served_versions().low == 3
