"""The registry of APIs; its facts are compared with Java's in the conformance tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kaa.wire import ApiKey, Versions, api
from kaa.wire.registry import UNSTABLE, VALID_VERSIONS, Api
from kaa.wire.schema import Request, Response


def test_every_key_has_a_request_and_a_response_of_its_name() -> None:
    for key in ApiKey:
        found = api(key)
        assert found.key is key
        assert issubclass(found.request, Request)
        assert issubclass(found.response, Response)
        assert found.request.api_key == found.response.api_key == key
        assert found.request.valid_versions == found.response.valid_versions
        assert found.request.valid_versions == VALID_VERSIONS[key]
        assert found.request.flexible_versions == found.response.flexible_versions
        assert found.name.upper() == key.name.replace("_", "")
        assert set(found.listener_types) <= {"broker", "controller"}
        assert found.listener_types


def test_an_api_is_found_by_number_and_loaded_once() -> None:
    assert api(1) is api(ApiKey.FETCH)
    assert isinstance(api(1), Api)


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 93, 32_767])
def test_a_key_that_kafka_does_not_have_is_refused(key: int) -> None:
    with pytest.raises(ValueError, match="ApiKey"):
        api(key)


def test_produce_is_advertised_from_0_and_served_from_3() -> None:
    produce = api(ApiKey.PRODUCE)
    assert produce.served_versions() == Versions(3, 13)
    assert produce.advertised_versions() == Versions(0, 13)


def test_an_unstable_version_is_served_only_when_asked_for() -> None:
    unstable = [key for key in ApiKey if api(key).request.latest_version_unstable]
    assert set(unstable) == UNSTABLE
    for key in ApiKey:
        found = api(key)
        low, high = found.request.valid_versions
        assert found.served_versions(unstable=True) == Versions(low, high)
        stable_high = high - 1 if key in unstable else high
        assert found.served_versions() == Versions(low, stable_high)
        assert found.advertised_versions().high == stable_high
        assert found.advertised_versions(unstable=True).high == high


def test_the_answer_to_api_versions_keeps_the_oldest_header() -> None:
    api_versions = api(ApiKey.API_VERSIONS)
    assert {api_versions.response_header_version(version) for version in range(6)} == {0}
    assert [api_versions.request_header_version(version) for version in range(5)] == [1, 1, 1, 2, 2]
    assert api(ApiKey.FETCH).response_header_version(11) == 0
    assert api(ApiKey.FETCH).response_header_version(12) == 1


def test_messages_load_only_when_used() -> None:
    program = (
        "import sys, kaa.wire; kaa.wire.api(1).served_versions(); kaa.wire.api(18).request;"
        "print(*(name for name in sys.modules if name.startswith('kaa.wire.messages.')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["kaa.wire.messages.k18_api_versions"]
