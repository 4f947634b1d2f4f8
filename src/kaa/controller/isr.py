"""AlterPartition: the leader of a partition says who is in sync, and whether it has recovered.

The request is checked against the newest state with both epochs. One that is ahead comes from a
broker that knows more than this controller, which then is not the active one any more; one that is
behind is fenced off. Every replica of the new ISR must be alive, under the epoch that the leader
knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.partition_change import (
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERING,
    Election,
    PartitionChange,
)
from kaa.controller.result import ControllerResult
from kaa.wire.errors import Errors
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionResponse,
    BrokerState,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from kaa.controller.image import PartitionImage, TopicImage
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.wire.messages.k56_alter_partition import AlterPartitionRequest, RequestPartitionData
    from kaa.wire.schema import MetadataRecord

_EPOCH_UNKNOWN = -1
_EPOCHS_VERSION_MIN = 3


def alter_partition(
    state: ControllerState, request: AlterPartitionRequest, context: ControllerRequestContext
) -> ControllerResult[AlterPartitionResponse]:
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    response = AlterPartitionResponse(topics=[])
    records: list[MetadataRecord] = []
    for wanted in request.topics:
        answer = ResponseTopicData(topic_id=wanted.topic_id, partitions=[])
        response.topics.append(answer)
        topic = state.image.topics_by_id.get(wanted.topic_id)
        for data in wanted.partitions:
            if topic is None:
                answer.partitions.append(
                    ResponsePartitionData(
                        partition_index=data.partition_index, error_code=Errors.UNKNOWN_TOPIC_ID
                    )
                )
                continue
            if context.api_version < _EPOCHS_VERSION_MIN:
                data.new_isr_with_epochs = [BrokerState(broker_id=each) for each in data.new_isr]
            answer.partitions.append(_alter(state, request.broker_id, topic, data, records))
    return ControllerResult(records, response, is_atomic=False)


def _alter(
    state: ControllerState,
    broker_id: int,
    topic: TopicImage,
    data: RequestPartitionData,
    records: list[MetadataRecord],
) -> ResponsePartitionData:
    number = data.partition_index
    answer = ResponsePartitionData(partition_index=number)
    partition = topic.partitions.get(number)
    error = (
        Errors.UNKNOWN_TOPIC_OR_PARTITION
        if partition is None
        else _problem(state, broker_id, partition, data)
    )
    if partition is None or error is not Errors.NONE:
        answer.error_code = error
        return answer
    change = PartitionChange(state, topic, number)
    if state.is_unclean_election_enabled(topic.name):
        change.election = Election.UNCLEAN
    change.isr = [each.broker_id for each in data.new_isr_with_epochs]
    change.leader_recovery_state = data.leader_recovery_state
    record = change.record()
    if record is not None:
        records.append(record)
        partition = partition.changed(record)
        if record.leader not in {broker_id, LEADER_UNCHANGED}:
            # A reassignment is complete, and its leader is another broker.
            answer.error_code = Errors.NEW_LEADER_ELECTED
            return answer
    answer.leader_id = partition.leader
    answer.leader_epoch = partition.leader_epoch
    answer.isr = list(partition.isr)
    answer.leader_recovery_state = partition.leader_recovery_state
    answer.partition_epoch = partition.partition_epoch
    return answer


def _problem(
    state: ControllerState, broker_id: int, partition: PartitionImage, data: RequestPartitionData
) -> Errors:
    if (
        data.leader_epoch > partition.leader_epoch
        or data.partition_epoch > partition.partition_epoch
    ):
        return Errors.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return Errors.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return Errors.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return Errors.INVALID_UPDATE_VERSION
    isr = [each.broker_id for each in data.new_isr_with_epochs]
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        return Errors.INVALID_REQUEST
    if partition.leader not in isr:
        return Errors.INVALID_REQUEST
    recovery = data.leader_recovery_state
    if recovery not in {RECOVERED, RECOVERING} or (recovery == RECOVERING and len(isr) > 1):
        return Errors.INVALID_REQUEST
    if partition.leader_recovery_state == RECOVERED and recovery == RECOVERING:
        return Errors.INVALID_REQUEST
    if not all(_is_eligible(state, each) for each in data.new_isr_with_epochs):
        return Errors.INELIGIBLE_REPLICA
    return Errors.NONE


def _is_eligible(state: ControllerState, replica: BrokerState) -> bool:
    if not state.is_active(replica.broker_id):
        return False
    epoch = state.image.brokers[replica.broker_id].epoch
    return replica.broker_epoch in {_EPOCH_UNKNOWN, epoch}
