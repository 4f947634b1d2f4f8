from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaa.client.admin.admin import Admin, ConfigChange, NewTopic, ResourceType
from kaa.client.admin.groups import SHARE, STREAMS
from kaa.client.coordinator import CoordinatorType, ask_coordinator
from kaa.client.errors import KafkaError
from kaa.wire.errors import Errors
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)

if TYPE_CHECKING:
    from kaa.client.connection import Connection

TIMEOUT_MS = 30_000


async def ask(admin: Admin, group: str, request: Any) -> Any:
    """The answer of the coordinator of a group."""

    async def send(connection: Connection) -> Any:
        response = await connection.request(request)
        if response.error_code:
            return KafkaError(Errors.of(response.error_code), "heartbeat")
        return response

    return await ask_coordinator(
        admin.cluster, CoordinatorType.GROUP, group, "heartbeat", TIMEOUT_MS, send
    )


async def join_streams(admin: Admin, group: str, topic: str) -> None:
    """A member that gets the tasks of a topic with two partitions."""
    await admin.create_topics([NewTopic(topic, 2, 1)])
    delay = ConfigChange("streams.initial.rebalance.delay.ms", "0")
    await admin.alter_configs(ResourceType.GROUP, group, [delay])
    part = Subtopology(
        subtopology_id="0",
        source_topics=[topic],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=TIMEOUT_MS,
        topology=Topology(epoch=0, subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    async with asyncio.timeout(60):
        while (await ask(admin, group, request)).status:  # noqa: ASYNC110
            # The coordinator does not know the topic or the setting yet.
            await asyncio.sleep(0.05)


def test_a_streams_group(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await join_streams(admin, topic_name, topic_name)
            found = await admin.describe_streams_group(topic_name)
            assert (found.state, found.topology_epoch) == ("Stable", 0)
            assert found.subtopologies[0].source_topics == (topic_name,)
            (member,) = found.members
            assert [str(task) for task in member.active_tasks] == ["0_0", "0_1"]
            assert (member.standby_tasks, member.process_id) == ((), "p")
            listed = await admin.list_groups(types=["streams"])
            assert topic_name in {one.group_id for one in listed}
            with pytest.raises(KafkaError) as absent:
                await admin.describe_streams_group(f"{topic_name}-absent")
            assert absent.value.error is Errors.GROUP_ID_NOT_FOUND

    asyncio.run(run())


def test_groups_of_every_kind_are_described_in_one_form(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            streams, share = f"{topic_name}-streams", f"{topic_name}-share"
            await join_streams(admin, streams, topic_name)
            request = ShareGroupHeartbeatRequest(
                group_id=share, member_id="m", member_epoch=0, subscribed_topic_names=[topic_name]
            )
            await ask(admin, share, request)
            absent = f"{topic_name}-absent"
            found = await admin.describe_groups([streams, share, absent])
            one, other, none = found[streams], found[share], found[absent]
            assert not isinstance(one, KafkaError)
            assert (one.group_type, one.state) == (STREAMS, "Stable")
            assert [str(task) for task in one.members[0].active_tasks] == ["0_0", "0_1"]
            assert not isinstance(other, KafkaError)
            assert (other.group_type, other.members[0].topics) == (SHARE, (topic_name,))
            assert isinstance(none, KafkaError)
            assert none.error is Errors.GROUP_ID_NOT_FOUND

    asyncio.run(run())
