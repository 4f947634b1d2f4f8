from __future__ import annotations

import pytest

from kaa.limits import PRODUCE_BATCHES_AT_ONCE_MAX, TRANSACTION_PARTITIONS_PER_TURN_MAX
from kaa.model.pieces import finish
from kaa.serving.transactions.batches import (
    has_many_batches,
    has_transactional,
    transactional_batches,
)
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.handlers.support import Node
from tests.unit.log.batches import batch


def request(*batches: bytes | None) -> ProduceRequest:
    return ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=index, records=records)
                    for index, records in enumerate(batches)
                ],
            )
        ]
    )


PLAIN = bytes(batch(1))
MINE = bytes(batch(1, producer_id=7, producer_epoch=1, sequence=5, transactional=True))
OTHER = bytes(batch(1, producer_id=8, producer_epoch=1, sequence=0, transactional=True))


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ((), False),
        ((None, b"", b"short", PLAIN), False),
        ((PLAIN, MINE), True),
    ],
)
def test_a_look_is_enough(batches: tuple[bytes | None, ...], expected: bool) -> None:
    assert has_transactional(request(*batches)) is expected


def test_batches_are_counted_over_all_topics() -> None:
    asked = request(*[PLAIN] * PRODUCE_BATCHES_AT_ONCE_MAX)
    assert not has_many_batches(asked)
    asked.topic_data += request(PLAIN).topic_data
    assert has_many_batches(asked)


def test_topics_without_batches_count() -> None:
    empty = ProduceRequest(topic_data=[TopicProduceData()] * 10 * PRODUCE_BATCHES_AT_ONCE_MAX)
    assert has_many_batches(empty)
    empty.topic_data *= 10
    with Node() as node:
        pauses = sum(1 for _ in transactional_batches(node.services, empty, 12))
    assert pauses == len(empty.topic_data) // TRANSACTION_PARTITIONS_PER_TURN_MAX


def test_whose_they_are_and_where_they_go() -> None:
    with Node() as node:
        found = finish(transactional_batches(node.services, request(PLAIN, MINE, b"", OTHER), 12))
        assert found.producers == {(7, 1), (8, 1)}
        assert found.sequences == {("t", 1): 5, ("t", 3): 0}


def test_topics_by_id() -> None:
    with Node() as node:
        node.create_topic("t")
        asked = request(MINE)
        assert finish(transactional_batches(node.services, asked, 13)).sequences == {}
        asked.topic_data[0].topic_id = node.services.image.topics["t"].id
        assert finish(transactional_batches(node.services, asked, 13)).sequences == {("t", 0): 5}
