"""What the five calls about share state have in common (83 to 87).

Each names share partitions of one group, and each partition is answered for itself: partitions of
one request may live in different partitions of the state topic. A request without a group, without
topics or with a topic without partitions is answered with nothing, as Kafka does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kaa.coordinators.machine import CoordinatorError, error_for_clients
from kaa.coordinators.share.state import SharePartitionKey
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.wire.primitives import Uuid

Result = TypeVar("Result")


class _Topic(Protocol):
    topic_id: Uuid

    @property
    def partitions(self) -> Sequence[Any]: ...


class _Request(Protocol):
    group_id: str

    @property
    def topics(self) -> Sequence[Any]: ...


class StateOutcome(NamedTuple):
    """How the call for one partition ended."""

    partition: int
    error: Errors
    message: str | None
    value: Any


Found = list[tuple["Uuid", list[StateOutcome]]]
"""Outcomes by topic id."""


async def ask_each(
    request: _Request, ask: Callable[[SharePartitionKey, Any], asyncio.Future[Any]]
) -> Found:
    """Asks for every partition at once; the answers by topic id."""
    topics: list[_Topic] = list(request.topics)
    if not request.group_id or not all(topic.partitions for topic in topics):
        return []
    calls: dict[Uuid, dict[int, asyncio.Future[Any]]] = {}
    for topic in topics:
        asked = calls.setdefault(topic.topic_id, {})
        for partition in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, partition.partition)
            asked[partition.partition] = ask(key, partition)
    every = [call for asked in calls.values() for call in asked.values()]
    if every:
        # Who goes meanwhile takes the calls along, so that no refusal of theirs is left unheard.
        await asyncio.gather(*every, return_exceptions=True)
    return [
        (topic_id, [_outcome(number, call) for number, call in asked.items()])
        for topic_id, asked in calls.items()
    ]


def results_of(
    found: Found, result: Callable[..., Result], partition_result: Callable[..., Any]
) -> list[Result]:
    """The answers of a call that tells of each partition only whether it was done."""
    return [
        result(
            topic_id=topic_id,
            partitions=[
                partition_result(
                    partition=one.partition, error_code=one.error, error_message=one.message
                )
                for one in outcomes
            ],
        )
        for topic_id, outcomes in found
    ]


def _outcome(number: int, call: asyncio.Future[Any]) -> StateOutcome:
    try:
        return StateOutcome(number, Errors.NONE, None, call.result())
    except CoordinatorError as refusal:
        # Without a message it comes from the log, not from the coordinator.
        error = error_for_clients(refusal.error) if refusal.message is None else refusal.error
        return StateOutcome(number, error, refusal.message or error.message, None)
