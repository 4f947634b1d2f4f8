"""DeleteRecords, key 21. Moves the log start offset of partitions forward."""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = field("0+")
    offset: Int64 = field("0+")


class DeleteRecordsTopic(Struct):
    name: str = field("0+")
    partitions: list[DeleteRecordsPartition] = field("0+")


class DeleteRecordsRequest(Request["DeleteRecordsResponse"], key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = field("0+")
    timeout_ms: Int32 = field("0+")


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = field("0+")
    low_watermark: Int64 = field("0+")
    error_code: Int16 = field("0+")


class DeleteRecordsTopicResult(Struct):
    name: str = field("0+")
    partitions: list[DeleteRecordsPartitionResult] = field("0+")


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    topics: list[DeleteRecordsTopicResult] = field("0+")
