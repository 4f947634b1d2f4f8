"""Streams groups: topologies, tasks, and what is refused."""

from __future__ import annotations

from typing import Any

from kaa.coordinators.group.kinds import RECORD_TYPES
from kaa.coordinators.machine import NewRecord
from kaa.coordinators.runtime import partition_for
from kaa.model.topics import CONSUMER_OFFSETS as OFFSETS
from kaa.records.batch import iter_batches
from kaa.records.record import iter_records
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k88_streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask, Compare, Story, World, case
from tests.differential.cases_consumer_groups import ready
from tests.differential.helpers import create

BEAT = ApiKey.STREAMS_GROUP_HEARTBEAT
GROUP_RESOURCE = 32


def settings(world: World, **values: int) -> IncrementalAlterConfigsRequest:
    """Settings of the group, so that assignments do not wait."""
    every = {"assignment.interval.ms": 0, "initial.rebalance.delay.ms": 0}
    every |= {name.replace("_", "."): value for name, value in values.items()}
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=GROUP_RESOURCE,
                resource_name=world.name(group),
                configs=[
                    AlterableConfig(name=f"streams.{name}", config_operation=0, value=str(value))
                    for name, value in every.items()
                ],
            )
            for group in ("g", "probe")
        ]
    )


def prepared(world: World, *words: str, **values: int) -> Story:
    """Sets the group up, and waits until the coordinator knows its settings and these topics."""
    ready(world)
    yield settings(world, **values)
    know(world, *words)


def know(world: World, *words: str) -> None:
    """A group that probes is assigned; how many heartbeats it takes is not to be compared."""
    sources = [world.name(word) for word in words or ("t",)]
    probe = Topology(epoch=0, subtopologies=[subtopology(world, source_topics=sources)])
    group = world.name("probe")
    for _ in range(2_000):
        answer = world.peer.ask(beat(world, group_id=group, topology=probe), 0)
        if answer.error_code == Errors.NONE and not answer.status:
            break
    else:
        raise AssertionError(f"{world.peer.name} did not learn of the topics")
    world.peer.ask(beat(world, epoch=-1, group_id=group), 0)
    world.peer.ask(DeleteGroupsRequest(groups_names=[group]), 2)


def info(name: str, partitions: int = 0) -> TopicInfo:
    return TopicInfo(name=name, partitions=partitions, topic_configs=[])


def subtopology(world: World, name: str = "0", **fields: Any) -> Subtopology:
    every: dict[str, Any] = {
        "source_topics": [world.name()],
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return Subtopology(subtopology_id=name, **(every | fields))


def tasks(*numbers: int) -> list[TaskIds]:
    return [TaskIds(subtopology_id="0", partitions=list(numbers))] if numbers else []


def beat(world: World, member: str = "m", epoch: int = 0, **fields: Any) -> Any:
    if epoch == 0:
        fields.setdefault("topology", Topology(epoch=0, subtopologies=[subtopology(world)]))
        fields.setdefault("rebalance_timeout_ms", 10_000)
        fields.setdefault("process_id", f"p-{member}")
    if epoch >= 0:
        for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
            fields.setdefault(kind, [])
    return StreamsGroupHeartbeatRequest(
        group_id=fields.pop("group_id", world.name("g")),
        member_id=member,
        member_epoch=epoch,
        endpoint_information_epoch=fields.pop("endpoints", -1),
        **fields,
    )


def describe(world: World, *words: str) -> Any:
    names = [world.name(one) for one in words or ("g",)]
    return StreamsGroupDescribeRequest(group_ids=names)


def stored(world: World) -> Compare:
    """The records of the group in the offsets topic, byte by byte, but for what must differ."""
    answer = world.peer.ask(MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)]), 9)
    number = partition_for(world.name("g"), len(answer.topics[0].partitions))
    wanted = FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 24)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 24,
        topics=[FetchTopic(topic=OFFSETS, partitions=[wanted])],
        forgotten_topics_data=[],
    )
    (topic,) = world.peer.ask(request, 12).responses
    found = []
    for batch in iter_batches(bytes(topic.partitions[0].records)):
        for record in iter_records(batch):
            key, value = bytes(record.key or b""), record.value and bytes(record.value)
            read = RECORD_TYPES.decode(key, value)
            if read is None or getattr(read[0], "group_id", None) != world.name("g"):
                continue
            message = read[1]
            again = None if message is None else NewRecord(read[0], message).encode()[1]
            assert again == value
            for name in ("metadata_hash", "assignment_timestamp"):
                if hasattr(message, name):
                    setattr(message, name, 0)
            masked = None if message is None else NewRecord(read[0], message).encode()[1]
            found.append((key.hex(), None if masked is None else masked.hex()))
    assert found
    return Compare(found)


