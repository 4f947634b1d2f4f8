"""One data directory with a streams group, served by turns by Kaa and by a real Kafka node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kaa.wire.messages.k89_streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from tests.clients.librdkafka import create_topic
from tests.oracle import Oracle
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.support.real_node import RealNode

pytestmark = pytest.mark.oracle

GROUP = "application"
TOPOLOGY = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(
            subtopology_id="0",
            source_topics=["in"],
            source_topic_regex=[],
            state_changelog_topics=[TopicInfo(name="counts", partitions=0, topic_configs=[])],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )
    ],
)
# No member is lost while the nodes take turns, however long that takes on a busy machine.
SETTINGS = {
    "group.streams.session.timeout.ms": "60000",
    "group.streams.initial.rebalance.delay.ms": "0",
}


class Member:
    """A member of the group, with what it knows of itself from one node to the next."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.epoch = 0
        self.tasks: list[int] = []

    def beat(self, bootstrap: str) -> StreamsGroupHeartbeatResponse:
        joining: dict[str, Any] = {}
        if self.epoch == 0:
            joining = {"topology": TOPOLOGY, "rebalance_timeout_ms": 60_000, "process_id": "p"}
        owned = [TaskIds(subtopology_id="0", partitions=self.tasks)] if self.tasks else []
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._name,
            member_epoch=self.epoch,
            endpoint_information_epoch=-1,
            active_tasks=owned,
            standby_tasks=[],
            warmup_tasks=[],
            **joining,
        )
        with RawClient(bootstrap) as client:
            answer: StreamsGroupHeartbeatResponse = client.ask(request)
        if answer.error_code == Errors.NONE:
            self.epoch = answer.member_epoch
            if answer.active_tasks is not None:
                self.tasks = [number for one in answer.active_tasks for number in one.partitions]
        return answer


def settle(bootstrap: str, members: list[Member], count: int) -> None:
    """Members send heartbeats until all tasks have an owner and nothing is to be said."""
    with RawClient(bootstrap) as client:
        # The question makes the topic of the coordinators, where there is none.
        client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]))

    def is_settled() -> bool:
        answers = [member.beat(bootstrap) for member in members]
        owned = sorted(number for member in members for number in member.tasks)
        is_quiet = all(one.error_code == Errors.NONE and not one.status for one in answers)
        is_shared = all(member.tasks for member in members)
        return is_quiet and is_shared and owned == list(range(count))

    assert wait_until(is_settled, PATIENCE_SECONDS), [member.tasks for member in members]


def described(bootstrap: str) -> DescribedGroup:
    """The group as a broker describes it, once its coordinator has loaded it."""
    found: list[DescribedGroup] = []

    def is_there() -> bool:
        with RawClient(bootstrap) as client:
            (group,) = client.ask(StreamsGroupDescribeRequest(group_ids=[GROUP])).groups
        found[:] = [group]
        return bool(group.error_code == Errors.NONE)

    assert wait_until(is_there, PATIENCE_SECONDS), found
    (group,) = found
    group.members.sort(key=lambda member: member.member_id)
    return group


def test_streams_groups_go_from_one_to_the_other(oracle: Oracle, tmp_path: Path) -> None:
    """Members go on with their epochs and tasks, and another one joins at each node."""
    first, second, third = (Member(name) for name in ("first", "second", "third"))
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    with BrokerProcess(tmp_path / "node", *settings) as ours:
        create_topic(ours.bootstrap_servers, "in", partitions=3)
        settle(ours.bootstrap_servers, [first], 3)
        before = described(ours.bootstrap_servers)
        ours.stop()
    assert before.group_state == "Stable"
    data_dir = tmp_path / "node" / "data"
    with RealNode(tmp_path / "jvm", data_dir, **SETTINGS) as kafka:
        bootstrap = kafka.bootstrap_servers
        settle(bootstrap, [first], 3)
        found = described(bootstrap)
        # Kafka does not show the partitions of internal topics until the group has changed again.
        found.topology = before.topology
        assert found == before
        settle(bootstrap, [first, second], 3)
        between = described(bootstrap)
        assert between.group_epoch > before.group_epoch
    with ours:
        bootstrap = ours.bootstrap_servers
        settle(bootstrap, [first, second], 3)
        assert described(bootstrap) == between
        settle(bootstrap, [first, second, third], 3)
        ours.stop()
