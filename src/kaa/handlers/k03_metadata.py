"""Metadata, key 3: brokers, topics and partitions, as clients need them to find leaders.

A null list asks for all topics (version 0: an empty one). Topics that do not exist are created if
the request and the settings allow it, and are then reported as having no leader yet, as Kafka
reports them.

| version | |
|---|---|
| 4 | the client may forbid creation |
| 5 | offline replicas |
| 7 | leader epochs |
| 8 | authorized operations, which need an authorizer |
| 10 | topic ids |
| 12 | topics may be asked for by id (KIP-516) |
| 13 | an error of the whole answer (KIP-1102) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from kaa.controller.image import NO_LEADER
from kaa.handlers import authorized_operations
from kaa.handlers.in_slices import in_slices_and_pieces
from kaa.limits import METADATA_PARTITIONS_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.net.pending import Pending
from kaa.serving.metadata_view import controller_for_clients, offline_replicas, visible_leader
from kaa.serving.turns import in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.image import ClusterImage, PartitionImage, TopicImage
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
    from kaa.wire.schema import Response

Item = TypeVar("Item")

_TOPIC_IDS_VERSION: Final = 12
# Before it a leader without the client's listener counts as no leader.
_LISTENER_ERROR_VERSION: Final = 6


def handle(
    services: Services, request: MetadataRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    version = context.api_version
    wanted = request.topics
    if wanted is None or (version == 0 and not wanted):
        return _in_slices(
            services,
            request,
            context,
            list(services.image.topics.values()),
            lambda topic: _topic(services, request, context, topic),
            lambda topic: len(topic.partitions),
        )
    if any(topic.name is None and topic.topic_id == UUID_ZERO for topic in wanted):
        return _failed(wanted)
    wanted = request.topics = _distinct(wanted)
    missing = _missing(services, wanted)
    if missing and request.allow_auto_topic_creation and services.auto_create_topics:
        return Pending(_create(services, request, context, missing))
    return _in_slices(
        services,
        request,
        context,
        wanted,
        lambda topic: _asked(services, request, context, topic, {}),
        lambda topic: _partition_count(services.image, topic),
    )


def _in_slices(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    items: list[Item],
    make: Callable[[Item], Pieces[MetadataResponseTopic]],
    partition_count: Callable[[Item], int],
) -> Answer[Response | Encoded]:
    return in_slices_and_pieces(
        services,
        context,
        items,
        make,
        lambda topics: _response(services, request, context, topics),
        slice_max=METADATA_PARTITIONS_PER_SLICE_MAX,
        cost=lambda item: 1 + partition_count(item),
    )


def _partition_count(image: ClusterImage, wanted: MetadataRequestTopic) -> int:
    topic = image.topics.get(wanted.name or "") or image.topics_by_id.get(wanted.topic_id)
    return 0 if topic is None else len(topic.partitions)


def _failed(wanted: list[MetadataRequestTopic]) -> MetadataResponse:
    """Kafka fails on a topic without name and id, and with it on the whole request."""
    error = Errors.UNKNOWN_SERVER_ERROR
    return MetadataResponse(
        error_code=error,
        topics=[
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in wanted
        ],
    )


def _distinct(wanted: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Each topic once; where there are ids, names do not count."""
    by_id = {topic.topic_id: topic for topic in wanted if topic.topic_id != UUID_ZERO}
    return list(by_id.values() or {topic.name: topic for topic in wanted}.values())


async def _create(
    services: Services, request: MetadataRequest, context: RequestContext, missing: list[str]
) -> MetadataResponse:
    errors = await services.topic_creation.create(missing)
    topics = [
        await in_turns(_asked(services, request, context, topic, errors))
        for topic in request.topics or ()
    ]
    return _response(services, request, context, topics)


def _missing(services: Services, wanted: list[MetadataRequestTopic]) -> list[str]:
    return [
        topic.name
        for topic in wanted
        if topic.name is not None
        and topic.topic_id == UUID_ZERO
        and topic.name not in services.image.topics
    ]


def _asked(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    wanted: MetadataRequestTopic,
    creation_errors: dict[str, Errors],
) -> Pieces[MetadataResponseTopic]:
    """One topic of the request; `creation_errors` are of topics that were just asked for."""
    if wanted.topic_id != UUID_ZERO:
        found = services.image.topics_by_id.get(wanted.topic_id)
        if found is None:
            return MetadataResponseTopic(
                error_code=Errors.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
        return (yield from _topic(services, request, context, found))
    name = wanted.name or ""
    found = services.image.topics.get(name)
    if found is not None and creation_errors.get(name) is not Errors.LEADER_NOT_AVAILABLE:
        return (yield from _topic(services, request, context, found))
    error = creation_errors.get(name, services.topic_creation.name_error(name))
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=services.replicas.is_internal(name),
        topic_authorized_operations=_operations(request),
    )


def _topic(
    services: Services, request: MetadataRequest, context: RequestContext, topic: TopicImage
) -> Pieces[MetadataResponseTopic]:
    image = services.image
    partitions = yield from mapped(
        lambda one: _partition(image, *one, context), sorted(topic.partitions.items())
    )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=services.replicas.is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=_operations(request),
    )


def _operations(request: MetadataRequest) -> int:
    wanted = request.include_topic_authorized_operations
    return authorized_operations.TOPIC if wanted else authorized_operations.NOT_ASKED


def _partition(
    image: ClusterImage, number: int, partition: PartitionImage, context: RequestContext
) -> MetadataResponsePartition:
    listener_name = context.listener_name
    leader = visible_leader(image, partition, listener_name)
    error = Errors.NONE
    if leader == NO_LEADER:
        is_elsewhere = partition.leader in image.brokers
        tells_listener = context.api_version >= _LISTENER_ERROR_VERSION
        error = (
            Errors.LISTENER_NOT_FOUND
            if is_elsewhere and tells_listener
            else Errors.LEADER_NOT_AVAILABLE
        )
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(image, partition, listener_name),
    )


def _response(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    topics: list[MetadataResponseTopic],
) -> MetadataResponse:
    if context.api_version < _TOPIC_IDS_VERSION:
        topics = [topic for topic in topics if topic.name is not None]
    brokers = []
    for broker in services.image.brokers.values():
        endpoint = broker.endpoint(context.listener_name)
        if endpoint is not None and not broker.is_fenced:
            brokers.append(
                MetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    return MetadataResponse(
        brokers=brokers,
        cluster_id=services.cluster_id,
        controller_id=controller_for_clients(
            services.node_id, [broker.node_id for broker in brokers]
        ),
        topics=topics,
        cluster_authorized_operations=(
            authorized_operations.CLUSTER
            if request.include_cluster_authorized_operations
            else authorized_operations.NOT_ASKED
        ),
    )
