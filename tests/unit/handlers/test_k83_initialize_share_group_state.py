from __future__ import annotations

from kaa.wire.errors import Errors
from tests.unit.handlers.share_requests import initialise, load_shares, share_node, summary


def test_a_partition_begins() -> None:
    with share_node() as node:
        load_shares(node)
        assert initialise(node, epoch=3, start=8).error_code == Errors.NONE
        found = summary(node)
        assert (found.state_epoch, found.start_offset) == (3, 8)


def test_an_older_state_epoch_is_fenced() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node, epoch=3)
        refused = initialise(node, epoch=2)
        assert refused.error_code == Errors.FENCED_STATE_EPOCH
        assert refused.error_message == Errors.FENCED_STATE_EPOCH.message
