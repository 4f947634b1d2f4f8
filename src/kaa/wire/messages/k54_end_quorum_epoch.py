"""EndQuorumEpoch, key 54. Announces that a leader of the metadata quorum resigns."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, Uint16, field


class ReplicaInfo(Struct):
    candidate_id: Int32 = field("1+")
    candidate_directory_id: Uuid = field("1+")


class RequestPartitionData(Struct):
    partition_index: Int32 = field("0+")
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")
    preferred_successors: list[Int32] = field("0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field("1+", ignorable=True)


class RequestTopicData(Struct):
    topic_name: str = field("0+")
    partitions: list[RequestPartitionData] = field("0+")


class LeaderEndpoint(Struct):
    name: str = field("1+")
    host: str = field("1+")
    port: Uint16 = field("1+")


class EndQuorumEpochRequest(
    Request["EndQuorumEpochResponse"],
    key=54,
    versions="0-1",
    flexible="1+",
    listeners=("controller",),
):
    cluster_id: str | None = field("0+", default=None)
    topics: list[RequestTopicData] = field("0+")
    leader_endpoints: list[LeaderEndpoint] = field("1+", ignorable=True)


class ResponsePartitionData(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")


class ResponseTopicData(Struct):
    topic_name: str = field("0+")
    partitions: list[ResponsePartitionData] = field("0+")


class NodeEndpoint(Struct):
    node_id: Int32 = field("1+")
    host: str = field("1+")
    port: Uint16 = field("1+")


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    error_code: Int16 = field("0+")
    topics: list[ResponseTopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
