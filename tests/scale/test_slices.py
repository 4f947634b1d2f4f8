"""Nothing holds the loop of a node with ten thousand partitions of two thousand topics.

One loop serves everybody, so that a long step is everybody's delay. Every admin API that can name
many things is asked for all of them, and every background duty has its turn; beside it, a probe
reads the processor time of every turn of the loop.
"""

from __future__ import annotations

import time

import pytest

from kaa.log.producer_state import ProducerEntry
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest
from kaa.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from tests.scale import offsets
from tests.scale.requests import (
    NAMES,
    NUMBERS,
    PARTITIONS,
    TIMEOUT_MS,
    TOPICS,
    changes,
    large_record,
    moves,
    questions,
)
from tests.scale.steps import Scale

MOVED_TOPICS = 20
MORE_PER_REQUEST = 50
PRODUCERS = 100_000
OLD_OFFSET_FETCH = 7


EVERYTHING = questions(NAMES, NUMBERS)


def test_creation_of_the_topics(scale: Scale) -> None:
    if scale.creation_failure is not None:
        raise scale.creation_failure


@pytest.mark.parametrize("name", EVERYTHING)
def test_questions_about_everything(scale: Scale, name: str) -> None:
    scale.ask(name, EVERYTHING[name])


def test_offsets_of_everything(scale: Scale) -> None:
    """In one request each, as an operator who moves a whole group sends them."""
    ask = scale.node.client.ask
    scale.wait_for_coordinator(0, "g")
    commit, delete = offsets.commit(scale.node.broker.services.image), offsets.delete()
    committed = ask(commit)
    assert {one.error_code for topic in committed.topics for one in topic.partitions} == {0}
    scale.ask("OffsetCommit", commit)
    for fetch in (offsets.fetch(is_stable=False), offsets.fetch(is_stable=True)):
        (found,) = ask(fetch).groups
        assert sum(len(topic.partitions) for topic in found.topics) == TOPICS * PARTITIONS
        scale.ask("OffsetFetch", fetch)
    old = OffsetFetchRequest(group_id=offsets.GROUP, topics=None)
    assert len(ask(old, OLD_OFFSET_FETCH).topics) == TOPICS
    scale.ask("OffsetFetch of old clients", old, OLD_OFFSET_FETCH)

    def delete_all() -> None:
        ask(commit, decodes=False)
        ask(delete, decodes=False)

    scale.steady("OffsetDelete", delete_all)
    assert not ask(offsets.fetch(is_stable=True)).groups[0].topics


def test_producers_of_a_partition(scale: Scale) -> None:
    """As many as a partition has that thousands of short-lived programs write to: they are
    described, written down at each roll, and looked through for those that have expired.
    """
    node = scale.node
    log = node.broker.services.logs.logs[TopicPartition(NAMES[0], 0)]
    producers = log.producer_state.producers
    now_ms = int(time.time() * 1000)
    made = {n: ProducerEntry(n, 0, last_timestamp=now_ms) for n in range(PRODUCERS)}
    node.call(lambda: producers.update(made))
    topic = TopicRequest(name=NAMES[0], partition_indexes=[0])
    scale.ask("DescribeProducers", DescribeProducersRequest(topics=[topic]))
    produce = large_record(node.broker.services.image, 700_000)

    def roll(_: int) -> None:
        base_offset = log.segments.active.base_offset
        while log.segments.active.base_offset == base_offset:
            answer = node.client.ask(produce)
            assert answer.responses[0].partition_responses[0].error_code == Errors.NONE

    scale.repeated("roll with many producers", roll, 3)
    assert len(producers) == PRODUCERS
    node.call(producers.clear)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("settings of the broker", changes(4, [""], "log.retention.ms", "86400001")),
        ("settings of a group", changes(32, ["g"], "consumer.session.timeout.ms", "45001")),
        ("settings of every topic", changes(2, NAMES, "retention.ms", "86400002")),
    ],
)
def test_changes_of_settings(
    scale: Scale, name: str, request_: IncrementalAlterConfigsRequest
) -> None:
    response = scale.node.client.ask(request_)
    assert {one.error_code for one in response.responses} == {Errors.NONE}
    scale.ask(name, request_)


def test_more_partitions(scale: Scale) -> None:
    logs = scale.node.broker.services.logs.logs

    def create(part: int) -> None:
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=PARTITIONS + 1, assignments=None)
                for name in NAMES[part * MORE_PER_REQUEST :][:MORE_PER_REQUEST]
            ],
            timeout_ms=TIMEOUT_MS,
        )
        before = len(logs)
        scale.node.client.ask(request)
        scale.wait_for_logs(before + MORE_PER_REQUEST)

    scale.repeated("CreatePartitions", create, 5)


def test_duties(scale: Scale) -> None:
    """Checkpoints, retention, expiry, flushes, the cleaner, elections, heartbeats."""
    scale.repeated("duties", lambda _: time.sleep(1.2), 4)  # noqa: TID251  As above.


def test_moves(scale: Scale) -> None:
    logs = scale.node.broker.services.logs
    here, there = logs.directories
    names = NAMES[:MOVED_TOPICS]

    def move(part: int) -> None:
        response = scale.node.client.ask(moves((here, there)[part % 2].path, names))
        errors = {one.error_code for topic in response.results for one in topic.partitions}
        assert errors == {Errors.NONE}
        # Checkpoints forget the place that a replica has left; one that comes back at once has
        # them written first.
        while scale.node.call(lambda: logs.futures.logs or here.stale or there.stale):
            time.sleep(0.1)  # noqa: TID251  As above.

    scale.repeated("AlterReplicaLogDirs", move, 3)
