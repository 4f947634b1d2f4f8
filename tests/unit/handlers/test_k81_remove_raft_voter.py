from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from tests.support.ids import uuid
from tests.unit.handlers.support import CLUSTER_ID, NODE_ID, Node


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_static_voters_do_not_change(node: Node, listener: str) -> None:
    request = RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=NODE_ID, voter_directory_id=uuid(999)
    )
    answer = node.ask(request, listener=listener)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION
    assert "kraft.version" in answer.error_message


def test_a_stranger_is_refused(node: Node) -> None:
    request = RemoveRaftVoterRequest(cluster_id="another", voter_id=1)
    assert node.ask(request, listener="CONTROLLER").error_code == Errors.INCONSISTENT_CLUSTER_ID