def until_made(world: World, epoch: int) -> None:
    """Heartbeats until internal topics are there; how many it takes is not to be compared."""
    for _ in range(2_000):
        answer = world.peer.ask(beat(world, epoch=epoch), 0)
        if answer.error_code == Errors.NONE and not answer.status:
            return
    raise AssertionError(f"{world.peer.name} did not make the internal topics")


@case(BEAT, "requests that make no sense")
def _(world: World) -> Story:
    ready(world)
    yield beat(world, "")
    yield beat(world, group_id="")
    yield beat(world, rack_id="")
    yield beat(world, instance_id="i")
    yield beat(world, rebalance_timeout_ms=-1)
    yield beat(world, topology=None)
    yield beat(world, active_tasks=tasks(0))
    yield beat(world, warmup_tasks=tasks(0))
    yield beat(world, epoch=1, active_tasks=None)
    yield beat(world, epoch=1, topology=Topology(epoch=0, subtopologies=[]))
    yield beat(world, epoch=-2)
    yield beat(world, epoch=-3)
    yield beat(world, epoch=3)
    yield beat(world, epoch=-1)
    offset = TaskOffset(subtopology_id="0", partition=0, offset=1)
    yield beat(world, epoch=1, task_offsets=[offset])
    yield beat(world, epoch=1, task_end_offsets=[offset])


@case(BEAT, "topologies that are refused")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    ready(world)
    loop = {"source_topics": [], "repartition_source_topics": [info("r")]}
    group = CopartitionGroup(source_topics=[3], source_topic_regex=[], repartition_source_topics=[])
    refused: list[dict[str, Any]] = [
        {"source_topic_regex": ["t.*"]},
        {"state_changelog_topics": [info("c", 3)]},
        {"source_topics": ["__consumer_offsets"]},
        {"source_topics": ["no such name"]},
        {"source_topics": []},
        loop,
        loop | {"repartition_sink_topics": ["r"]},
        {"copartition_groups": [group]},
    ]
    for fields in refused:
        one = subtopology(world, **fields)
        yield beat(world, topology=Topology(epoch=0, subtopologies=[one]))
    yield beat(world, topology=Topology(epoch=-1, subtopologies=[subtopology(world)]))
    twice = [subtopology(world), subtopology(world)]
    yield beat(world, topology=Topology(epoch=0, subtopologies=twice))


@case(BEAT, "join, stay, move tasks and leave")
def _(world: World) -> Story:
    yield from create(world, partitions=4)
    yield from prepared(world)
    yield beat(world, rack_id="r")
    yield beat(world, epoch=2, active_tasks=tasks(0, 1, 2, 3))
    yield beat(world, "second")
    yield describe(world)
    yield beat(world, epoch=2, active_tasks=tasks(0, 1, 2, 3))
    yield beat(world, "second", 3)
    yield beat(world, epoch=2, active_tasks=tasks(0, 1))
    yield beat(world, "second", 3)
    yield describe(world)
    yield beat(world, epoch=9)
    yield beat(world, epoch=2, active_tasks=tasks(0, 1))
    yield beat(world, epoch=2, active_tasks=tasks(3))
    yield beat(world, epoch=3, active_tasks=tasks(9))
    yield beat(world, "other", 3)
    yield beat(world, epoch=-1)
    yield beat(world, "second", 3, active_tasks=tasks(2, 3))
    yield describe(world)
    yield beat(world, "second", -1)
    yield describe(world)
    yield DeleteGroupsRequest(groups_names=[world.name("g")])
    yield stored(world)


