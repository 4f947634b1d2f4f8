from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [0, 1, 2])
def test_nobody_authenticates_here(node: Node, version: int) -> None:
    response = node.ask(SaslAuthenticateRequest(auth_bytes=b"\0user\0secret"), version)
    assert response.error_code == Errors.ILLEGAL_SASL_STATE
    assert response.error_message
    assert response.auth_bytes == b""
