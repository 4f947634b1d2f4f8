"""How a fetch comes to its answer; what it reads is tested with the handler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kaa.log.log import FetchIsolation
from kaa.serving.fetch_sessions import FetchContext, PartitionKey, Position
from kaa.serving.fetching import Fetching, FetchTerms
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from kaa.model.pieces import Pieces
    from tests.unit.handlers.support import Node

TERMS = FetchTerms(
    replica_id=-1,
    replica_epoch=-1,
    isolation=FetchIsolation.HIGH_WATERMARK,
    bytes_min=1,
    bytes_max=1 << 20,
    wait_ms_max=60_000,
    uses_ids=False,
    knows_followers=True,
    rack_id="",
)


def fetching(node: Node, offsets: dict[str, int], terms: FetchTerms = TERMS) -> Fetching:
    positions = {
        PartitionKey(topic, UUID_ZERO, 0): Position(offset, 1 << 20)
        for topic, offset in offsets.items()
    }
    return Fetching(node.services, terms, FetchContext(positions))


def told(some: Fetching) -> Pieces[list[tuple[str, int, bool]]]:
    """Of each partition its topic, the error, and whether there are records."""
    yield
    found = []
    for key, result in some.results.items():
        found.append((key.topic, result.error_code, bool(result.records)))
        if result.records is not None and not isinstance(result.records, bytes):
            result.records.release()
    return found


@pytest.fixture
def filled(node: Node) -> Node:
    for topic in ("a", "b"):
        node.create_topic(topic)
    node.append("a", 2)
    return node


def test_what_is_enough_is_answered_at_once(filled: Node) -> None:
    some = fetching(filled, {"a": 0, "b": 0})
    assert some.names() == [("a", 0), ("b", 0)]
    assert some.serve(lambda: told(some)) == [("a", 0, True), ("b", 0, False)]


def test_an_error_is_not_waited_with(filled: Node) -> None:
    some = fetching(filled, {"a": 7, "gone": 0})
    assert some.serve(lambda: told(some)) == [
        ("a", Errors.OFFSET_OUT_OF_RANGE, False),
        ("gone", Errors.UNKNOWN_TOPIC_OR_PARTITION, False),
    ]


def test_what_may_not_wait_is_answered_with_nothing(filled: Node) -> None:
    some = fetching(filled, {"b": 0}, TERMS._replace(wait_ms_max=0))
    assert some.serve(lambda: told(some)) == [("b", 0, False)]


def test_an_append_ends_the_wait_and_nothing_is_held_until_then(filled: Node) -> None:
    some = fetching(filled, {"a": 0, "b": 0}, TERMS._replace(bytes_min=100_000))

    async def main() -> None:
        answer = some.serve(lambda: told(some))
        assert isinstance(answer, asyncio.Future)
        assert some.results == {}
        filled.append("b", 2)
        await asyncio.sleep(0)
        assert not answer.done(), "it is not enough"
        filled.services.polls.end()
        assert await answer == [("a", 0, True), ("b", 0, True)]

    filled.run(main())


def test_isolation_follows_from_who_asks() -> None:
    assert FetchIsolation.of(3, 1) is FetchIsolation.LOG_END
    assert FetchIsolation.of(-1, 1) is FetchIsolation.TXN_COMMITTED
    assert FetchIsolation.of(-1, 0) is FetchIsolation.HIGH_WATERMARK
