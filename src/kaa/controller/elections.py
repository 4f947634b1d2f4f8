"""Elections that somebody asks for, or that a timer does."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kaa.controller.partition_change import Election, PartitionChange
from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.limits import METADATA_ELECTIONS_PER_PIECE, METADATA_ELECTIONS_PER_ROUND_MAX
from kaa.model.nodes import NO_LEADER
from kaa.wire.errors import Errors
from kaa.wire.messages.k43_elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaa.controller.image import TopicImage
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest
    from kaa.wire.schema import MetadataRecord


class ElectionType(IntEnum):
    """What is asked for, with Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    state: ControllerState, request: ElectLeadersRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[ElectLeadersResponse]]:
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        raise ControllerError(
            Errors.INVALID_REQUEST, f"election type {request.election_type} is unknown"
        ) from None
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topic_partitions is None:
        wanted = [(topic.name, list(topic.partitions)) for topic in state.image.topics.values()]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    response = ElectLeadersResponse(replica_election_results=[])
    records: list[MetadataRecord] = []
    count = 0
    for topic_name, numbers in wanted:
        results = ReplicaElectionResult(topic=topic_name, partition_result=[])
        response.replica_election_results.append(results)
        count += 1
        if count % METADATA_ELECTIONS_PER_PIECE == 0:
            yield
        for number in numbers:
            count += 1
            if count % METADATA_ELECTIONS_PER_PIECE == 0:
                yield
            error, message = Errors.NONE, None
            try:
                records += _elect(state, topic_name, number, kind)
            except ControllerError as problem:
                error, message = problem.error, problem.message
            if request.topic_partitions is None and error is Errors.ELECTION_NOT_NEEDED:
                continue
            results.partition_result.append(
                PartitionResult(partition_id=number, error_code=error, error_message=message)
            )
    check_record_count(records)
    return ControllerResult(records, response, is_atomic=False)


def _elect(
    state: ControllerState, topic_name: str, number: int, kind: ElectionType
) -> list[MetadataRecord]:
    topic = state.image.topics.get(topic_name)
    if topic is None:
        raise ControllerError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic_name}")
    partition = topic.partitions.get(number)
    if partition is None:
        raise ControllerError(
            Errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_name}-{number}"
        )
    is_preferred = partition.leader == partition.replicas[0]
    has_leader = partition.leader != NO_LEADER
    if is_preferred if kind is ElectionType.PREFERRED else has_leader:
        raise ControllerError(Errors.ELECTION_NOT_NEEDED)
    change = PartitionChange(state, topic, number)
    change.election = Election.PREFERRED if kind is ElectionType.PREFERRED else Election.UNCLEAN
    record = change.record()
    if record is not None:
        return [record]
    if kind is ElectionType.PREFERRED:
        raise ControllerError(Errors.PREFERRED_LEADER_NOT_AVAILABLE)
    raise ControllerError(Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def balance_leaders(state: ControllerState) -> Pieces[ControllerResult[bool]]:
    """Gives leaderships back to preferred leaders; whether there may be more to do."""
    imbalanced = state.partitions.imbalanced(state.image)
    return (yield from _round(state, imbalanced, Election.PREFERRED, lambda _: True))


def elect_unclean_leaders(state: ControllerState) -> Pieces[ControllerResult[bool]]:
    """Elects any live replica where nobody leads and the topic allows it; whether there is more."""
    unled = state.partitions.of(NO_LEADER, state.image)
    is_wanted = state.is_unclean_election_enabled
    return (yield from _round(state, unled, Election.UNCLEAN, is_wanted))


def _round(
    state: ControllerState,
    partitions: Iterator[tuple[TopicImage, int]],
    election: Election,
    is_wanted: Callable[[str], bool],
) -> Pieces[ControllerResult[bool]]:
    """Holds an election for each partition, up to a bound, where its topic wants one."""
    records: list[MetadataRecord] = []
    for count, (topic, number) in enumerate(partitions, 1):
        if len(records) >= METADATA_ELECTIONS_PER_ROUND_MAX:
            return ControllerResult(records, True, is_atomic=False)
        if count % METADATA_ELECTIONS_PER_PIECE == 0:
            yield
        if not is_wanted(topic.name):
            continue
        change = PartitionChange(state, topic, number)
        change.election = election
        record = change.record()
        if record is not None:
            records.append(record)
    return ControllerResult(records, False, is_atomic=False)
