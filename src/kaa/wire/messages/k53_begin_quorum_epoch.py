"""BeginQuorumEpoch, key 53. Announces a new leader of the metadata quorum to the voters."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, Uint16, field


class RequestPartitionData(Struct):
    partition_index: Int32 = field("0+")
    voter_directory_id: Uuid = field("1+", ignorable=True)
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")


class RequestTopicData(Struct):
    topic_name: str = field("0+")
    partitions: list[RequestPartitionData] = field("0+")


class LeaderEndpoint(Struct):
    name: str = field("1+")
    host: str = field("1+")
    port: Uint16 = field("1+")


class BeginQuorumEpochRequest(
    Request["BeginQuorumEpochResponse"],
    key=53,
    versions="0-1",
    flexible="1+",
    listeners=("controller",),
):
    cluster_id: str | None = field("0+", default=None)
    voter_id: Int32 = field("1+", default=-1, ignorable=True)
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


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    error_code: Int16 = field("0+")
    topics: list[ResponseTopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
