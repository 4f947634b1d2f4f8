"""What a listener serves, and frames that it does not, compared with a real Kafka."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.registry import ApiKey
from tests.differential.peers import BROKER, CONTROLLER, Peer
from tests.differential.running import kaa_peer, kafka_peer

if TYPE_CHECKING:
    from collections.abc import Iterator

# Delegation tokens and SCRAM.
ON_BOTH = {
    "ALTER_USER_SCRAM_CREDENTIALS",
    "CREATE_DELEGATION_TOKEN",
    "DESCRIBE_DELEGATION_TOKEN",
    "DESCRIBE_USER_SCRAM_CREDENTIALS",
    "EXPIRE_DELEGATION_TOKEN",
    "RENEW_DELEGATION_TOKEN",
}
# Kafka itself serves telemetry only with a plug-in.
LATER = {
    BROKER: ON_BOTH,
    CONTROLLER: ON_BOTH,
}

pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("differential")]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Peer]:
    with kafka_peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def kaa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with kaa_peer(tmp_path_factory.mktemp("kaa")) as peer:
        yield peer


def api_versions(peer: Peer, version: int, listener: str) -> Any:
    request = ApiVersionsRequest()
    if version >= 3:
        request.client_software_name, request.client_software_version = "differential", "1"
    return peer.ask(request, version, listener)


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
@pytest.mark.parametrize("version", range(5))
def test_what_is_served_is_served_in_the_same_versions(
    kafka: Peer, kaa: Peer, version: int, listener: str
) -> None:
    expected, found = (api_versions(peer, version, listener) for peer in (kafka, kaa))
    assert found.error_code == expected.error_code == 0
    ranges = {key.api_key: (key.min_version, key.max_version) for key in expected.api_keys}
    for key in found.api_keys:
        assert ranges.get(key.api_key) == (key.min_version, key.max_version)


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
def test_what_is_not_served_yet(kafka: Peer, kaa: Peer, listener: str) -> None:
    """All else that Kafka serves is served, and nothing that it does not."""
    expected, found = (
        {ApiKey(key.api_key).name for key in api_versions(peer, 4, listener).api_keys}
        for peer in (kafka, kaa)
    )
    assert expected - found == LATER[listener]
    assert found <= expected


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
@pytest.mark.parametrize("version", [3, 4])
def test_features(kafka: Peer, kaa: Peer, version: int, listener: str) -> None:
    expected, found = (api_versions(peer, version, listener) for peer in (kafka, kaa))

    def supported(response: Any) -> dict[str, tuple[int, int]]:
        return {
            each.name: (each.min_version, each.max_version) for each in response.supported_features
        }

    def finalized(response: Any) -> dict[str, tuple[int, int]]:
        return {
            each.name: (each.min_version_level, each.max_version_level)
            for each in response.finalized_features
        }

    assert supported(found) == supported(expected)
    assert finalized(found) == finalized(expected)
    assert found.zk_migration_ready == expected.zk_migration_ready


def frame(key: int, version: int, body: bytes = b"") -> bytes:
    """A request with a correlation id and an empty client id, and nothing else in order."""
    content = struct.pack(">hhih", key, version, 9, 0) + body
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
@pytest.mark.parametrize(
    ("key", "version"),
    [
        (-1, 0),
        (4, 0),
        (93, 0),
        (999, 0),
        (3, 99),
        (3, -1),
        (1, 3),
        (0, 2),
        (19, 1),
        (52, 9),
        (18, -1),
    ],
)
def test_frames_that_nobody_serves(
    kafka: Peer, kaa: Peer, key: int, version: int, listener: str
) -> None:
    expected, found = (peer.exchange(frame(key, version), listener) for peer in (kafka, kaa))
    assert found == expected


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
@pytest.mark.parametrize("version", [5, 99, 32767])
def test_api_versions_of_the_future(kafka: Peer, kaa: Peer, version: int, listener: str) -> None:
    expected, found = (
        peer.exchange(frame(18, version, b"\0" * 8), listener) for peer in (kafka, kaa)
    )
    assert expected is not None
    assert found == expected


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
@pytest.mark.parametrize("body", [b"", b"\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x09abc"])
def test_malformed_bodies(kafka: Peer, kaa: Peer, body: bytes, listener: str) -> None:
    for key, version in ((19, 2), (32, 1), (18, 3)):
        expected, found = (
            peer.exchange(frame(key, version, body), listener) for peer in (kafka, kaa)
        )
        assert found == expected
