"""More partitions for a topic."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kaa.controller.image_records import partition_record
from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.controller.topics import assigned_partition, placed_partitions
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.model.words import count_text
from kaa.wire.errors import Errors
from kaa.wire.messages.k37_create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Sized

    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k37_create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )
    from kaa.wire.schema import MetadataRecord


def create_partitions(
    state: ControllerState, request: CreatePartitionsRequest, context: ControllerRequestContext
) -> Pieces[ControllerResult[CreatePartitionsResponse]]:
    response = CreatePartitionsResponse(results=[])
    records: list[MetadataRecord] = []
    names = Counter(topic.name for topic in request.topics)
    repeated = {name for name, count in names.items() if count > 1}
    response.results += [
        CreatePartitionsTopicResult(
            name=name,
            error_code=Errors.INVALID_REQUEST,
            error_message="the topic is named twice",
        )
        for name in names
        if name in repeated
    ]
    for number, topic in enumerate(request.topics, 1):
        if number % RECORDS_PER_PIECE == 0:
            yield
        if topic.name in repeated:
            continue
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            records += yield from _create(state, topic, context, records)
        except ControllerError as problem:
            result.error_code, result.error_message = problem.error, problem.message
        response.results.append(result)
    return ControllerResult([] if request.validate_only else records, response)


def _create(
    state: ControllerState,
    topic: CreatePartitionsTopic,
    context: ControllerRequestContext,
    others: Sized,
) -> Pieces[list[MetadataRecord]]:
    """The records of a topic, beside those of others in the request."""
    image = state.image.topics.get(topic.name)
    if image is None:
        raise ControllerError(Errors.UNKNOWN_TOPIC_OR_PARTITION, is_silent=True)
    count = len(image.partitions)
    if topic.count <= count:
        raise ControllerError(
            Errors.INVALID_PARTITIONS,
            f"topic {topic.name} already has {count_text(count, 'partition')}; "
            f"{topic.count} would add none",
        )
    additional = topic.count - count
    if topic.assignments is not None and len(topic.assignments) != additional:
        raise ControllerError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"{len(topic.assignments)} of {additional} new partitions have an assignment",
        )
    context.charge(additional)
    # Before they are made: a count may be as large as an int32.
    check_record_count(others, range(additional))
    replication_factor = len(next(iter(image.partitions.values())).replicas)
    if topic.assignments is None:
        partitions = yield from placed_partitions(state, additional, replication_factor)
    else:
        partitions = yield from mapped(
            lambda each: assigned_partition(state, each[0], each[1].broker_ids, replication_factor),
            enumerate(topic.assignments, count),
        )
    topic_id = image.id
    records: list[MetadataRecord] = []
    records += yield from mapped(
        lambda each: partition_record(topic_id, *each), enumerate(partitions, count)
    )
    return records
