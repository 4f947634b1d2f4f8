from __future__ import annotations

from kaa.limits import QUORUM_LISTENERS_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k82_update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
)
from kaa.wire.primitives import Uuid
from tests.support.ids import uuid
from tests.unit.handlers.support import CLUSTER_ID, NODE_ID, Node


def update(node: Node, voter_id: int, directory_id: Uuid) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=node.services.quorum.machine.epoch,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
        kraft_version_feature=KRaftVersionFeature(max_supported_version=1),
    )


def test_a_voter_tells_about_itself(node: Node) -> None:
    answer = node.ask(update(node, NODE_ID, uuid(999)), listener="CONTROLLER")
    assert answer.error_code == Errors.NONE
    leader = answer.current_leader
    assert (leader.leader_id, leader.port) == (NODE_ID, 9093)


def test_more_listeners_than_a_controller_can_have_are_refused(node: Node) -> None:
    request = update(node, NODE_ID, uuid(999))
    request.listeners *= QUORUM_LISTENERS_MAX + 1
    answer = node.ask(request, listener="CONTROLLER")
    assert answer.error_code == Errors.INVALID_REQUEST


def test_others_have_nothing_to_tell(node: Node) -> None:
    answer = node.ask(update(node, 9, uuid(9)), listener="CONTROLLER")
    assert answer.error_code == Errors.VOTER_NOT_FOUND
    request = update(node, NODE_ID, uuid(999))
    request.cluster_id = "another"
    assert node.ask(request, listener="CONTROLLER").error_code == Errors.INCONSISTENT_CLUSTER_ID
