from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.unit.handlers.group_requests import committed
from tests.unit.handlers.support import Node


def test_groups_are_deleted() -> None:
    with Node() as node:
        request = DeleteGroupsRequest(groups_names=["g", "never", "g"])
        answer = node.ask(request)
        assert {one.error_code for one in answer.results} == {Errors.NOT_COORDINATOR}
        node.load_coordinators()
        node.create_topic("t")
        committed(node, ("t", 0, 1))
        answer = node.ask(request)
        assert {one.group_id: one.error_code for one in answer.results} == {
            "g": Errors.NONE,
            "never": Errors.GROUP_ID_NOT_FOUND,
        }
