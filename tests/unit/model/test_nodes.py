from __future__ import annotations

import pytest

from kaa.model.nodes import NO_PROTOCOL, Endpoint, SecurityProtocol, VersionRange


@pytest.mark.parametrize(
    ("host", "text"), [("a", "X://a:9"), ("", "X://:9"), ("fe80::1", "X://[fe80::1]:9")]
)
def test_an_endpoint_is_written_as_in_the_settings(host: str, text: str) -> None:
    assert str(Endpoint("X", host, 9)) == text


def test_an_endpoint_without_a_protocol_differs_from_a_plain_one() -> None:
    assert Endpoint("X", "a", 9).security_protocol == NO_PROTOCOL
    assert Endpoint("X", "a", 9) != Endpoint("X", "a", 9, SecurityProtocol.PLAINTEXT)


def test_a_feature_that_is_not_spoken_of_is_at_level_zero() -> None:
    assert VersionRange() == (0, 0)
