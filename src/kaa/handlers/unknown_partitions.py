"""What requests about the offsets of a group have in common: partitions that do not exist are
refused here, and the coordinator hears of the others alone.

`part_topics` is for 28 and 47, and for 8 where there are very many partitions: that is the most
frequent, and has one of its own that leaves requests alone in which everything exists. All three
join the answers by `joined`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.model.pieces import mapped_groups
from kaa.model.turns import Turns, in_turns
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.controller.image import TopicImage


class _Topic(Protocol):
    name: str
    partitions: list[Any]


T = TypeVar("T", bound=_Topic)
A = TypeVar("A", bound=_Topic)


async def part_topics(
    topics: Iterable[T],
    find: Callable[[T], TopicImage | None],
    topic_answer: Callable[[T, list[Any]], A],
    partition_answer: Callable[..., Any],
    unknown_topic: Errors = Errors.UNKNOWN_TOPIC_OR_PARTITION,
) -> tuple[list[T], list[A]]:
    """The topics, left with the partitions that exist, and the answers for the others."""
    known: list[T] = []
    refused: list[A] = []
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    for topic in topics:
        await turns.next()
        found = find(topic)
        exist = {} if found is None else found.partitions
        error = unknown_topic if found is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
        there, missing = [], []
        for one in topic.partitions:
            await turns.next()
            if one.partition_index in exist:
                there.append(one)
                continue
            missing.append(partition_answer(partition_index=one.partition_index, error_code=error))
        if missing:
            refused.append(topic_answer(topic, missing))
        topic.partitions = there
        if topic.partitions:
            known.append(topic)
    return known, refused


async def all_refused(
    topics: Iterable[T],
    error: Errors,
    topic_answer: Callable[[T, list[Any]], A],
    partition_answer: Callable[..., Any],
) -> list[A]:
    """The same error for every partition."""
    return await in_turns(
        mapped_groups(
            topics,
            lambda topic: topic.partitions,
            lambda one: partition_answer(partition_index=one.partition_index, error_code=error),
            topic_answer,
        )
    )


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
