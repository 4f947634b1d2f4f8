"""The requests and responses that replicas of the quorum exchange, as the machine sees them.

They are not the wire classes: a driver converts. What the wire wraps in one topic with one
partition is flat here, what it writes as -1 is None here, and a response whose error stands at the
top level (no partition at all) is an `ErrorResponse`, whatever its API. `records` is whatever the
driver's log reads and appends; the machine looks at its length only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaa.quorum.values import Value

if TYPE_CHECKING:
    from kaa.model.nodes import VersionRange
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.voters import Endpoints, ReplicaKey, VoterNode
    from kaa.wire.errors import Errors


class Records(Protocol):
    """Opaque record data: bytes of whole batches in the product, tuples in tests."""

    def __len__(self) -> int: ...


# A replica that does not know a high watermark yet says so with this value (Fetch v18).
HIGH_WATERMARK_UNKNOWN = -1


class VoteRequest(Value):
    """A nominee asks for a vote (KIP-595), or whether it would get one (`pre_vote`, KIP-996)."""

    cluster_id: str | None
    # The replica that is asked, where the nominee knows its key.
    voter: ReplicaKey | None
    replica: ReplicaKey
    # The epoch of the election; in a pre-vote the nominee's current epoch, which nobody adopts as
    # voted in.
    replica_epoch: int
    # The end of the nominee's log.
    last_epoch: int
    last_offset: int
    pre_vote: bool


class BeginQuorumEpochRequest(Value):
    """A leader tells a voter that it leads the epoch; repeated until the voter fetches."""

    cluster_id: str | None
    voter: ReplicaKey | None
    leader_id: int
    leader_epoch: int
    leader_endpoints: Endpoints


class EndQuorumEpochRequest(Value):
    """A leader tells a voter that it resigns; the voters are listed best log first."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    leader_endpoints: Endpoints
    preferred_candidates: tuple[ReplicaKey, ...]


class FetchRequest(Value):
    """A replica asks the leader for what follows its log end; it is also its acknowledgement of all
    before.
    """

    cluster_id: str | None
    replica: ReplicaKey
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    # What the replica knows, so that a leader with nothing but a newer high watermark answers at
    # once.
    high_watermark: int
    max_wait_ms: int
    max_bytes: int


class FetchSnapshotRequest(Value):
    """A replica asks for a piece of a snapshot."""

    cluster_id: str | None
    replica: ReplicaKey
    leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


class AddVoterRequest(Value):
    """An operator, or a controller that joins by itself, asks for one more voter."""

    cluster_id: str | None
    key: ReplicaKey
    endpoints: Endpoints
    timeout_ms: int
    # Whether the answer waits for the commit; a replica that adds itself cannot, as it must fetch.
    ack_when_committed: bool


class RemoveVoterRequest(Value):
    """A voter is to vote no longer."""

    cluster_id: str | None
    key: ReplicaKey


class UpdateVoterRequest(Value):
    """A voter tells the leader where it listens and what it supports."""

    cluster_id: str | None
    leader_epoch: int
    voter: VoterNode


class ApiVersionsRequest(Value):
    """A leader asks what a voter to be supports."""

    cluster_id: str | None = None


class ErrorResponse(Value):
    """The request failed as a whole; a driver also uses it for a broken connection
    (BROKER_NOT_AVAILABLE).
    """

    error: Errors


class VoteResponse(Value):
    """The answer to a vote, with the leader and epoch that the voter knows."""

    error: Errors
    leader_id: int | None
    leader_epoch: int
    leader_endpoints: Endpoints
    vote_granted: bool


class BeginQuorumEpochResponse(Value):
    """The answer to a new leader."""

    error: Errors
    leader_id: int | None
    leader_epoch: int
    leader_endpoints: Endpoints


class EndQuorumEpochResponse(Value):
    """The answer to a leader that resigns."""

    error: Errors
    leader_id: int | None
    leader_epoch: int
    leader_endpoints: Endpoints


class FetchResponse(Value):
    """Records, or a point to truncate to, or a snapshot to fetch; at most one of the three."""

    error: Errors
    leader_id: int | None
    leader_epoch: int
    leader_endpoints: Endpoints
    # None as long as the leader has not committed a record of its own epoch.
    high_watermark: int | None
    log_start_offset: int
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    records: Records = b""


class FetchSnapshotResponse(Value):
    """A piece of a snapshot from `position`, of `size` bytes in all."""

    error: Errors
    leader_id: int | None
    leader_epoch: int
    leader_endpoints: Endpoints
    snapshot_id: OffsetAndEpoch | None = None
    size_bytes: int = 0
    position: int = 0
    records: Records = b""


class VoterChangeResponse(Value):
    """The answer to one who wants a voter added or removed."""

    error: Errors
    message: str | None


class UpdateVoterResponse(Value):
    """The answer to a voter that reported about itself."""

    error: Errors
    leader_id: int | None
    leader_epoch: int
    leader_endpoints: Endpoints


class ApiVersionsResponse(Value):
    """The levels of kraft.version that a replica supports."""

    error: Errors
    kraft_versions: VersionRange


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | ApiVersionsRequest
)
LeaderResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
Response = ErrorResponse | LeaderResponse | VoterChangeResponse | ApiVersionsResponse
