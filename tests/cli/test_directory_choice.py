"""Which replicas a move is about."""

from __future__ import annotations

import click
import pytest

from kaa.cli.directory_choice import (
    Choice,
    Replica,
    by_reason,
    choose,
    hidden_homes_of,
    homes_of,
    names_text,
    read_name,
    refusal,
    replicas_of,
)
from kaa.client.admin.cluster import LogDir, LogDirReplica
from kaa.client.errors import KafkaError
from kaa.client.metadata import Partition, Topic
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

TOPIC = Topic("t", UUID_ZERO, False, (Partition(0, 1, 0, (1, 2)), Partition(1, 2, 0, (2,))))


def replica(broker: int, number: int) -> Replica:
    return broker, TopicPartition("t", number)


def directory(broker: int, path: str, *numbers: int, future: tuple[int, ...] = ()) -> LogDir:
    replicas = (
        LogDirReplica(TopicPartition("t", number), 10, 0, number in future)
        for number in (*numbers, *future)
    )
    return LogDir(broker, path, Errors.NONE, -1, -1, tuple(replicas))


def test_names_of_topics_and_partitions() -> None:
    assert read_name("t") == ("t", [])
    assert read_name("t:0,2-3") == ("t", [0, 2, 3])
    for text in ("t:", "t:x", "t:-1", "t:1,1"):
        with pytest.raises(click.UsageError, match=f"^{text}: "):
            read_name(text)


def test_replicas_of_a_topic() -> None:
    assert replicas_of(TOPIC, [], None) == [replica(1, 0), replica(2, 0), replica(2, 1)]
    assert replicas_of(TOPIC, [0], None) == [replica(1, 0), replica(2, 0)]
    assert replicas_of(TOPIC, [1], 1) == []


@pytest.mark.parametrize(
    ("numbers", "path", "broker", "words"),
    [
        ([], "/b", None, None),
        ([], "/b", 1, None),
        ([], None, None, None),
        ([], None, 7, "broker 7 is not running"),
        ([1], "/b", 1, "broker 1 has no replica of NAME"),
        ([1], None, 1, "broker 1 has no replica of NAME"),
        ([], "/c", None, "no broker has the directory /c"),
        ([], "/b", 2, "broker 2 does not have the directory /b"),
        ([1], "/b", None, "no replica of NAME is on a broker with the directory /b"),
    ],
)
def test_why_nothing_can_move(
    numbers: list[int], path: str | None, broker: int | None, words: str | None
) -> None:
    found = [directory(1, "/a", 0), directory(1, "/b"), directory(2, "/a", 0, 1)]
    told = refusal(found, replicas_of(TOPIC, numbers, broker), "NAME", path, broker)
    assert told == words if words is None or told is None else told.startswith(words)


def test_homes_are_where_moving_replicas_are() -> None:
    found = [directory(1, "/a", 0, 1), directory(1, "/b", future=(1,)), directory(2, "/a", 1)]
    assert homes_of(found) == {replica(1, 1): "/a"}


def test_homes_of_replicas_whose_moves_an_offline_directory_hides() -> None:
    away = directory(1, "/b")._replace(error=Errors.KAFKA_STORAGE_ERROR)
    found = [directory(1, "/a", 0, 1), away, directory(2, "/a", 0)]
    wanted = [replica(1, 0), replica(2, 0)]
    assert hidden_homes_of(found, wanted) == {replica(1, 0): "/a"}
    assert hidden_homes_of(found[:1], wanted) == {}


def test_choice_of_what_moves_and_what_is_there() -> None:
    found = [
        directory(1, "/a", 0, 1, future=(3,)),
        directory(1, "/b", 2, 3, future=(1,)),
        directory(2, "/a", 0),
    ]
    replicas = [*(replica(1, number) for number in range(5)), replica(2, 0)]
    assert choose(found, replicas, "/b") == Choice(
        moving=[replica(1, 0), replica(1, 1)],
        kept=[replica(1, 3)],
        there=[replica(1, 2)],
        lost=[replica(1, 4)],
    )


def test_replicas_are_named_with_brokers_where_these_differ() -> None:
    assert names_text([replica(1, 0), replica(1, 1)]) == "t-0, t-1"
    assert names_text([replica(1, 0), replica(2, 0)]) == "t-0 on broker 1, t-0 on broker 2"
    assert names_text([replica(1, number) for number in range(22)]).endswith("t-19 and 2 more")


def test_replicas_that_are_refused_alike_have_one_error() -> None:
    outcome: dict[Replica, KafkaError | None] = {
        replica(broker, number): KafkaError(Errors.KAFKA_STORAGE_ERROR, "one", node=str(broker))
        for broker in (1, 2)
        for number in range(2)
    }
    outcome[replica(1, 2)] = None
    outcome[replica(1, 3)] = KafkaError(Errors.LOG_DIR_NOT_FOUND, "one")
    told = by_reason(outcome)
    assert {name: error and (error.what, error.node) for name, error in told.items()} == {
        "t-0, t-1 on broker 1": ("cannot move t-0, t-1", "1"),
        "t-0, t-1 on broker 2": ("cannot move t-0, t-1", "2"),
        "t-2 on broker 1": None,
        "t-3 on broker 1": ("cannot move t-3", None),
    }
