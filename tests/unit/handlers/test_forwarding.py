from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kaa.handlers.context import RequestContext
from kaa.handlers.forwarding import controller_context, is_controller_listener
from kaa.wire.frames import RequestFrame
from tests.unit.handlers.support import Node

if TYPE_CHECKING:
    from kaa.net.connection import Connection


def test_what_the_controller_is_told(node: Node) -> None:
    header = RequestFrame(19, 5, 1, "client", 0)
    node.connection.listener_name = "CONTROLLER"
    context = RequestContext(header, cast("Connection", node.connection))
    told = controller_context(context)
    assert told.api_version == 5
    assert told.may_describe("any")
    assert is_controller_listener(node.services, context)
    node.connection.listener_name = "PLAINTEXT"
    assert not is_controller_listener(node.services, context)
