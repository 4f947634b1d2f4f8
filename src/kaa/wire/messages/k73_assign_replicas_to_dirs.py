"""AssignReplicasToDirs, key 73. Tells the controller in which log directories a broker has put its
replicas (KIP-858).
"""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class RequestPartitionData(Struct):
    partition_index: Int32 = field("0+")


class RequestTopicData(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[RequestPartitionData] = field("0+")


class RequestDirectoryData(Struct):
    id: Uuid = field("0+")
    topics: list[RequestTopicData] = field("0+")


class AssignReplicasToDirsRequest(
    Request["AssignReplicasToDirsResponse"],
    key=73,
    versions="0",
    flexible="0+",
    listeners=("controller",),
):
    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+", default=-1)
    directories: list[RequestDirectoryData] = field("0+")


class ResponsePartitionData(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")


class ResponseTopicData(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[ResponsePartitionData] = field("0+")


class ResponseDirectoryData(Struct):
    id: Uuid = field("0+")
    topics: list[ResponseTopicData] = field("0+")


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    directories: list[ResponseDirectoryData] = field("0+")
