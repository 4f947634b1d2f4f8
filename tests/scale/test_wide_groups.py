"""Groups of a few members that have all of two thousand topics: what a consumer gets names ten
thousand partitions.
"""

from __future__ import annotations

from kaa.limits import GROUP_SUBSCRIBED_NAMES_MAX, STREAMS_TOPOLOGY_ENTRIES_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from kaa.wire.messages.k88_streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from tests.scale.requests import NAMES, PARTITIONS
from tests.scale.steps import Scale

JOINS, LEAVES = 0, -1
MEMBERS = 2


def topology(*topics: list[str]) -> Topology:
    """A subtopology for each of these."""
    return Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id=str(number),
                source_topics=names,
                source_topic_regex=[],
                state_changelog_topics=[],
                repartition_sink_topics=[],
                repartition_source_topics=[],
                copartition_groups=[],
            )
            for number, names in enumerate(topics)
        ],
    )


class ConsumerGroup:
    """Members that report what they were given, as consumers do."""

    def __init__(self, scale: Scale, group_id: str) -> None:
        self._ask = scale.node.client.ask
        self._group_id = group_id
        self._epochs = [JOINS] * MEMBERS
        self.owned: list[list[TopicPartitions]] = [[] for _ in range(MEMBERS)]

    def beat(self, number: int, epoch: int | None = None) -> None:
        sent = self._epochs[number] if epoch is None else epoch
        joins = sent == JOINS
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=f"member-{number}",
            member_epoch=sent,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=NAMES if joins else None,
            topic_partitions=[] if joins else self.owned[number],
        )
        answer = self._ask(request)
        assert answer.error_code == Errors.NONE, answer.error_message
        self._epochs[number] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[number] = answer.assignment.topic_partitions

    def count(self, number: int) -> int:
        return sum(len(topic.partitions) for topic in self.owned[number])


class StreamsGroup:
    """Members that report the tasks they were given."""

    def __init__(self, scale: Scale, group_id: str, application: Topology) -> None:
        self._ask = scale.node.client.ask
        self._group_id = group_id
        self._topology = application
        self._epochs = [JOINS] * MEMBERS
        self.owned: list[list[TaskIds]] = [[] for _ in range(MEMBERS)]

    def beat(self, number: int, epoch: int | None = None) -> None:
        sent = self._epochs[number] if epoch is None else epoch
        joins = sent == JOINS
        owned = [] if joins else self.owned[number]
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=f"member-{number}",
            member_epoch=sent,
            rebalance_timeout_ms=60_000 if joins else -1,
            topology=self._topology if joins else None,
            active_tasks=None if sent == LEAVES else owned,
            standby_tasks=None if sent == LEAVES else [],
            warmup_tasks=None if sent == LEAVES else [],
            process_id=f"process-{number}" if joins else None,
            client_tags=[] if joins else None,
        )
        answer = self._ask(request)
        assert answer.error_code == Errors.NONE, answer.error_message
        self._epochs[number] = answer.member_epoch
        if answer.active_tasks is not None:
            self.owned[number] = answer.active_tasks

    def count(self, number: int) -> int:
        return sum(len(one.partitions) for one in self.owned[number])


def life(group: ConsumerGroup | StreamsGroup, scale: Scale, everything: int) -> None:
    """One member gets everything, gives half of it to another, and both leave."""

    def has(number: int, count: int) -> bool:
        for other in range(number + 1):
            group.beat(other)
        return group.count(number) == count

    group.beat(0, JOINS)
    scale.wait_until(lambda: has(0, everything))
    group.beat(1, JOINS)
    scale.wait_until(lambda: has(1, everything // 2))
    for number in range(MEMBERS):
        group.beat(number, LEAVES)


def test_consumers_of_everything(scale: Scale) -> None:
    scale.wait_for_coordinator(0, "wide")
    everything = sum(scale.partition_counts(NAMES))
    scale.undisturbed(
        "wide consumer group",
        lambda: life(ConsumerGroup(scale, "wide"), scale, everything),
    )
    described = ConsumerGroup(scale, "wide")
    described.beat(0, JOINS)
    scale.ask("ConsumerGroupDescribe of all", ConsumerGroupDescribeRequest(group_ids=["wide"]))
    described.beat(0, LEAVES)


def test_a_consumer_of_what_is_not_there(scale: Scale) -> None:
    scale.wait_for_coordinator(0, "absent")
    names = [f"absent-{number}" for number in range(GROUP_SUBSCRIBED_NAMES_MAX)]
    for joining in (
        ConsumerGroupHeartbeatRequest(
            group_id="absent",
            member_id="m",
            member_epoch=JOINS,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=names,
            topic_partitions=[],
        ),
        ConsumerGroupHeartbeatRequest(group_id="absent", member_id="m", member_epoch=LEAVES),
    ):
        assert scale.node.client.ask(joining).error_code == Errors.NONE
        request = ConsumerGroupDescribeRequest(group_ids=["absent"])
        scale.ask("ConsumerGroupDescribe of what is not there", request)


def streams(scale: Scale, group_id: str, application: Topology, tasks: int) -> None:
    def new() -> StreamsGroup:
        return StreamsGroup(scale, group_id, application)

    scale.wait_for_coordinator(0, group_id)
    scale.undisturbed(f"streams group of {tasks} tasks", lambda: life(new(), scale, tasks))
    described = new()
    described.beat(0, JOINS)
    scale.ask("StreamsGroupDescribe", StreamsGroupDescribeRequest(group_ids=[group_id]))
    described.beat(0, LEAVES)


def test_streams_that_join_everything(scale: Scale) -> None:
    """A task has a partition of every topic."""
    streams(scale, "streams", topology(NAMES), max(scale.partition_counts(NAMES)))


def test_streams_of_everything(scale: Scale) -> None:
    """A task has one partition."""
    application = topology(*([name] for name in NAMES))
    streams(scale, "wide-streams", application, sum(scale.partition_counts(NAMES)))


def test_streams_with_many_internal_topics(scale: Scale) -> None:
    """They ask for more replicas than there are nodes, so the application waits for them."""
    application = topology(NAMES[:1])
    application.subtopologies[0].state_changelog_topics = [
        TopicInfo(
            name=f"changelog-{number}",
            topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
            replication_factor=9,
        )
        for number in range(STREAMS_TOPOLOGY_ENTRIES_MAX // 2 - 1)
    ]
    scale.wait_for_coordinator(0, "changelogs")
    member = StreamsGroup(scale, "changelogs", application)

    def life() -> None:
        for epoch in (JOINS, None, LEAVES):
            member.beat(0, epoch)

    scale.undisturbed("streams group of many internal topics", life)


def test_streams_of_many_copartition_groups(scale: Scale) -> None:
    application = topology(NAMES)
    alike = [
        number for number, count in enumerate(scale.partition_counts(NAMES)) if count == PARTITIONS
    ]
    application.subtopologies[0].copartition_groups = [
        CopartitionGroup(source_topics=alike, source_topic_regex=[], repartition_source_topics=[])
        for _ in range(3)
    ]
    scale.wait_for_coordinator(0, "copartitioned")
    member = StreamsGroup(scale, "copartitioned", application)

    def life() -> None:
        for epoch in (JOINS, LEAVES):
            member.beat(0, epoch)

    scale.undisturbed("streams group of many copartition groups", life)
