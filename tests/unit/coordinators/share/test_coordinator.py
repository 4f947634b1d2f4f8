"""The share coordinator on a real node without sockets: pruning, deletions, leadership."""

from __future__ import annotations

from collections.abc import Mapping

from kaa.model.topics import SHARE_GROUP_STATE
from kaa.wire.errors import Errors
from tests.unit.handlers.share_requests import (
    initialise,
    load_shares,
    share_node,
    summary,
    topic_id,
    write,
)
from tests.unit.handlers.support import Node
from tests.unit.serving.share.leading import turns

UPDATES = "share.coordinator.snapshot.update.records.per.snapshot=2"


def log_starts(node: Node) -> list[int]:
    return [
        node.partition(SHARE_GROUP_STATE, number).online_log().log_start_offset
        for number in range(3)
    ]


def test_what_is_not_needed_any_more_is_deleted() -> None:
    with share_node(UPDATES) as node:
        load_shares(node)
        initialise(node)
        for offset in range(5):
            write(node, (offset, offset, 2, 1))
        node.services.shares.prune()
        assert sum(log_starts(node)) == 3
        # What was deleted once is not deleted again.
        asked: list[Mapping[int, int]] = []

        def prune(offsets: Mapping[int, int]) -> list[int]:
            asked.append(offsets)
            return []

        node.services.shares._prune = prune
        node.services.shares.prune()
        assert asked == []


def test_topics_that_are_deleted_lose_their_state() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node)
        node.services.shares.topics_deleted([topic_id(node)])
        # Partitions of the state topic have their turns one after the other.
        node.run(turns())
        assert summary(node).start_offset == -1
        assert not any(shard.machine.states for shard in node.services.shares.runtime)


def test_a_broker_that_does_not_lead_refuses() -> None:
    with share_node() as node:
        load_shares(node)
        initialise(node)
        for number in range(3):
            partition = node.partition(SHARE_GROUP_STATE, number)
            partition.leadership = None
            node.services.shares.leadership_changed(partition)
        assert summary(node).error_code == Errors.NOT_COORDINATOR
