"""ElectLeaders, key 43. Elects leaders for partitions."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class TopicPartitions(Struct):
    topic: str = field("0+")
    partitions: list[Int32] = field("0+")


class ElectLeadersRequest(
    Request["ElectLeadersResponse"],
    key=43,
    versions="0-2",
    flexible="2+",
    listeners=("broker", "controller"),
):
    election_type: Int8 = field("1+")
    topic_partitions: list[TopicPartitions] | None = field("0+")
    timeout_ms: Int32 = field("0+", default=60000)


class PartitionResult(Struct):
    partition_id: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")


class ReplicaElectionResult(Struct):
    topic: str = field("0+")
    partition_result: list[PartitionResult] = field("0+")


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field("0+")
