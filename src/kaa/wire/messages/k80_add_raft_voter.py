"""AddRaftVoter, key 80. Adds a voter to the metadata quorum (KIP-853)."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, Struct, Uint16, field


class Listener(Struct):
    name: str = field("0+")
    host: str = field("0+")
    port: Uint16 = field("0+")


class AddRaftVoterRequest(
    Request["AddRaftVoterResponse"],
    key=80,
    versions="0-1",
    flexible="0+",
    listeners=("controller", "broker"),
):
    cluster_id: str | None = field("0+")
    timeout_ms: Int32 = field("0+")
    voter_id: Int32 = field("0+")
    voter_directory_id: Uuid = field("0+")
    listeners: list[Listener] = field("0+")
    ack_when_committed: bool = field("1+", default=True)


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", ignorable=True)
