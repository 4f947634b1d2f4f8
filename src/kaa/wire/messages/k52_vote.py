"""Vote, key 52. Asks a voter of the metadata quorum for its vote, or in a pre-vote for its
opinion.
"""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, Uint16, field


class RequestPartitionData(Struct):
    partition_index: Int32 = field("0+")
    replica_epoch: Int32 = field("0+")
    replica_id: Int32 = field("0+")
    replica_directory_id: Uuid = field("1+", ignorable=True)
    voter_directory_id: Uuid = field("1+", ignorable=True)
    last_offset_epoch: Int32 = field("0+")
    last_offset: Int64 = field("0+")
    pre_vote: bool = field("2+")


class RequestTopicData(Struct):
    topic_name: str = field("0+")
    partitions: list[RequestPartitionData] = field("0+")


class VoteRequest(
    Request["VoteResponse"], key=52, versions="0-2", flexible="0+", listeners=("controller",)
):
    cluster_id: str | None = field("0+", default=None)
    voter_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: list[RequestTopicData] = field("0+")


class ResponsePartitionData(Struct):
    partition_index: Int32 = field("0+")
    error_code: Int16 = field("0+")
    leader_id: Int32 = field("0+")
    leader_epoch: Int32 = field("0+")
    vote_granted: bool = field("0+")


class ResponseTopicData(Struct):
    topic_name: str = field("0+")
    partitions: list[ResponsePartitionData] = field("0+")


class NodeEndpoint(Struct):
    node_id: Int32 = field("1+")
    host: str = field("1+")
    port: Uint16 = field("1+")


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    error_code: Int16 = field("0+")
    topics: list[ResponseTopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
