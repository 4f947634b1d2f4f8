"""DescribeTopicPartitions, key 75: topics with their partitions, page by page (KIP-966).

Topics come in the order of their names. An answer has at most as many partitions as the client
wants and `max.request.partition.size.limit` allows; the cursor says where the next one starts, and
is sent back to get it. No list of topics means all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.names import topic_name_problem
from kaa.handlers import authorized_operations
from kaa.handlers.in_slices import in_slices_and_pieces
from kaa.limits import METADATA_PARTITIONS_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.serving.metadata_view import offline_replicas, visible_leader
from kaa.wire.errors import Errors
from kaa.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from kaa.controller.image import PartitionImage, TopicImage
    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k75_describe_topic_partitions import DescribeTopicPartitionsRequest
    from kaa.wire.schema import Response


def handle(
    services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None:
        is_elsewhere = bool(asked) and cursor.topic_name not in asked
        if is_elsewhere or cursor.partition_index < 0:
            return _refused(request, Errors.INVALID_REQUEST)
    first_name = "" if cursor is None else cursor.topic_name
    names = sorted(name for name in asked or services.image.topics if name >= first_name)
    if names and not names[0]:
        # Kafka fails on it, after everything else went well.
        return _refused(request, Errors.UNKNOWN_SERVER_ERROR)
    limit = services.config.get_int("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    page, next_cursor = _page(services, names, cursor, room)
    return in_slices_and_pieces(
        services,
        context,
        page,
        lambda part: _described(services, context, part),
        lambda topics: DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor),
        slice_max=METADATA_PARTITIONS_PER_SLICE_MAX,
        cost=lambda part: 1 + len(part.numbers),
    )


class _Part(NamedTuple):
    """What of a topic is on a page; no topic if there is none of that name."""

    name: str
    topic: TopicImage | None
    numbers: range


def _page(
    services: Services, names: list[str], cursor: Cursor | None, room: int
) -> tuple[list[_Part], Cursor | None]:
    """The topics that fit an answer, and where the next one goes on."""
    page: list[_Part] = []
    for name in names:
        if room == 0:
            return page, Cursor(topic_name=name, partition_index=0)
        topic = services.image.topics.get(name)
        if topic is None:
            page.append(_Part(name, None, range(0)))
            continue
        start = cursor.partition_index if cursor and cursor.topic_name == name else 0
        end = min(start + room, len(topic.partitions))
        page.append(_Part(name, topic, range(start, end)))
        if end < len(topic.partitions):
            return page, Cursor(topic_name=name, partition_index=end)
        room -= len(page[-1].numbers)
    return page, None


def _described(
    services: Services, context: RequestContext, part: _Part
) -> Pieces[DescribeTopicPartitionsResponseTopic]:
    topic = part.topic
    if topic is None:
        return _unknown(services, part.name)
    images = topic.partitions
    partitions = yield from mapped(
        lambda number: _partition(services, context, number, images[number]), part.numbers
    )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=services.replicas.is_internal(topic.name),
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


def _unknown(services: Services, name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = topic_name_problem(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=(
            Errors.UNKNOWN_TOPIC_OR_PARTITION if is_legal else Errors.INVALID_TOPIC_EXCEPTION
        ),
        name=name,
        is_internal=services.replicas.is_internal(name),
        topic_authorized_operations=authorized_operations.TOPIC,
    )


def _refused(
    request: DescribeTopicPartitionsRequest, error: Errors
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name)
            for topic in request.topics
        ]
    )
