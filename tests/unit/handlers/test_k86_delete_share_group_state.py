from __future__ import annotations

from kaa.wire.errors import Errors
from tests.unit.handlers.share_requests import delete, initialise, load_shares, read, share_node


def test_state_is_gone() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node)
        assert delete(node).error_code == Errors.NONE
        assert read(node).error_code == Errors.INVALID_REQUEST
        assert delete(node).error_code == Errors.NONE
