from __future__ import annotations

import pytest

from kaa.net.connection import CloseConnectionError
from kaa.wire.errors import Errors
from kaa.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest
from tests.unit.handlers.support import Node


def creation(resource_type: int = 2) -> AclCreation:
    return AclCreation(
        resource_type=resource_type,
        resource_name="topic",
        principal="User:someone",
        host="*",
        operation=3,
        permission_type=3,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_is_refused(node: Node, version: int) -> None:
    response = node.ask(CreateAclsRequest(creations=[creation(), creation(4)]), version)
    assert [result.error_code for result in response.results] == [Errors.SECURITY_DISABLED] * 2
    assert all(result.error_message for result in response.results)


def test_none_gets_no_answer(node: Node) -> None:
    assert node.ask(CreateAclsRequest(creations=[])).results == []


def test_an_unknown_resource_closes_the_connection(node: Node) -> None:
    with pytest.raises(CloseConnectionError):
        node.ask(CreateAclsRequest(creations=[creation(0)]))
