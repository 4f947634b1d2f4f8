from __future__ import annotations

from kaa.wire.errors import Errors
from tests.unit.handlers.share_requests import (
    initialise,
    load_shares,
    read,
    share_node,
    summary,
    write,
)


def test_a_leader_that_was_replaced_writes_nothing() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node)
        assert write(node, (0, 1, 2, 1), leader=1).error_code == Errors.NONE
        read(node, leader_epoch=2)
        assert write(node, (2, 3, 2, 1), leader=1).error_code == Errors.FENCED_LEADER_EPOCH
        assert summary(node).delivery_complete_count == 1


def test_an_older_state_epoch_is_fenced() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node, epoch=5)
        assert write(node, state=4).error_code == Errors.FENCED_STATE_EPOCH
