"""RemoveRaftVoter, key 81. Removes a voter from the metadata quorum."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Int16, Int32, Request, Response, field


class RemoveRaftVoterRequest(
    Request["RemoveRaftVoterResponse"],
    key=81,
    versions="0",
    flexible="0+",
    listeners=("controller", "broker"),
):
    cluster_id: str | None = field("0+")
    voter_id: Int32 = field("0+")
    voter_directory_id: Uuid = field("0+")


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", ignorable=True)
