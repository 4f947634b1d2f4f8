from __future__ import annotations

import pytest

from kaa.limits import QUORUM_LISTENERS_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, Listener
from tests.support.ids import uuid
from tests.unit.handlers.support import CLUSTER_ID, Node

LISTENER = Listener(name="CONTROLLER", host="127.0.0.1", port=1)


def addition(count: int = 1) -> AddRaftVoterRequest:
    """Of a voter with so many listeners."""
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=100,
        voter_id=2,
        voter_directory_id=uuid(2),
        listeners=[LISTENER] * count,
    )


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_static_voters_do_not_change(node: Node, listener: str) -> None:
    answer = node.ask(addition(), listener=listener)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION
    assert "kraft.version" in answer.error_message


def test_a_stranger_is_refused(node: Node) -> None:
    request = AddRaftVoterRequest(cluster_id="another", voter_id=2, voter_directory_id=uuid(2))
    assert node.ask(request, listener="CONTROLLER").error_code == Errors.INCONSISTENT_CLUSTER_ID


def test_more_listeners_than_a_controller_can_have_are_refused(node: Node) -> None:
    answer = node.ask(addition(QUORUM_LISTENERS_MAX + 1), listener="CONTROLLER")
    assert answer.error_code == Errors.INVALID_REQUEST
    assert str(QUORUM_LISTENERS_MAX) in answer.error_message
    answer = node.ask(addition(QUORUM_LISTENERS_MAX), listener="CONTROLLER")
    assert answer.error_code == Errors.UNSUPPORTED_VERSION


def test_only_the_leader_adds(node: Node) -> None:
    node.services.quorum.resign(node.services.quorum.machine.epoch)
    answer = node.ask(addition(), listener="CONTROLLER")
    assert answer.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert answer.error_message
