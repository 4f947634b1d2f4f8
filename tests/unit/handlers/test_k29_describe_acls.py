from __future__ import annotations

import pytest

from kaa.net.connection import CloseConnectionError
from kaa.wire.errors import Errors
from kaa.wire.messages.k29_describe_acls import DescribeAclsRequest
from tests.unit.handlers.support import Node


def request(operation: int = 1) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=1,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_is_no_authorizer(node: Node, version: int) -> None:
    response = node.ask(request(), version)
    assert response.error_code == Errors.SECURITY_DISABLED
    assert response.error_message
    assert response.resources == []


def test_an_unknown_operation_closes_the_connection(node: Node) -> None:
    with pytest.raises(CloseConnectionError):
        node.ask(request(operation=0))
