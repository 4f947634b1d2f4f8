"""The states of a replica, one class each, holding only what that state needs.

Kafka 4.3 has these six. Having voted is not a state of its own: a replica that voted stays
Unattached or Prospective, with `voted_key` set. An observer, which does not vote, is only ever
Unattached or Follower, except while its removal from the voters is not known to be committed.

Each state answers the same few questions: `election` is what must be on disk while it lasts,
`leader_id` and `leader_endpoints` are what it tells others, and `grants_vote` is the voting rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.quorum.election import ElectionState
from kaa.quorum.leader import Leader

if TYPE_CHECKING:
    from kaa.quorum.election import Ballot
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.voters import Endpoints, ReplicaKey


class _WithoutLeader:
    """What Unattached and Prospective have in common: both look for a leader."""

    __slots__ = ()
    epoch: int
    leader_id: int | None
    voted_key: ReplicaKey | None

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def grants_vote(self, replica: ReplicaKey, is_log_up_to_date: bool, pre_vote: bool) -> bool:
        """One vote per epoch, for a log that does not lag behind the local one."""
        if pre_vote:
            return is_log_up_to_date
        if self.voted_key is not None:
            # The same answer again: the first one may have been lost.
            return self.voted_key.matches(replica)
        return self.leader_id is None and is_log_up_to_date


class Unattached(_WithoutLeader):
    """Knows the epoch but not a leader that it could fetch from; asks around, and waits for an
    election.
    """

    __slots__ = ("election_deadline_ms", "epoch", "high_watermark", "leader_id", "voted_key")
    leader_endpoints: Endpoints = ()

    def __init__(
        self,
        epoch: int,
        leader_id: int | None,
        voted_key: ReplicaKey | None,
        election_deadline_ms: int | None,
        high_watermark: int | None,
    ) -> None:
        self.epoch = epoch
        # A leader whose address is not known; with one known, no vote is given in this epoch.
        self.leader_id = leader_id
        # The vote given in this epoch; the local replica itself after a candidacy that came to
        # nothing.
        self.voted_key = voted_key
        # When a voter stops waiting and asks for votes itself; None for observers.
        self.election_deadline_ms = election_deadline_ms
        # The last one known; never above the log end.
        self.high_watermark = high_watermark


class Prospective(_WithoutLeader):
    """Asks, without raising its epoch, whether it would be elected (KIP-996)."""

    __slots__ = (
        "ballot",
        "election_deadline_ms",
        "epoch",
        "high_watermark",
        "leader_endpoints",
        "leader_id",
        "voted_key",
    )

    def __init__(
        self,
        epoch: int,
        leader_id: int | None,
        leader_endpoints: Endpoints,
        voted_key: ReplicaKey | None,
        ballot: Ballot,
        election_deadline_ms: int,
        high_watermark: int | None,
    ) -> None:
        # The epoch of the state before: a pre-vote disturbs nobody.
        self.epoch = epoch
        # The leader it lost touch with, to go back to when the others still hear it.
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted_key = voted_key
        # Holds the local replica's own vote from the start.
        self.ballot = ballot
        self.election_deadline_ms = election_deadline_ms
        self.high_watermark = high_watermark


class Candidate:
    """Has voted for itself in a new epoch and asks the others to."""

    __slots__ = ("ballot", "election_deadline_ms", "epoch", "high_watermark", "local")
    leader_id: int | None = None
    leader_endpoints: Endpoints = ()

    def __init__(
        self,
        epoch: int,
        local: ReplicaKey,
        ballot: Ballot,
        election_deadline_ms: int,
        high_watermark: int | None,
    ) -> None:
        self.epoch = epoch
        self.local = local
        self.ballot = ballot
        # A lost election is not repeated before this, so that another nominee has its chance.
        self.election_deadline_ms = election_deadline_ms
        self.high_watermark = high_watermark

    @property
    def voted_key(self) -> ReplicaKey:
        return self.local

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, None, self.local)

    def grants_vote(self, _replica: ReplicaKey, is_log_up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and is_log_up_to_date


class SnapshotDownload:
    """How much of a snapshot a follower has."""

    __slots__ = ("position", "snapshot_id")

    def __init__(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        # Bytes written so far; the next piece starts here.
        self.position = 0


class Follower:
    """Fetches from the leader of its epoch."""

    __slots__ = (
        "download",
        "epoch",
        "fetch_deadline_ms",
        "has_fetched",
        "has_informed_leader",
        "high_watermark",
        "leader_endpoints",
        "leader_high_watermark",
        "leader_id",
        "membership_deadline_ms",
        "voted_key",
    )

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader_endpoints: Endpoints,
        voted_key: ReplicaKey | None,
        fetch_deadline_ms: int,
        high_watermark: int | None,
    ) -> None:
        self.epoch = epoch
        # Never the local replica.
        self.leader_id: int | None = leader_id
        # Never empty.
        self.leader_endpoints = leader_endpoints
        # The vote given in this epoch before its leader was known.
        self.voted_key = voted_key
        # When a voter gives the leader up; each answered fetch moves it on.
        self.fetch_deadline_ms = fetch_deadline_ms
        # At most the end of what is on the local disk; never falls.
        self.high_watermark = high_watermark
        # The leader's, which may be ahead of what is on the local disk; never falls.
        self.leader_high_watermark = high_watermark
        # Whether the leader has answered a fetch in this state: as long as not, it may be dead
        # already, so a pre-vote of another replica is not refused for its sake.
        self.has_fetched = False
        # When this replica tells the leader about itself, or asks to be a voter, again. A period
        # after it began to follow at the earliest, so that it has fetched by then.
        self.membership_deadline_ms = fetch_deadline_ms
        # Whether the leader knows all about this voter.
        self.has_informed_leader = False
        # The snapshot under way, or None. While it is set, no Fetch is sent.
        self.download: SnapshotDownload | None = None

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def grants_vote(self, _replica: ReplicaKey, is_log_up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and not self.has_fetched and is_log_up_to_date


class Resigned:
    """Led this epoch and does no more: either it gave up, or it restarted.

    A leader that restarts must not lead the same epoch again. It may have lost records that it had
    not flushed and others have fetched; writing different ones under the same epoch and offsets
    would break the log matching rule.
    """

    __slots__ = (
        "election_deadline_ms",
        "epoch",
        "leader_endpoints",
        "leader_id",
        "preferred_successors",
        "unacknowledged",
    )
    voted_key: ReplicaKey | None = None
    high_watermark: int | None = None

    def __init__(
        self,
        epoch: int,
        local_id: int,
        leader_endpoints: Endpoints,
        unacknowledged: set[int],
        preferred_successors: tuple[ReplicaKey, ...],
        election_deadline_ms: int,
    ) -> None:
        self.epoch = epoch
        self.leader_id: int | None = local_id
        self.leader_endpoints = leader_endpoints
        # Voters that have not answered EndQuorumEpoch; only shrinks.
        self.unacknowledged = unacknowledged
        # The voters, best log first; empty after a restart.
        self.preferred_successors = preferred_successors
        self.election_deadline_ms = election_deadline_ms

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, None)

    def grants_vote(self, _replica: ReplicaKey, is_log_up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and is_log_up_to_date


State = Unattached | Prospective | Candidate | Leader | Follower | Resigned
