from __future__ import annotations

from kaa.wire.errors import Errors
from tests.unit.handlers.share_requests import initialise, load_shares, read, share_node, write


def test_what_was_written() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node, epoch=1)
        write(node, (4, 6, 2, 1), start=4, state=1)
        found = read(node)
        assert (found.error_code, found.state_epoch, found.start_offset) == (Errors.NONE, 1, 4)
        (batch,) = found.state_batches
        assert (batch.first_offset, batch.last_offset) == (4, 6)
        assert (batch.delivery_state, batch.delivery_count) == (2, 1)


def test_without_state() -> None:
    with share_node() as node:
        load_shares(node)
        refused = read(node)
        assert refused.error_code == Errors.INVALID_REQUEST
        assert "initialises" in refused.error_message


def test_it_survives_the_process() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node)
        write(node, (0, 9, 4, 5), start=0, leader=2)
        files = node.abandon()
    from tests.unit.handlers.support import Node

    with Node("share.coordinator.state.topic.replication.factor=1", files=files) as node:
        load_shares(node)
        (batch,) = read(node, leader_epoch=2).state_batches
        assert (batch.last_offset, batch.delivery_state, batch.delivery_count) == (9, 4, 5)
