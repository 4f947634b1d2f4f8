"""Reassignments: a partition moves to other brokers.

The target replicas come first in the list of replicas, the removing ones after them, until all
adding ones are in sync: then the partition change of that moment completes the reassignment
(`kaa.controller.partition_change`). A cancelled one goes back to the replicas it came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.assignments import check_assignment
from kaa.controller.partition_change import Election, PartitionChange
from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.limits import RECORDS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.controller.image import ClusterImage, PartitionImage, TopicImage
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k45_alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from kaa.wire.messages.k46_list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
    )
    from kaa.wire.messages.metadata_topics import PartitionChangeRecord
    from kaa.wire.schema import MetadataRecord


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[AlterPartitionReassignmentsResponse]]:
    may_change_factor = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor,
        # A request for nothing is answered before anybody looks at it.
        error_message=None if request.topics else "",
        responses=[],
    )
    records: list[MetadataRecord] = []
    count = 0
    for topic in request.topics:
        answers = ReassignableTopicResponse(name=topic.name, partitions=[])
        response.responses.append(answers)
        count += 1
        if count % RECORDS_PER_PIECE == 0:
            yield
        for wanted in topic.partitions:
            count += 1
            if count % RECORDS_PER_PIECE == 0:
                yield
            error, message = Errors.NONE, None
            try:
                record = _alter(state, topic.name, wanted, may_change_factor=may_change_factor)
                if record is not None:
                    records.append(record)
            except ControllerError as problem:
                error, message = problem.error, problem.message
            answers.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=error,
                    error_message=message,
                )
            )
    check_record_count(records)
    return ControllerResult(records, response)


def _alter(
    state: ControllerState, name: str, wanted: ReassignablePartition, *, may_change_factor: bool
) -> PartitionChangeRecord | None:
    topic = state.image.topics.get(name)
    if topic is None:
        raise ControllerError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    number = wanted.partition_index
    partition = topic.partitions.get(number)
    if partition is None:
        raise ControllerError(
            Errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}"
        )
    if wanted.replicas is None:
        return _cancel(state, topic, number, partition)
    check_assignment(state, wanted.replicas, None)
    if not may_change_factor:
        _check_factor(partition, wanted.replicas)
    change = PartitionChange(state, topic, number)
    removing = sorted(set(partition.replicas) - set(wanted.replicas))
    adding = sorted(set(wanted.replicas) - set(partition.replicas))
    change.replicas = [*wanted.replicas, *removing]
    change.removing = removing or change.removing
    change.adding = adding or change.adding
    return change.record()


def _check_factor(partition: PartitionImage, replicas: list[int]) -> None:
    target = {*partition.replicas, *partition.adding_replicas} - set(partition.removing_replicas)
    if len(target) != len(replicas):
        raise ControllerError(
            Errors.INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(target)} to {len(replicas)}",
        )


def _cancel(
    state: ControllerState, topic: TopicImage, number: int, partition: PartitionImage
) -> PartitionChangeRecord | None:
    if not is_reassigning(partition):
        raise ControllerError(Errors.NO_REASSIGNMENT_IN_PROGRESS, is_silent=True)
    adding = set(partition.adding_replicas)
    replicas = [replica for replica in partition.replicas if replica not in adding]
    isr = [replica for replica in partition.isr if replica not in adding]
    may_be_unclean = state.is_unclean_election_enabled(topic.name)
    if not isr:
        if not replicas:
            raise ControllerError(
                Errors.INVALID_REPLICA_ASSIGNMENT, "every replica is still being added"
            )
        if not may_be_unclean:
            raise ControllerError(
                Errors.INVALID_REPLICA_ASSIGNMENT,
                f"going back would need an unclean election of {topic.name}-{number}",
            )
        isr = [replicas[0]]
    change = PartitionChange(state, topic, number)
    if may_be_unclean:
        change.election = Election.UNCLEAN
    change.isr, change.replicas, change.removing, change.adding = isr, replicas, [], []
    return change.record()


def is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.removing_replicas or partition.adding_replicas)


def list_partition_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> Pieces[ListPartitionReassignmentsResponse]:
    """A read: the image is the committed one."""
    response = ListPartitionReassignmentsResponse(error_message=None, topics=[])
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        wanted = [(topic.name, topic.partitions) for topic in image.topics.values()]
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    for count, (name, numbers) in enumerate(wanted, 1):
        if count % RECORDS_PER_PIECE == 0:
            yield
        topic = image.topics.get(name)
        ongoing = [] if topic is None else list(_ongoing(topic, numbers))
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return response


def _ongoing(topic: TopicImage, numbers: Iterable[int]) -> Iterable[OngoingPartitionReassignment]:
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is not None and is_reassigning(partition):
            yield OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
