"""Offsets of transactions through a shard; the rules for clients are in `k28_txn_offset_commit`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.handlers.group_requests import committed
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import TOPIC, TransactionalProducer


def fetched(node: Node, *, is_stable: bool) -> tuple[int, Errors]:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])],
            )
        ],
        require_stable=is_stable,
    )
    (topic,) = node.ask(request, 9).groups[0].topics
    (partition,) = topic.partitions
    return partition.committed_offset, Errors.of(partition.error_code)


@pytest.fixture
def coordinator() -> Iterator[Node]:
    with Node() as node:
        node.create_topic(TOPIC)
        node.load_transactions()
        yield node


def test_anyone_who_wants_stable_offsets_waits_for_the_end(coordinator: Node) -> None:
    committed(coordinator, (TOPIC, 0, 3))
    producer = TransactionalProducer(coordinator).started()
    assert producer.commit_offset("g", TOPIC, 5) is Errors.NONE
    assert fetched(coordinator, is_stable=True) == (-1, Errors.UNSTABLE_OFFSET_COMMIT)
    assert fetched(coordinator, is_stable=False) == (3, Errors.NONE)
    producer.finish()
    assert fetched(coordinator, is_stable=True) == (5, Errors.NONE)


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_are_found_again_after_a_restart(coordinator: Node, is_commit: bool) -> None:
    """Once with the transaction open, and once after its end."""
    committed(coordinator, (TOPIC, 0, 3))
    producer = TransactionalProducer(coordinator).started()
    producer.commit_offset("g", TOPIC, 5)
    with Node(files=coordinator.abandon()) as second:
        second.load_transactions()
        assert fetched(second, is_stable=True) == (-1, Errors.UNSTABLE_OFFSET_COMMIT)
        again = TransactionalProducer(second)
        again.producer_id, again.epoch = producer.identity
        again.finish(is_commit=is_commit)
        expected = (5 if is_commit else 3, Errors.NONE)
        assert fetched(second, is_stable=True) == expected
        with Node(files=second.abandon()) as third:
            third.load_transactions()
            assert fetched(third, is_stable=True) == expected


def test_a_later_plain_commit_wins(coordinator: Node) -> None:
    producer = TransactionalProducer(coordinator).started()
    producer.commit_offset("g", TOPIC, 5)
    committed(coordinator, (TOPIC, 0, 9))
    producer.finish()
    assert fetched(coordinator, is_stable=True) == (9, Errors.NONE)
