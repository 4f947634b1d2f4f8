"""AlterPartition, key 56. Changes the in-sync replicas of partitions; sent by their leaders to the
controller.
"""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field


class BrokerState(Struct):
    broker_id: Int32 = field("3+")
    broker_epoch: Int64 = field("3+", default=-1)


class RequestPartitionData(Struct):
    partition_index: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")
    new_isr: list[Int32] = field("0-2")
    new_isr_with_epochs: list[BrokerState] = field("3+")
    leader_recovery_state: Int8 = field("1+")
    partition_epoch: Int32 = field("0+")


class RequestTopicData(Struct):
    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[RequestPartitionData] = field("0+")


class AlterPartitionRequest(
    Request["AlterPartitionResponse"],
    key=56,
    versions="2-3",
    flexible="0+",
    listeners=("controller",),
):
    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+", default=-1)
    topics: list[RequestTopicData] = field("0+")


class ResponsePartitionData(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")
    isr: list[Int32] = field("0+")
    leader_recovery_state: Int8 = field("1+", ignorable=True)
    partition_epoch: Int32 = field("0+")


class ResponseTopicData(Struct):
    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[ResponsePartitionData] = field("0+")


class AlterPartitionResponse(Response, key=56, versions="2-3", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    topics: list[ResponseTopicData] = field("0+")