@case(BEAT, "source topics that are missing, and the delays of assignments")
def _(world: World) -> Story:
    ready(world)
    yield beat(world)
    yield beat(world, epoch=1)
    yield describe(world)
    yield beat(world, "second")
    yield beat(world, epoch=-1)
    yield beat(world, "second", -1)


@case(BEAT, "topics that do not fit each other")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    yield from create(world, "u", partitions=3)
    yield from prepared(world, "t", "u")
    both = CopartitionGroup(
        source_topics=[0, 1], source_topic_regex=[], repartition_source_topics=[]
    )
    one = subtopology(
        world, source_topics=[world.name(), world.name("u")], copartition_groups=[both]
    )
    yield beat(world, topology=Topology(epoch=3, subtopologies=[one]))
    yield beat(world, "stale", topology=Topology(epoch=2, subtopologies=[one]))
    yield beat(world, "newer", topology=Topology(epoch=4, subtopologies=[one]))
    yield describe(world)


@case(BEAT, "internal topics and standbys")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    yield from prepared(world, num_standby_replicas=1)
    topology = Topology(
        epoch=0,
        subtopologies=[
            subtopology(
                world,
                state_changelog_topics=[info(world.name("c"))],
                repartition_sink_topics=[world.name("r")],
            ),
            subtopology(
                world, "1", source_topics=[], repartition_source_topics=[info(world.name("r"))]
            ),
        ],
    )
    yield beat(world, topology=topology)
    until_made(world, epoch=2)
    yield describe(world)
    yield beat(world, "second", topology=topology)
    yield describe(world)
    yield beat(world, epoch=-1)
    yield beat(world, "second", 3)
    yield beat(world, "second", 4)


@case(BEAT, "endpoints, tags and a shutdown")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    yield from prepared(world)
    tag = KeyValue(key="zone", value="z")
    yield beat(world, user_endpoint=Endpoint(host="h", port=1), client_tags=[tag])
    yield beat(world, epoch=2, active_tasks=tasks(0, 1), endpoints=0)
    yield beat(world, "second", user_endpoint=Endpoint(host="h", port=2))
    yield beat(world, "second", 3, endpoints=0)
    yield beat(world, "second", 3, endpoints=9, shutdown_application=True)
    yield beat(world, epoch=2, active_tasks=tasks(0, 1))
    yield beat(world, "second", -1)
    yield describe(world)
    yield stored(world)


@case(ApiKey.STREAMS_GROUP_DESCRIBE, "groups that are there, and that are not")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    yield from prepared(world)
    yield beat(world)
    yield describe(world, "g", "absent")
    yield StreamsGroupDescribeRequest(group_ids=["", world.name("g")])
    yield StreamsGroupDescribeRequest(
        group_ids=[world.name("g")], include_authorized_operations=True
    )


@case(ApiKey.STREAMS_GROUP_DESCRIBE, "offsets, lists and the end of a group")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    yield from prepared(world)
    yield beat(world)
    for epoch in (2, 1, 3):
        yield Ask(
            OffsetCommitRequest(
                group_id=world.name("g"),
                generation_id_or_member_epoch=epoch,
                member_id="m",
                topics=[
                    OffsetCommitRequestTopic(
                        name=world.name(),
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
                        ],
                    )
                ],
            ),
            9,
        )
    delete = DeleteGroupsRequest(groups_names=[world.name("g")])
    yield delete
    yield beat(world, epoch=-1)
    yield delete
    yield describe(world)
    yield ListGroupsRequest(types_filter=["streams"], states_filter=["Dead"])
