"""AlterReplicaLogDirs, key 34. Moves replicas between the log directories of one broker."""

from kaa.wire.schema import Int16, Int32, Request, Response, Struct, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field("0+")
    partitions: list[Int32] = field("0+")


class AlterReplicaLogDir(Struct):
    path: str = field("0+")
    topics: list[AlterReplicaLogDirTopic] = field("0+")


class AlterReplicaLogDirsRequest(
    Request["AlterReplicaLogDirsResponse"], key=34, versions="1-2", flexible="2+"
):
    dirs: list[AlterReplicaLogDir] = field("0+")


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = field("0+")


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[AlterReplicaLogDirTopicResult] = field("0+")
