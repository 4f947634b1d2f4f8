"""UpdateRaftVoter, key 82. Updates the endpoints and versions of a voter of the metadata quorum."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, Uint16, field


class Listener(Struct):
    name: str = field("0+")
    host: str = field("0+")
    port: Uint16 = field("0+")


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = field("0+")
    max_supported_version: Int16 = field("0+")


class UpdateRaftVoterRequest(
    Request["UpdateRaftVoterResponse"],
    key=82,
    versions="0",
    flexible="0+",
    listeners=("controller",),
):
    cluster_id: str | None = field("0+")
    current_leader_epoch: Int32 = field("0+")
    voter_id: Int32 = field("0+")
    voter_directory_id: Uuid = field("0+")
    listeners: list[Listener] = field("0+")
    kraft_version_feature: KRaftVersionFeature = field("0+")


class CurrentLeader(Struct):
    leader_id: Int32 = field("0+", default=-1)
    leader_epoch: Int32 = field("0+", default=-1)
    host: str = field("0+")
    port: Int32 = field("0+")


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    current_leader: CurrentLeader | None = field("0+", tag=0)
