"""AssignReplicasToDirs: a broker says in which of its directories its replicas are (KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.directories import is_online
from kaa.controller.feature_table import DIRECTORY_ASSIGNMENT
from kaa.controller.leadership import move_leadership
from kaa.controller.partition_change import PartitionChange
from kaa.controller.result import ControllerError, ControllerResult
from kaa.limits import METADATA_ELECTIONS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from kaa.controller.image import TopicImage
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[AssignReplicasToDirsResponse]]:
    if state.metadata_version < DIRECTORY_ASSIGNMENT:
        raise ControllerError(
            Errors.UNSUPPORTED_VERSION, "the metadata.version is too old for directories"
        )
    broker_id = request.broker_id
    state.check_broker_epoch(broker_id, request.broker_epoch)
    online = state.image.brokers[broker_id].directories
    response = AssignReplicasToDirsResponse(directories=[])
    records: list[MetadataRecord] = []
    lost: list[tuple[TopicImage, int]] = []
    count = 0
    for directory in request.directories:
        directory_answer = ResponseDirectoryData(id=directory.id, topics=[])
        response.directories.append(directory_answer)
        for wanted in directory.topics:
            topic = state.image.topics_by_id.get(wanted.topic_id)
            topic_answer = ResponseTopicData(topic_id=wanted.topic_id, partitions=[])
            directory_answer.topics.append(topic_answer)
            for number in [partition.partition_index for partition in wanted.partitions]:
                count += 1
                if count % METADATA_ELECTIONS_PER_PIECE == 0:
                    yield
                error = Errors.UNKNOWN_TOPIC_ID
                if topic is not None:
                    error = _assign(state, broker_id, directory.id, topic, number, records)
                    if error is Errors.NONE and not is_online(directory.id, online):
                        lost.append((topic, number))
                topic_answer.partitions.append(
                    ResponsePartitionData(partition_index=number, error_code=error)
                )
    for count, (topic, number) in enumerate(lost, 1):
        if count % METADATA_ELECTIONS_PER_PIECE == 0:
            yield
        records += move_leadership(state, broker_id, topic, number)
    return ControllerResult(records, response, is_atomic=False)


def _assign(
    state: ControllerState,
    broker_id: int,
    directory: Uuid,
    topic: TopicImage,
    number: int,
    records: list[MetadataRecord],
) -> Errors:
    partition = topic.partitions.get(number)
    if partition is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in partition.replicas:
        return Errors.NOT_LEADER_OR_FOLLOWER
    change = PartitionChange(state, topic, number)
    change.directories[broker_id] = directory
    record = change.record()
    if record is not None:
        records.append(record)
    return Errors.NONE
