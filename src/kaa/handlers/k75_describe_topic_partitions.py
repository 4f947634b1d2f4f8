"""DescribeTopicPartitions, key 75: topics with their partitions, page by page (KIP-966).

Topics come in the order of their names. An answer has at most as many partitions as the client
wants and `max.request.partition.size.limit` allows; the cursor says where the next one starts, and
is sent back to get it. No list of topics means all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.names import topic_name_problem
from kaa.handlers import authorized_operations
from kaa.handlers.in_slices import begun_at_once
from kaa.limits import METADATA_PARTITIONS_PER_SLICE_MAX
from kaa.model.pieces import in_order, mapped
from kaa.model.topics import INTERNAL_TOPICS
from kaa.serving.metadata_view import offline_replicas, visible_leader
from kaa.wire.errors import Errors
from kaa.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.controller.image import PartitionImage, TopicImage
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k75_describe_topic_partitions import DescribeTopicPartitionsRequest


def handle(
    services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Answer[DescribeTopicPartitionsResponse]:
    return begun_at_once(_answer(services, request, context))


def _answer(
    services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Pieces[DescribeTopicPartitionsResponse]:
    asked = [topic.name for topic in request.topics]
    cursor = request.cursor
    if cursor is not None:
        is_elsewhere = bool(asked) and cursor.topic_name not in asked
        if is_elsewhere or cursor.partition_index < 0:
            return (yield from _refused(request, Errors.INVALID_REQUEST))
    first_name = "" if cursor is None else cursor.topic_name
    if not first_name and "" in asked:
        # Kafka fails on it, after everything else went well.
        return (yield from _refused(request, Errors.UNKNOWN_SERVER_ERROR))
    names = yield from in_order(
        name for name in asked or list(services.image.topics) if name >= first_name
    )
    limit = services.config.get_int("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    spent = 0
    for part in _page(services, response, names, cursor, room):
        spent += 1 + len(part.numbers)
        if spent > METADATA_PARTITIONS_PER_SLICE_MAX:
            spent = 1 + len(part.numbers)
            yield
        response.topics.append((yield from _described(services, context, part)))
    return response


class _Part(NamedTuple):
    """What of a topic is on a page; no topic if there is none of that name."""

    name: str
    topic: TopicImage | None
    numbers: range


def _page(
    services: Services,
    response: DescribeTopicPartitionsResponse,
    names: Iterable[str],
    cursor: Cursor | None,
    room: int,
) -> Iterator[_Part]:
    """The topics that fit the response, one after the other; at the end it gets a cursor where the
    next one goes on.
    """
    for name in names:
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            return
        topic = services.image.topics.get(name)
        if topic is None:
            yield _Part(name, None, range(0))
            continue
        start = cursor.partition_index if cursor and cursor.topic_name == name else 0
        end = min(start + room, len(topic.partitions))
        yield _Part(name, topic, range(start, end))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            return
        room -= max(end - start, 0)


def _described(
    services: Services, context: RequestContext, part: _Part
) -> Pieces[DescribeTopicPartitionsResponseTopic]:
    topic = part.topic
    if topic is None:
        return _unknown(part.name)
    images = topic.partitions
    partitions = yield from mapped(
        lambda number: _partition(services, context, number, images[number]), part.numbers
    )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=authorized_operations.TOPIC,
    )


def _partition(
    services: Services, context: RequestContext, number: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    image, listener_name = services.image, context.listener_name
    return DescribeTopicPartitionsResponsePartition(
        partition_index=number,
        leader_id=visible_leader(image, partition, listener_name),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(image, partition, listener_name),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = topic_name_problem(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=(
            Errors.UNKNOWN_TOPIC_OR_PARTITION if is_legal else Errors.INVALID_TOPIC_EXCEPTION
        ),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations.TOPIC,
    )


def _refused(
    request: DescribeTopicPartitionsRequest, error: Errors
) -> Pieces[DescribeTopicPartitionsResponse]:
    topics = yield from mapped(
        lambda topic: DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name),
        request.topics,
    )
    return DescribeTopicPartitionsResponse(topics=topics)
