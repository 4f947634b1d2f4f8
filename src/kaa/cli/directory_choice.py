"""Which replicas `kaa topic move` is about, why there may be none, and why brokers refuse them.

Pure: the topic and the directories as they are go in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from kaa.cli.partitions import read_partitions
from kaa.limits import CLI_REPLICAS_NAMED_MAX
from kaa.model.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kaa.client.admin.cluster import LogDir
    from kaa.client.errors import KafkaError
    from kaa.client.metadata import Topic
    from kaa.wire.errors import Errors

# A replica: its broker and its partition.
Replica = tuple[int, TopicPartition]


def read_name(text: str) -> tuple[str, list[int]]:
    """The topic and the partitions that `orders` or `orders:0,2-3` names; none stand for all."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, []
    try:
        return topic, read_partitions(numbers)
    except ValueError as error:
        raise click.UsageError(f"{text}: {error}") from error


def replicas_of(topic: Topic, numbers: Sequence[int], broker: int | None) -> list[Replica]:
    """Those of some partitions, or of all, on one broker, or on all."""
    return [
        (broker_id, TopicPartition(topic.name, one.partition))
        for one in topic.partitions
        if not numbers or one.partition in numbers
        for broker_id in one.replicas
        if broker is None or broker_id == broker
    ]


def refusal(
    found: Sequence[LogDir],
    replicas: Iterable[Replica],
    name: str,
    path: str | None,
    broker: int | None,
) -> str | None:
    """Why nothing can move to the directory; None if something may."""
    where = {one.broker_id for one in found}
    if broker is not None and broker not in where:
        return f"broker {broker} is not running; see kaa cluster brokers"
    here = {broker_id for broker_id, _ in replicas}
    if broker is not None and not here:
        return f"broker {broker} has no replica of {name}; see kaa topic describe"
    if path is None:
        return None
    having = {one.broker_id for one in found if one.path == path}
    if not having if broker is None else broker not in having:
        owner = "no broker has" if broker is None else f"broker {broker} does not have"
        return f"{owner} the directory {path}; kaa cluster dirs shows them as they are named"
    if not having & here:
        return (
            f"no replica of {name} is on a broker with the directory {path}; see kaa topic describe"
        )
    return None


class Choice(NamedTuple):
    """What a move to a directory means for each replica on a broker that has it."""

    # To move; those that are on their way there already too.
    moving: list[Replica]
    # In the directory, and on the way to another one, which ends by asking for this one.
    kept: list[Replica]
    # In the directory.
    there: list[Replica]
    # Nowhere: the broker has no log of them in a directory that it can use.
    lost: list[Replica]


def choose(found: Sequence[LogDir], replicas: Iterable[Replica], path: str) -> Choice:
    having = {one.broker_id for one in found if one.path == path}
    places = {
        (one.broker_id, replica.partition): one.path
        for one in found
        for replica in one.replicas
        if not replica.is_future
    }
    homes = homes_of(found)
    choice = Choice([], [], [], [])
    for key in replicas:
        if key[0] not in having:
            continue
        place = places.get(key)
        if place is None:
            choice.lost.append(key)
        elif place != path:
            choice.moving.append(key)
        else:
            (choice.kept if key in homes else choice.there).append(key)
    return choice


def names_text(replicas: Sequence[Replica]) -> str:
    """Names replicas for people: the first ones, and with their brokers if these are several."""
    is_one = len({broker_id for broker_id, _ in replicas}) == 1
    names = [
        f"{partition}" if is_one else f"{partition} on broker {broker_id}"
        for broker_id, partition in replicas[:CLI_REPLICAS_NAMED_MAX]
    ]
    more = len(replicas) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def by_reason(outcome: Mapping[Replica, KafkaError | None]) -> dict[str, KafkaError | None]:
    """What became of replicas, by their names: one error for all that a broker refuses alike."""
    from kaa.client.errors import KafkaError

    alike: dict[tuple[int, Errors | None], list[Replica]] = {}
    for key, error in outcome.items():
        alike.setdefault((key[0], None if error is None else error.error), []).append(key)
    found: dict[str, KafkaError | None] = {}
    for keys in alike.values():
        names, error = names_text(keys), outcome[keys[0]]
        if error is not None:
            error = KafkaError(
                error.error,
                f"cannot move {names}",
                message=error.message,
                node=error.node,
                hint=error.hint,
            )
        found[f"{names} on broker {keys[0][0]}"] = error
    return found


def homes_of(found: Sequence[LogDir]) -> dict[Replica, str]:
    """By replica that is on its way the directory it is in: to ask for that ends the move."""
    moving = {
        (one.broker_id, replica.partition)
        for one in found
        for replica in one.replicas
        if replica.is_future
    }
    return {
        key: one.path
        for one in found
        for replica in one.replicas
        if (key := (one.broker_id, replica.partition)) in moving and not replica.is_future
    }


def hidden_homes_of(found: Sequence[LogDir], wanted: Collection[Replica]) -> dict[Replica, str]:
    """Of wanted replicas on brokers with an offline directory, which shows no moves to it, the
    directory they are in.
    """
    half_seen = {one.broker_id for one in found if one.error}
    return {
        key: one.path
        for one in found
        for replica in one.replicas
        if one.broker_id in half_seen
        and (key := (one.broker_id, replica.partition)) in wanted
        and not replica.is_future
    }
