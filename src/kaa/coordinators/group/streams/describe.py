"""Streams groups as administrators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.java_order import java_string_order, map_order, string_hash
from kaa.coordinators.group.modern.describe import describe_one
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.member import Tasks
from kaa.model.pieces import mapped
from kaa.wire.messages.k89_streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.kinds import Group
    from kaa.coordinators.group.streams.member import OwnedTasks, StreamsMember
    from kaa.coordinators.group.streams.topology import (
        ConfiguredTopology,
        InternalTopic,
        StreamsTopology,
    )
    from kaa.coordinators.timeline import TimelineDict
    from kaa.model.pieces import Pieces
    from kaa.wire.messages import offsets_streams as stored


def describe_streams_group(
    groups: TimelineDict[str, Group], group_id: str
) -> Pieces[DescribedGroup]:
    """Committed state; a group of another kind is refused."""
    return describe_one(groups, group_id, StreamsGroup, _describe, DescribedGroup)


def _describe(group: StreamsGroup) -> Pieces[DescribedGroup]:
    epochs = group.committed_epochs
    topology, configured = group.committed_topology, group.configured
    shown = None if topology is None else _stored_topology(topology)
    if topology is not None and configured is not None and configured.is_ready:
        shown = _configured_topology(configured)
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.shown_state,
        group_epoch=epochs.group_epoch,
        assignment_epoch=epochs.assignment_epoch,
        topology=shown,
    )
    described.members = yield from mapped(
        lambda one: _member(*one),
        [
            (member, group.targets.committed(member_id) or Tasks())
            for member_id, member in group.members.committed_items()
        ],
    )
    return described


def _configured_topology(topology: ConfiguredTopology) -> Topology:
    """With the numbers of partitions that internal topics have."""
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                source_topics=_sorted(one.source_topics),
                repartition_sink_topics=_sorted(one.repartition_sink_topics),
                repartition_source_topics=_internal(one.repartition_source_topics),
                state_changelog_topics=_internal(one.state_changelog_topics),
            )
            for name, one in (topology.subtopologies or {}).items()
        ],
    )


def _internal(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=name,
            partitions=topics[name].partitions,
            replication_factor=topics[name].replication_factor,
            topic_configs=[
                KeyValue(key=key, value=topics[name].configs[key])
                for key in map_order(topics[name].configs, string_hash)
            ],
        )
        for name in _sorted(topics)
    ]


def _stored_topology(topology: StreamsTopology) -> Topology:
    by_id = topology.subtopologies
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                source_topics=_sorted(by_id[name].source_topics),
                repartition_sink_topics=_sorted(by_id[name].repartition_sink_topics),
                repartition_source_topics=_stored(by_id[name].repartition_source_topics),
                state_changelog_topics=_stored(by_id[name].state_changelog_topics),
            )
            for name in _sorted(by_id)
        ],
    )


def _stored(topics: Iterable[stored.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=one.key, value=one.value) for one in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda one: java_string_order(one.name))
    ]


def _member(member: StreamsMember, target: Tasks) -> Member:
    endpoint = member.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=(
            None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=[
            KeyValue(key=key, value=member.client_tags[key])
            for key in map_order(member.client_tags, string_hash)
        ],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: Tasks | OwnedTasks) -> Assignment:
    return Assignment(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in _sorted(tasks)]


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, key=java_string_order)
