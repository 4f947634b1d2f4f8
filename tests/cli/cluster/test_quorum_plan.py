from __future__ import annotations

import pytest

from kaa.cli.cluster.quorum_plan import refusal_to_add, refusal_to_remove, voter, warnings
from kaa.client.admin.quorum import QuorumDescription, QuorumReplica
from kaa.wire.primitives import UUID_ZERO, Uuid

OWN, OTHER = Uuid(b"a" * 16), Uuid(b"b" * 16)
SERVERS, JOINS = "controller.quorum.bootstrap.servers", "controller.quorum.auto.join.enable"


def quorum(*voters: int, directory_id: Uuid = OWN) -> QuorumDescription:
    rows = tuple(QuorumReplica(one, 9, 0, 0, directory_id) for one in voters)
    return QuorumDescription(voters[0], 1, 9, rows, ())


@pytest.mark.parametrize(
    ("found", "voter_id", "directory_id", "expected"),
    [
        (quorum(1, 2), 3, OWN, None),
        (quorum(1, 2), 2, OWN, "controller 2 is a voter already"),
        (quorum(1, 2), 2, OTHER, "kaa cluster quorum remove 2"),
        (quorum(1, 2, directory_id=UUID_ZERO), 3, OWN, "kraft.version"),
    ],
)
def test_adding(
    found: QuorumDescription, voter_id: int, directory_id: Uuid, expected: str | None
) -> None:
    refusal = refusal_to_add(found, voter_id, directory_id)
    assert refusal is None if expected is None else expected in (refusal or "")


@pytest.mark.parametrize(
    ("found", "directory_id", "expected"),
    [
        (quorum(1, 2), OWN, None),
        (quorum(1, 2), OTHER, f"is {OWN}, not {OTHER}"),
        (quorum(1), OWN, "controller 1 is the last voter"),
        (quorum(1, 2, directory_id=UUID_ZERO), UUID_ZERO, "kraft.version"),
    ],
)
def test_removing(found: QuorumDescription, directory_id: Uuid, expected: str | None) -> None:
    known = voter(found, 1)
    assert known is not None
    refusal = refusal_to_remove(found, known, directory_id)
    assert refusal is None if expected is None else expected in (refusal or "")


def test_brokers_that_may_be_left_alone() -> None:
    remaining = {"b:1", "c:1"}
    assert not warnings(7, {SERVERS: "a:1, b:1"}, remaining, is_removed=False)
    assert not warnings(7, {SERVERS: ""}, remaining, is_removed=False), "static voters"
    (told,) = warnings(7, {SERVERS: "a:1"}, remaining, is_removed=False)
    assert "of node 7 will name no voter: name one of b:1, c:1 there" in told
    assert not warnings(7, {JOINS: "true"}, remaining, is_removed=False)
    (told,) = warnings(7, {JOINS: "true"}, remaining, is_removed=True)
    assert "joins again by itself" in told
