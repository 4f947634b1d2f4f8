from __future__ import annotations

import pytest

from kaa.handlers.k35_describe_log_dirs import _add
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.unit.handlers.support import DIRECTORIES, Node


def describe(
    node: Node, *wanted: tuple[str, list[int]], version: int | None = None
) -> list[DescribeLogDirsResult]:
    request = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in wanted]
    )
    response = node.ask(request, version)
    assert response.error_code == Errors.NONE
    results: list[DescribeLogDirsResult] = response.results
    assert [result.log_dir for result in results] == list(DIRECTORIES)
    return results


def sizes(results: list[DescribeLogDirsResult]) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for result in results
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 3, 5])
def test_partitions_in_their_directories(node: Node, version: int) -> None:
    node.create_topic("t", 4)
    node.append("t", 10)
    results = describe(node, ("t", [0, 2, 0, 9]), ("absent", [0]), version=version)
    found = sizes(results)
    assert found.keys() == {("t", 0), ("t", 2)}
    assert found["t", 0] == node.partition("t").online_log().size_in_bytes > 0
    assert found["t", 2] == 0


def test_all_partitions_and_none(node: Node) -> None:
    node.create_topic("t", 4)
    response = node.ask(DescribeLogDirsRequest(topics=None))
    assert sizes(response.results).keys() == {("t", number) for number in range(4)}
    # The manager spreads partitions over its directories.
    assert all(result.topics for result in response.results)
    assert sizes(describe(node)) == {}


def test_a_directory_that_is_offline(node: Node) -> None:
    node.create_topic("t", 4)
    node.services.logs.directories[0].fail(OSError("broken"))
    broken, whole = describe(node, ("t", [0, 1, 2, 3]))
    assert broken.error_code == Errors.KAFKA_STORAGE_ERROR
    assert broken.topics == []
    assert whole.error_code == Errors.NONE
    assert whole.topics


def test_a_directory_that_takes_no_new_partitions() -> None:
    with Node(f"cordoned.log.dirs={DIRECTORIES[1]}") as node:
        assert [result.is_cordoned for result in describe(node)] == [False, True]


def test_a_log_that_has_gone_while_the_answer_is_made_is_left_out(node: Node) -> None:
    """A long answer is made in slices; what was moved meanwhile is no future replica."""
    node.create_topic("t", 2)
    logs = node.services.logs
    gone, kept = (logs.logs[TopicPartition("t", number)] for number in range(2))
    logs.delete([gone.partition], 0)
    topics: dict[tuple[str, str], DescribeLogDirsTopic] = {}
    for log in (gone, kept):
        _add(topics, log, logs)
    shown = [one for topic in topics.values() for one in topic.partitions]
    assert [(one.partition_index, one.is_future_key) for one in shown] == [(1, False)]
