from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, Listener
from tests.support.ids import uuid
from tests.unit.handlers.support import CLUSTER_ID, Node

REQUEST = AddRaftVoterRequest(
    cluster_id=CLUSTER_ID,
    timeout_ms=100,
    voter_id=2,
    voter_directory_id=uuid(2),
    listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_static_voters_do_not_change(node: Node, listener: str) -> None:
    answer = node.ask(REQUEST, listener=listener)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION
    assert "kraft.version" in answer.error_message


def test_a_stranger_is_refused(node: Node) -> None:
    request = AddRaftVoterRequest(cluster_id="another", voter_id=2, voter_directory_id=uuid(2))
    assert node.ask(request, listener="CONTROLLER").error_code == Errors.INCONSISTENT_CLUSTER_ID


def test_only_the_leader_adds(node: Node) -> None:
    node.services.quorum.resign(node.services.quorum.machine.epoch)
    answer = node.ask(REQUEST, listener="CONTROLLER")
    assert answer.error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert answer.error_message
