from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.unit.handlers.support import Node


def named(name: str = "librdkafka", version: str = "2.6.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_is_answered(node: Node, version: int) -> None:
    assert node.ask(named(), version).error_code == Errors.NONE


def test_features_of_the_cluster_are_told(node: Node) -> None:
    answer = node.ask(named(), 4)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized == {**node.services.image.features, **finalized}
    assert "metadata.version" in finalized
    assert {feature.name for feature in answer.supported_features} >= set(finalized)


def test_lowest_level_zero_is_told_from_version_four(node: Node) -> None:
    old = {feature.name for feature in node.ask(named(), 3).supported_features}
    new = {feature.name for feature in node.ask(named(), 4).supported_features}
    assert old < new


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ü"])
def test_software_that_cannot_be_named_so_is_refused(node: Node, name: str) -> None:
    assert node.ask(named(name), 3).error_code == Errors.INVALID_REQUEST
    assert node.ask(named("x", name), 3).error_code == Errors.INVALID_REQUEST


def test_software_is_remembered(node: Node) -> None:
    node.ask(named("my-client", "1.0"), 3)
    assert node.connection.facts["software"] == ("my-client", "1.0")
