from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [0, 1])
def test_nobody_authenticates_here(node: Node, version: int) -> None:
    response = node.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert response.error_code == Errors.ILLEGAL_SASL_STATE
    assert response.mechanisms == []
