"""StreamsGroupDescribe, key 89: streams groups with their topology, members and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.java_order import java_string_order, map_order, string_hash
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.member import Tasks
from kaa.handlers.described_groups import describe_groups, of_kind, unsupported_groups
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k89_streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.streams.member import OwnedTasks, StreamsMember
    from kaa.coordinators.group.streams.topology import (
        ConfiguredTopology,
        InternalTopic,
        StreamsTopology,
    )
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages import offsets_streams as stored
    from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest


def handle(
    services: Services, request: StreamsGroupDescribeRequest, _: RequestContext
) -> Answer[StreamsGroupDescribeResponse]:
    if not services.has_streams_groups:
        message = Errors.UNSUPPORTED_VERSION.message
        return unsupported_groups(
            request.group_ids, DescribedGroup, StreamsGroupDescribeResponse, error_message=message
        )
    return describe_groups(
        services.groups,
        request.group_ids,
        of_kind(StreamsGroup, describe, DescribedGroup),
        DescribedGroup,
        StreamsGroupDescribeResponse,
        with_operations=request.include_authorized_operations,
        allows_empty_id=False,
    )


def describe(group: StreamsGroup) -> Pieces[DescribedGroup]:
    epochs = group.committed_epochs
    topology, configured = group.committed_topology, group.configured
    shown = None
    if topology is not None and configured is not None and configured.is_ready:
        shown = yield from _configured_topology(configured)
    elif topology is not None:
        shown = yield from _stored_topology(topology)
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.shown_state,
        group_epoch=epochs.group_epoch,
        assignment_epoch=epochs.assignment_epoch,
        topology=shown,
    )
    described.members = []
    for member_id, member in list(group.members.committed_items()):
        target = group.targets.committed(member_id) or Tasks()
        described.members.append((yield from _member(member, target)))
        if len(described.members) % RECORDS_PER_PIECE == 0:
            yield
    return described


def _configured_topology(topology: ConfiguredTopology) -> Pieces[Topology]:
    """With the numbers of partitions that internal topics have."""
    by_id = topology.subtopologies or {}
    subtopologies = yield from mapped(
        lambda name: Subtopology(
            subtopology_id=name,
            source_topics=_sorted(by_id[name].source_topics),
            repartition_sink_topics=_sorted(by_id[name].repartition_sink_topics),
            repartition_source_topics=_internal(by_id[name].repartition_source_topics),
            state_changelog_topics=_internal(by_id[name].state_changelog_topics),
        ),
        by_id,
    )
    return Topology(epoch=topology.epoch, subtopologies=subtopologies)


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


def _stored_topology(topology: StreamsTopology) -> Pieces[Topology]:
    by_id = topology.subtopologies
    subtopologies = yield from mapped(
        lambda name: Subtopology(
            subtopology_id=name,
            source_topics=_sorted(by_id[name].source_topics),
            repartition_sink_topics=_sorted(by_id[name].repartition_sink_topics),
            repartition_source_topics=_stored(by_id[name].repartition_source_topics),
            state_changelog_topics=_stored(by_id[name].state_changelog_topics),
        ),
        _sorted(by_id),
    )
    return Topology(epoch=topology.epoch, subtopologies=subtopologies)


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


def _member(member: StreamsMember, target: Tasks) -> Pieces[Member]:
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
        assignment=(yield from _assignment(member.assigned)),
        target_assignment=(yield from _assignment(target)),
    )


def _assignment(tasks: Tasks | OwnedTasks) -> Pieces[Assignment]:
    return Assignment(
        active_tasks=(yield from _task_ids(tasks.active)),
        standby_tasks=(yield from _task_ids(tasks.standby)),
        warmup_tasks=(yield from _task_ids(tasks.warmup)),
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> Pieces[list[TaskIds]]:
    return mapped(
        lambda name: TaskIds(subtopology_id=name, partitions=sorted(tasks[name])), _sorted(tasks)
    )


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, key=java_string_order)
