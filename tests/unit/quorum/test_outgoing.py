"""What a replica sends is what a replica understands: every message there and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kaa.model.nodes import Endpoint
from kaa.quorum import messages
from kaa.quorum.log_view import OffsetAndEpoch
from kaa.quorum.outgoing import machine_response, wire_request
from kaa.quorum.voters import ReplicaKey
from kaa.wire.errors import Errors
from kaa.wire.registry import api
from tests.support.ids import uuid
from tests.unit.handlers.support import CLUSTER_ID, Node

OWN = ReplicaKey(1, uuid(999))
OTHER = ReplicaKey(2, uuid(2))
ENDPOINTS = (Endpoint("CONTROLLER", "host", 9093),)
REQUESTS: list[messages.Request] = [
    messages.VoteRequest(CLUSTER_ID, OWN, OTHER, 7, 3, 40, True),
    messages.BeginQuorumEpochRequest(CLUSTER_ID, OWN, 2, 7, ENDPOINTS),
    messages.EndQuorumEpochRequest(CLUSTER_ID, 2, 7, ENDPOINTS, (OTHER, OWN)),
    messages.FetchRequest(CLUSTER_ID, OTHER, 7, 40, 3, 39, 500, 1000),
    messages.FetchSnapshotRequest(CLUSTER_ID, OTHER, 7, OffsetAndEpoch(30, 2), 5, 1000),
]
ANSWERS: list[messages.LeaderResponse] = [
    messages.VoteResponse(Errors.NONE, 3, 9, ENDPOINTS, True),
    messages.BeginQuorumEpochResponse(Errors.FENCED_LEADER_EPOCH, 3, 9, ENDPOINTS),
    messages.EndQuorumEpochResponse(Errors.NONE, None, 9, ()),
    messages.FetchResponse(Errors.NONE, 3, 9, ENDPOINTS, 12, 4, OffsetAndEpoch(10, 2), None, b""),
    messages.FetchSnapshotResponse(
        Errors.NONE, 3, 9, ENDPOINTS, OffsetAndEpoch(30, 2), 100, 5, b"piece"
    ),
]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as made:
        yield made


@pytest.mark.parametrize("place", range(5))
def test_there_and_back(node: Node, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    seen: list[messages.Request] = []

    async def serve(request: messages.Request) -> messages.Response:
        seen.append(request)
        return ANSWERS[place]

    monkeypatch.setattr(node.services.quorum, "serve", serve)
    sent = wire_request(REQUESTS[place])
    answer = node.ask(sent, listener="CONTROLLER")
    assert seen == [REQUESTS[place]]
    assert machine_response(answer, "CONTROLLER") == ANSWERS[place]


def test_an_error_of_the_whole_request(node: Node) -> None:
    stranger = messages.VoteRequest("another-cluster-AAAAAA", OWN, OTHER, 7, 3, 40, False)
    answer = node.ask(wire_request(stranger), listener="CONTROLLER")
    expected = messages.ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID)
    assert machine_response(answer, "CONTROLLER") == expected


def test_an_answer_without_the_partition_is_an_error() -> None:
    for request in REQUESTS:
        empty = api(wire_request(request).api_key).response()
        found = machine_response(empty, "CONTROLLER")
        assert found == messages.ErrorResponse(Errors.INVALID_REQUEST)
