"""Requests for moves that Kafka refuses, and what it answers."""

from __future__ import annotations

import asyncio

import pytest

from kaa.model.topics import TopicPartition
from kaa.replication.follower.local import LocalLeader, Sources
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from tests.unit.broker.support import config, formatted
from tests.unit.log.batches import batch
from tests.unit.replication.movers import (
    BASIC,
    FIRST,
    KEY,
    alter,
    create,
    find,
    log_of,
    many_segments,
    new_files,
    node,
    other,
    throttle,
)

THREE = "log.dirs=/a,/b,/c"
FOUR = "log.dirs=/a,/b,/c,/d"
THREADS = "num.replica.alter.log.dirs.threads=3"


def test_no_move_begins_while_a_directory_is_offline_and_one_may_be_ended() -> None:
    """The directory that is offline may have a copy of the partition already."""

    async def main() -> None:
        async with node(formatted(config(*BASIC, THREE)), THREE) as broker:
            first, second, third = broker.services.logs.directories
            assert alter(broker, second.path) is Errors.UNKNOWN_TOPIC_OR_PARTITION
            await many_segments(await create(broker))
            await throttle(broker, 1)
            assert alter(broker, third.path) is Errors.NONE
            first.fail(OSError("dead"))
            assert alter(broker, third.path) is Errors.NONE
            assert broker.services.logs.futures.logs
            assert alter(broker, second.path) is Errors.NONE
            assert not broker.services.logs.futures.logs
            assert alter(broker, third.path) is Errors.KAFKA_STORAGE_ERROR
            assert not broker.services.logs.futures.logs

    asyncio.run(main())


@pytest.mark.parametrize("makes_way", [False, True])
def test_a_move_that_is_refused_leaves_the_one_that_is_under_way(*, makes_way: bool) -> None:
    async def main() -> None:
        async with node(formatted(config(*BASIC, FOUR)), FOUR) as broker:
            await many_segments(await create(broker))
            await throttle(broker, 1)
            source = log_of(broker).directory
            first, second, third = (
                each for each in broker.services.logs.directories if each is not source
            )
            assert alter(broker, first.path) is Errors.NONE
            third.fail(OSError("dead"))
            moves = broker.services.replicas.moves
            assert moves is not None
            if makes_way:
                moves.make_way(KEY, second.path, find(broker))
            assert alter(broker, second.path) is Errors.KAFKA_STORAGE_ERROR
            move = moves.get(find(broker))
            assert move is not None
            assert move.target is first

    asyncio.run(main())


@pytest.mark.parametrize(("setting", "expected"), [((), 2), ((THREADS,), 3)])
def test_as_many_copy_at_once_as_there_are_threads(
    setting: tuple[str, ...], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each directory, unless the setting says otherwise."""
    copiers: list[LocalLeader] = []

    def note(sources: Sources) -> LocalLeader:
        copiers.append(LocalLeader(sources))
        return copiers[-1]

    monkeypatch.setattr("kaa.replication.moves.LocalLeader", note)

    async def main() -> None:
        async with node(new_files(), *setting) as broker:
            await throttle(broker, 1)
            await create(broker, 6)
            replicas = broker.services.replicas
            assert replicas.moves is not None
            for number in range(6):
                found = replicas.find(KEY.topic, number)
                assert isinstance(found, Partition)
                found.append(batch(2), now_ms=0)
                key, target = TopicPartition(KEY.topic, number), other(found.online_log())
                assert replicas.moves.alter(key, target, found) is Errors.NONE
            assert len(copiers) == expected

    asyncio.run(main())


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (TopicPartition("no such name", 0), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("", 0), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t", -1), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("x" * 213, 0), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("x" * 214, 0), Errors.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_names_that_no_partition_has(key: TopicPartition, error: Errors) -> None:
    async def main() -> None:
        async with node(new_files()) as broker:
            moves = broker.services.replicas.moves
            assert moves is not None
            found = broker.services.replicas.find(key.topic, key.partition)
            assert moves.alter(key, FIRST, found) is error

    asyncio.run(main())
