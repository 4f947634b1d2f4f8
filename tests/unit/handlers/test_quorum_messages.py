from __future__ import annotations

import pytest

from kaa.handlers.quorum_messages import (
    LeaderAddress,
    check_request,
    leader_address,
    leader_id_of,
    voter_key,
)
from kaa.model.nodes import Endpoint
from kaa.quorum.messages import EndQuorumEpochResponse
from kaa.quorum.metadata_log import METADATA_TOPIC_ID
from kaa.quorum.voters import ReplicaKey
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO, Uuid
from tests.unit.handlers.support import CLUSTER_ID, Node

TOPIC = "__cluster_metadata"


@pytest.mark.parametrize(
    ("cluster_id", "topics", "error"),
    [
        (CLUSTER_ID, [(TOPIC, [0])], Errors.NONE),
        (None, [(METADATA_TOPIC_ID, [0])], Errors.NONE),
        ("other", [(TOPIC, [0])], Errors.INCONSISTENT_CLUSTER_ID),
        ("other", [], Errors.INCONSISTENT_CLUSTER_ID),
        (None, [], Errors.INVALID_REQUEST),
        (None, [(TOPIC, [])], Errors.INVALID_REQUEST),
        (None, [(TOPIC, [1])], Errors.INVALID_REQUEST),
        (None, [(TOPIC, [0, 1])], Errors.INVALID_REQUEST),
        (None, [("t", [0])], Errors.INVALID_REQUEST),
        (None, [(UUID_ZERO, [0])], Errors.INVALID_REQUEST),
        (None, [(TOPIC, [0]), (TOPIC, [0])], Errors.INVALID_REQUEST),
    ],
)
def test_what_requests_are_about(
    node: Node, cluster_id: str | None, topics: list[tuple[str | Uuid, list[int]]], error: Errors
) -> None:
    assert check_request(node.services, cluster_id, topics) is error


def test_keys() -> None:
    directory = Uuid(b"id-of-a-log-dir-")
    assert voter_key(-1, directory) is None
    assert voter_key(3, directory) == ReplicaKey(3, directory)
    assert voter_key(3, UUID_ZERO) == ReplicaKey(3)


def test_the_leader_of_an_answer() -> None:
    endpoints = (Endpoint("A", "a", 1), Endpoint("B", "b", 2))
    known = EndQuorumEpochResponse(Errors.NONE, 5, 2, endpoints)
    assert leader_id_of(known) == 5
    assert leader_address(known, "B") == LeaderAddress(5, "b", 2)
    assert leader_address(known, "C") is None
    unknown = EndQuorumEpochResponse(Errors.NONE, None, 2, ())
    assert leader_id_of(unknown) == -1
    assert leader_address(unknown, "B") is None
