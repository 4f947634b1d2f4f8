from __future__ import annotations

import pytest

from kaa.net.connection import CloseConnectionError
from kaa.wire.errors import Errors
from kaa.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.unit.handlers.support import Node


def acl_filter(pattern_type: int = 3) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="topic",
        pattern_type_filter=pattern_type,
        principal_filter=None,
        host_filter=None,
        operation=3,
        permission_type=3,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_is_refused(node: Node, version: int) -> None:
    response = node.ask(DeleteAclsRequest(filters=[acl_filter(), acl_filter()]), version)
    results = response.filter_results
    assert [result.error_code for result in results] == [Errors.SECURITY_DISABLED] * 2
    assert all(result.error_message and not result.matching_acls for result in results)


def test_an_unknown_pattern_closes_the_connection(node: Node) -> None:
    with pytest.raises(CloseConnectionError):
        node.ask(DeleteAclsRequest(filters=[acl_filter(pattern_type=0)]))
