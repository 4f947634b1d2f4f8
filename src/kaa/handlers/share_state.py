"""What the five calls about share state have in common (83 to 87).

Each names share partitions of one group, and each partition is answered for itself: partitions of
one request may live in different partitions of the state topic. A request without a group, without
topics or with a topic without partitions is answered with nothing, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kaa.coordinators.share.state import SharePartitionKey
from kaa.limits import PARTS_BEGUN_PER_TURN_MAX
from kaa.model.turns import Turns, in_turns
from kaa.net.pending import Pending

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer
    from kaa.wire.primitives import Uuid

R = TypeVar("R")


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


def ask_each(
    request: _Request,
    ask: Callable[[Asked], asyncio.Future[Any]],
    response: Callable[..., R],
    topic_result: Callable[..., Any],
    partition_result: Callable[..., Any],
) -> Answer[R]:
    """Asks for every partition, a few in each turn, and then waits for all; the response has the
    results by topic id.
    """
    topics: list[_Topic] = list(request.topics)
    if not request.group_id or not all(topic.partitions for topic in topics):
        return response(results=[])
    return Pending(_asked(request, ask, response, topic_result, partition_result))


async def _asked(
    request: _Request,
    ask: Callable[[Asked], asyncio.Future[Any]],
    response: Callable[..., R],
    topic_result: Callable[..., Any],
    partition_result: Callable[..., Any],
) -> R:
    calls: dict[Uuid, dict[int, asyncio.Future[Any]]] = {}
    turns = Turns(PARTS_BEGUN_PER_TURN_MAX)
    for topic in request.topics:
        asked = calls.setdefault(topic.topic_id, {})
        for one in topic.partitions:
            await turns.next()
            number = one.partition
            key = SharePartitionKey(request.group_id, topic.topic_id, number)
            asked[number] = ask(Asked(key, one, partial(partition_result, partition=number)))
    results = []
    while calls:
        # Those of a topic are let go of with their results: to free them all takes a turn as well.
        topic_id = next(iter(calls))
        partitions = []
        for call in calls.pop(topic_id).values():
            await turns.next()
            result = await call
            partitions.append(await in_turns(result) if isinstance(result, Generator) else result)
        results.append(topic_result(topic_id=topic_id, partitions=partitions))
    return response(results=results)
