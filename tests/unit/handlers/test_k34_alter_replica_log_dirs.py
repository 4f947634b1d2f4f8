from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kaa.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from tests.unit.handlers.support import DIRECTORIES, Node


def alter(
    node: Node, *wanted: tuple[str, str, list[int]], version: int = 2
) -> dict[tuple[str, int], Errors]:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=numbers)]
            )
            for path, name, numbers in wanted
        ]
    )
    response = node.ask(request, version)
    return {
        (topic.topic_name, each.partition_index): Errors.of(each.error_code)
        for topic in response.results
        for each in topic.partitions
    }


def places(node: Node, *, is_future: bool) -> dict[int, str]:
    response = node.ask(DescribeLogDirsRequest(topics=None), 5)
    return {
        each.partition_index: result.log_dir
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
        if each.is_future_key == is_future
    }


@pytest.mark.parametrize("version", [1, 2])
def test_moves_are_begun_and_shown_as_future_replicas(node: Node, version: int) -> None:
    node.create_topic("t", 6)
    node.append("t", 10)
    before = places(node, is_future=False)
    target = DIRECTORIES[0]
    errors = alter(node, (target, "t", list(range(6))), version=version)
    assert set(errors.values()) == {Errors.NONE}
    assert places(node, is_future=False) == before
    assert places(node, is_future=True) == {
        number: target for number, path in before.items() if path != target
    }


def test_lag_of_a_future_replica_is_what_it_has_to_copy(node: Node) -> None:
    node.create_topic("t", 1)
    node.append("t", 10)
    current = node.partition("t").online_log().directory.path
    target = next(path for path in DIRECTORIES if path != current)
    alter(node, (target, "t", [0]))
    response = node.ask(DescribeLogDirsRequest(topics=None), 5)
    lags = {
        each.is_future_key: each.offset_lag
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    }
    assert lags == {False: 0, True: 10}


def test_last_listed_directory_of_a_partition_counts(node: Node) -> None:
    node.create_topic("t", 1)
    current = node.partition("t").online_log().directory.path
    target = next(path for path in DIRECTORIES if path != current)
    assert alter(node, (target, "t", [0]), (current, "t", [0])) == {("t", 0): Errors.NONE}
    assert places(node, is_future=True) == {}
    assert alter(node, ("/nowhere", "t", [0]), (target, "t", [0])) == {("t", 0): Errors.NONE}
    assert places(node, is_future=True) == {0: target}
    assert alter(node, (target, "t", [0]), ("/nowhere", "t", [0])) == {
        ("t", 0): Errors.LOG_DIR_NOT_FOUND
    }


def test_each_partition_has_its_own_answer(node: Node) -> None:
    node.create_topic("t", 1)
    path = DIRECTORIES[0]
    assert alter(node, (path, "t", [0, 7]), (path, "absent", [0])) == {
        ("t", 0): Errors.NONE,
        ("t", 7): Errors.UNKNOWN_TOPIC_OR_PARTITION,
        ("absent", 0): Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert alter(node) == {}


def test_name_that_is_too_long_for_a_copy_is_told_before_the_directory(node: Node) -> None:
    name = "n" * 240
    node.create_topic(name)
    for path in (DIRECTORIES[0], "/unknown"):
        assert alter(node, (path, name, [0])) == {(name, 0): Errors.INVALID_TOPIC_EXCEPTION}
