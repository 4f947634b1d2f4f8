from __future__ import annotations

from kaa.wire.errors import Errors
from tests.unit.handlers.share_requests import (
    initialise,
    load_shares,
    share_node,
    summary,
    write,
)


def test_the_numbers() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node, epoch=1)
        write(node, (4, 6, 2, 1), start=4, state=1)
        found = summary(node)
        assert (found.state_epoch, found.leader_epoch, found.start_offset) == (1, 0, 4)
        assert found.delivery_complete_count == 1
        assert summary(node, version=0).delivery_complete_count == -1


def test_without_state() -> None:
    with share_node() as node:
        load_shares(node)
        found = summary(node)
        assert (found.error_code, found.start_offset) == (Errors.NONE, -1)
        assert found.delivery_complete_count == -1
        assert summary(node, partition=9).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
