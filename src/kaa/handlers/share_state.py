"""What the five calls about share state have in common (83 to 87).

Each names share partitions of one group, and each partition is answered for itself: partitions of
one request may live in different partitions of the state topic. A request without a group, without
topics or with a topic without partitions is answered with nothing, as Kafka does.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kaa.coordinators.share.state import SharePartitionKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.coordinators.machine import CoordinatorError
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


class Asked(NamedTuple):
    """One partition of a request, and how its result reads in the API."""

    key: SharePartitionKey
    # What the request says about it.
    data: Any
    result: Callable[..., Any]

    def refused(self, refusal: CoordinatorError) -> Any:
        message = refusal.message or refusal.error.message
        return self.result(error_code=refusal.error, error_message=message)

    def done(self, _: object) -> Any:
        """The result of a call that tells only whether it was done."""
        return self.result()


async def ask_each(
    request: _Request,
    ask: Callable[[Asked], asyncio.Future[Any]],
    topic_result: Callable[..., Result],
    partition_result: Callable[..., Any],
) -> list[Result]:
    """Asks for every partition at once; the results by topic id."""
    topics: list[_Topic] = list(request.topics)
    if not request.group_id or not all(topic.partitions for topic in topics):
        return []
    calls: dict[Uuid, dict[int, asyncio.Future[Any]]] = {}
    for topic in topics:
        asked = calls.setdefault(topic.topic_id, {})
        for one in topic.partitions:
            number = one.partition
            key = SharePartitionKey(request.group_id, topic.topic_id, number)
            asked[number] = ask(Asked(key, one, partial(partition_result, partition=number)))
    # Who goes meanwhile takes the calls along.
    await asyncio.gather(*(call for asked in calls.values() for call in asked.values()))
    return [
        topic_result(topic_id=topic_id, partitions=[call.result() for call in asked.values()])
        for topic_id, asked in calls.items()
    ]
