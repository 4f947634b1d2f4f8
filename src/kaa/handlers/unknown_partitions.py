"""What requests about the offsets of a group have in common: partitions that do not exist are
refused here, and the coordinator hears of the others alone.

`part_topics` is for 28 and 47; 8, the most frequent, names topics by id and has one of its own that
leaves requests alone in which everything exists. All three join the answers by `joined`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.model.turns import Turns
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.controller.image import ClusterImage


class _Topic(Protocol):
    name: str
    partitions: list[Any]


T = TypeVar("T", bound=_Topic)
A = TypeVar("A", bound=_Topic)


async def part_topics(
    image: ClusterImage,
    topics: Iterable[T],
    topic_answer: Callable[..., A],
    partition_answer: Callable[..., Any],
) -> tuple[list[T], list[A]]:
    """The topics, left with the partitions that exist, and the answers for the others."""
    known: list[T] = []
    refused: list[A] = []
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    for topic in topics:
        await turns.next()
        found = image.topics.get(topic.name)
        exist = {} if found is None else found.partitions
        there, missing = [], []
        for one in topic.partitions:
            if one.partition_index in exist:
                there.append(one)
                continue
            await turns.next()
            error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            missing.append(partition_answer(partition_index=one.partition_index, error_code=error))
        if missing:
            refused.append(topic_answer(name=topic.name, partitions=missing))
        topic.partitions = there
        if topic.partitions:
            known.append(topic)
    return known, refused


def joined(refused: list[A], answered: Iterable[A]) -> list[A]:
    """Both kinds of answers, each topic once."""
    by_name = {topic.name: topic for topic in refused}
    for topic in answered:
        same = by_name.get(topic.name)
        if same is None:
            refused.append(topic)
        else:
            same.partitions += topic.partitions
    return refused
