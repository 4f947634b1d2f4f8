"""Metadata, key 3: brokers, topics and partitions, as clients need them to find leaders.

A null list asks for all topics (version 0: an empty one). Topics that do not exist are created if
the request and the settings allow it, and are then reported as having no leader yet, as Kafka
reports them. Other answers are kept for the next who asks (`serving/metadata_answers`).

| version | what is new |
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

from kaa.handlers import authorized_operations
from kaa.handlers.context import response_of
from kaa.handlers.in_slices import begun_at_once, in_slices_and_pieces
from kaa.limits import (
    METADATA_PARTITIONS_PER_SLICE_MAX,
    METADATA_QUESTION_TOPICS_MAX,
    NAMES_ANSWERED_PER_SLICE_MAX,
)
from kaa.model.nodes import NO_LEADER
from kaa.model.pieces import finish, mapped
from kaa.model.topics import INTERNAL_TOPICS
from kaa.model.turns import in_turns
from kaa.net.pending import Pending
from kaa.serving.metadata_view import controller_for_clients, offline_replicas, visible_leader
from kaa.wire.errors import Errors
from kaa.wire.frames import EncodedResponse
from kaa.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kaa.controller.image import ClusterImage, PartitionImage, TopicImage
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.codec import Codec
    from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
    from kaa.wire.primitives import Uuid

Item = TypeVar("Item")

_TOPIC_IDS_VERSION: Final = 12
# Before it a leader without the client's listener counts as no leader.
_LISTENER_ERROR_VERSION: Final = 6


def handle(
    services: Services, request: MetadataRequest, context: RequestContext
) -> Answer[MetadataResponse | EncodedResponse]:
    wanted = request.topics
    if wanted is not None and len(wanted) > METADATA_QUESTION_TOPICS_MAX:
        return Pending(_about_many(services, request, context, wanted))
    kept = services.metadata_answers.current()
    question = _question(request, context)
    found = kept.get(question)
    if found is not None:
        return EncodedResponse(MetadataResponse.codec(context.api_version), found)
    if wanted is None or (context.api_version == 0 and not wanted):
        made = _all(services, request, context)
    elif any(_is_nameless(topic) for topic in wanted):
        return begun_at_once(_failed(wanted))
    else:
        wanted = request.topics = finish(_distinct(wanted))
        missing = finish(_missing(services, wanted))
        if missing and request.allow_auto_topic_creation and services.auto_create_topics:
            return Pending(_create(services, request, context, missing))
        made = _named(services, request, context, wanted, {})
        if missing:
            return made
    return _encoded(
        services,
        made,
        MetadataResponse.codec(context.api_version),
        lambda body: services.metadata_answers.keep(kept, question, body),
    )


async def _about_many(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    wanted: list[MetadataRequestTopic],
) -> Answer[MetadataResponse | EncodedResponse]:
    """The answer about more topics than it is kept for, made in turns from its first step."""
    if any(await in_turns(mapped(_is_nameless, wanted))):
        return begun_at_once(_failed(wanted))
    wanted = request.topics = await in_turns(_distinct(wanted))
    missing = await in_turns(_missing(services, wanted))
    if missing and request.allow_auto_topic_creation and services.auto_create_topics:
        return await _create(services, request, context, missing)
    return _named(services, request, context, wanted, {})


def _question(request: MetadataRequest, context: RequestContext) -> Hashable:
    """All that the answer depends on beside the image."""
    topics = request.topics
    return (
        context.listener_name,
        context.api_version,
        request.include_cluster_authorized_operations,
        request.include_topic_authorized_operations,
        None if topics is None else tuple([(topic.name, topic.topic_id) for topic in topics]),
    )


def _encoded(
    services: Services,
    made: Answer[MetadataResponse],
    codec: Codec,
    keep: Callable[[bytes], None],
) -> Answer[MetadataResponse | EncodedResponse]:
    """The answer as bytes, which are kept; those of a large one are written by a thread."""

    async def later() -> EncodedResponse:
        response = await response_of(made)
        assert response is not None
        body = await services.loop.run_in_executor(services.batch_work, codec.encode, response)
        keep(body)
        return EncodedResponse(codec, body)

    if not isinstance(made, MetadataResponse):
        return Pending(later())
    body = codec.encode(made)
    keep(body)
    return EncodedResponse(codec, body)


def _all(
    services: Services, request: MetadataRequest, context: RequestContext
) -> Answer[MetadataResponse]:
    return _in_slices(
        services,
        request,
        context,
        list(services.image.topics.values()),
        lambda topic: _topic(services, request, context, topic),
        lambda topic: len(topic.partitions),
    )


def _named(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    wanted: list[MetadataRequestTopic],
    creation_errors: dict[str, Errors],
) -> Answer[MetadataResponse]:
    return _in_slices(
        services,
        request,
        context,
        wanted,
        lambda topic: _asked(services, request, context, topic, creation_errors),
        lambda topic: _partition_count(services.image, topic),
    )


def _in_slices(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    items: list[Item],
    make: Callable[[Item], Pieces[MetadataResponseTopic]],
    partition_count: Callable[[Item], int],
) -> Answer[MetadataResponse]:
    return in_slices_and_pieces(
        items,
        make,
        lambda topics: _response(services, request, context, topics),
        slice_max=METADATA_PARTITIONS_PER_SLICE_MAX,
        cost=lambda item: 1 + partition_count(item),
    )


def _partition_count(image: ClusterImage, wanted: MetadataRequestTopic) -> int:
    topic = image.topics.get(wanted.name or "") or image.topics_by_id.get(wanted.topic_id)
    return 0 if topic is None else len(topic.partitions)


def _is_nameless(topic: MetadataRequestTopic) -> bool:
    return topic.name is None and topic.topic_id == UUID_ZERO


def _failed(wanted: list[MetadataRequestTopic]) -> Pieces[MetadataResponse]:
    """Kafka fails on a topic without name and id, and with it on the whole request."""
    error = Errors.UNKNOWN_SERVER_ERROR
    topics = yield from mapped(
        lambda topic: MetadataResponseTopic(
            error_code=error, name=topic.name or "", topic_id=topic.topic_id
        ),
        wanted,
    )
    return MetadataResponse(error_code=error, topics=topics)


def _distinct(wanted: list[MetadataRequestTopic]) -> Pieces[list[MetadataRequestTopic]]:
    """Each topic once; where there are ids, names do not count."""
    by_id: dict[Uuid, MetadataRequestTopic] = {}
    by_name: dict[str | None, MetadataRequestTopic] = {}
    for number, topic in enumerate(wanted, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if topic.topic_id != UUID_ZERO:
            by_id[topic.topic_id] = topic
        else:
            by_name[topic.name] = topic
    return list(by_id.values() or by_name.values())


async def _create(
    services: Services, request: MetadataRequest, context: RequestContext, missing: list[str]
) -> MetadataResponse:
    errors = await services.topic_creation.create(missing)
    response = await response_of(_named(services, request, context, request.topics or [], errors))
    assert response is not None
    return response


def _missing(services: Services, wanted: list[MetadataRequestTopic]) -> Pieces[list[str]]:
    missing = []
    for number, topic in enumerate(wanted, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        name = topic.name
        if name is not None and topic.topic_id == UUID_ZERO and name not in services.image.topics:
            missing.append(name)
    return missing


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
        is_internal=name in INTERNAL_TOPICS,
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
        is_internal=topic.name in INTERNAL_TOPICS,
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


def _brokers(services: Services, listener_name: str) -> list[MetadataResponseBroker]:
    """Those that are alive. The last one is fenced when it stops, and answers a moment longer: it
    names itself then. Clients that hear of no broker at all forget whom to ask.
    """
    known = services.image.brokers
    alive = [broker for broker in known.values() if not broker.is_fenced]
    brokers = []
    for broker in alive or [known[node] for node in (services.node_id,) if node in known]:
        endpoint = broker.endpoint(listener_name)
        if endpoint is not None:
            brokers.append(
                MetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    return brokers


def _response(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    topics: list[MetadataResponseTopic],
) -> MetadataResponse:
    if context.api_version < _TOPIC_IDS_VERSION:
        topics = [topic for topic in topics if topic.name is not None]
    brokers = _brokers(services, context.listener_name)
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
