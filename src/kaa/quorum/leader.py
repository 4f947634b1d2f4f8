"""The leader's state: how far every replica is, the high watermark, and who is still there.

The high watermark is the largest offset that a majority of the voters have on disk. Two rules
guard it:

- Own epoch first. It is set for the first time when it passes `epoch_start_offset`, that is, when
  the record that opens the leader's own epoch is on a majority. Records of earlier epochs on a
  majority are not safe by themselves: a replica without them can still win a later epoch if its own
  last epoch is higher (section 5.4.2 of the Raft paper). Once a record of this epoch is on a
  majority, no such replica can be elected.
- The leader's own offset counts when its disk has it, no sooner. Its followers may fetch it before,
  and if enough of them have it on disk, it is committed without the leader's disk.

It never falls within a leadership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa import limits
from kaa.quorum.election import ElectionState

if TYPE_CHECKING:
    from kaa.quorum.messages import FetchRequest
    from kaa.quorum.voter_changes import VoterChange
    from kaa.quorum.voters import Endpoints, ReplicaKey, VoterNode, VoterSet


class ReplicaProgress:
    """What the leader knows of one replica."""

    __slots__ = (
        "end_offset",
        "has_acknowledged_leader",
        "key",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
    )

    def __init__(self, key: ReplicaKey, has_acknowledged_leader: bool = False) -> None:
        # Gains a directory id when a voter set names one; never changes it.
        self.key = key
        # All before it is on the replica's disk; None until it fetched in this epoch.
        self.end_offset: int | None = None
        self.last_fetch_ms: int | None = None
        # The leader's end when the replica fetched last: reaching it later means it was caught up
        # then.
        self.last_fetch_leader_end_offset: int | None = None
        # The last moment at which the replica had all that the leader had.
        self.last_caught_up_ms: int | None = None
        self.has_acknowledged_leader = has_acknowledged_leader

    def fetched(self, fetch_offset: int, leader_end_offset: int | None, now_ms: int) -> None:
        """Note a valid fetch."""
        if leader_end_offset is not None:
            previous = self.last_fetch_leader_end_offset
            if fetch_offset >= leader_end_offset:
                self.last_caught_up_ms = now_ms
            elif previous is not None and fetch_offset >= previous:
                self.last_caught_up_ms = self.last_fetch_ms
            self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms
        self.end_offset = fetch_offset
        self.has_acknowledged_leader = True


class ParkedFetch:
    """A fetch that waits for records or a newer high watermark."""

    __slots__ = ("deadline_ms", "request", "request_id")

    def __init__(self, request_id: int, request: FetchRequest, deadline_ms: int) -> None:
        self.request_id = request_id
        self.request = request
        self.deadline_ms = deadline_ms


NOT_SETTLED: Final = -2
"""Before the first look; -1 is the offset of voters that were read from no record."""


class Leader:
    """Leads its epoch."""

    __slots__ = (
        "_fetched_voters",
        "begin_quorum_epoch_deadline_ms",
        "check_quorum_deadline_ms",
        "check_quorum_timeout_ms",
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "leader_endpoints",
        "local",
        "observers",
        "parked_fetches",
        "reported_voters",
        "resign_requested",
        "settled_voters",
        "voter_change",
        "voters",
    )
    voted_key: ReplicaKey | None = None

    def __init__(
        self,
        epoch: int,
        epoch_start_offset: int,
        local: ReplicaKey,
        leader_endpoints: Endpoints,
        voters: VoterSet,
        check_quorum_timeout_ms: int,
        now_ms: int,
    ) -> None:
        self.epoch = epoch
        # The offset of the record that opens the epoch; nothing of this epoch is below it.
        self.epoch_start_offset = epoch_start_offset
        self.local = local
        self.leader_endpoints = leader_endpoints
        # One entry per voter of the set in force, by id; the local replica's among them unless it
        # was removed.
        self.voters = {
            voter.key.id: ReplicaProgress(voter.key, voter.key.matches(local))
            for voter in voters.voters
        }
        # Replicas that fetch and do not vote, least recently seen first; bounded.
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        # None until a record of this epoch is committed; above `epoch_start_offset`; never falls.
        self.high_watermark: int | None = None
        # Voters heard from since the check-quorum time was last moved on; always less than needed
        # to do so.
        self._fetched_voters: set[int] = set()
        self.check_quorum_timeout_ms = check_quorum_timeout_ms
        self.check_quorum_deadline_ms = now_ms + check_quorum_timeout_ms
        # When the voters that do not fetch are informed again who leads; at once at the start.
        self.begin_quorum_epoch_deadline_ms = now_ms
        # In order of arrival; bounded. Each waits at the log end with the high watermark of its
        # arrival or newer.
        self.parked_fetches: list[ParkedFetch] = []
        # Set once by the local state machine; the leader resigns at the next look.
        self.resign_requested = False
        # The offset of the newest voters that are committed, None for the static ones: whether this
        # leader is one of them was looked at.
        self.settled_voters: int | None = NOT_SETTLED
        # The change of the voters under way, if any; one at a time.
        self.voter_change: VoterChange | None = None
        # What static voters reported about themselves in this epoch, by id.
        self.reported_voters: dict[int, VoterNode] = {}

    @property
    def leader_id(self) -> int | None:
        return self.local.id

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.local.id, None)

    def grants_vote(self, _replica: ReplicaKey, _is_log_up_to_date: bool, _pre_vote: bool) -> bool:
        return False

    def progress(self, replica: ReplicaKey) -> ReplicaProgress | None:
        """What is known of a replica; None if it never fetched and does not vote."""
        voter = self.voters.get(replica.id)
        if voter is not None and voter.key.matches(replica):
            return voter
        return self.observers.get(replica)

    def local_written(self, end_offset: int) -> bool:
        """Note how far the leader's own disk is; whether that moved the high watermark."""
        own = self.progress(self.local)
        if own is None:
            # The leader was removed from the voters: it leads on until that is committed, without
            # its own vote.
            return False
        if own.end_offset is None or own.end_offset < end_offset:
            own.end_offset = end_offset
        return self._advance_high_watermark()

    def replica_fetched(
        self, replica: ReplicaKey, fetch_offset: int, leader_end_offset: int, now_ms: int
    ) -> bool:
        """Note a valid fetch; whether that moved the high watermark."""
        if replica.id < 0:
            # Not a replica but a tool that reads.
            return False
        progress = self.progress(replica)
        if progress is None:
            progress = self._observe(replica, now_ms)
        progress.fetched(fetch_offset, leader_end_offset, now_ms)
        self.voter_heard(replica, now_ms)
        return self._is_voter(replica) and self._advance_high_watermark()

    def voter_heard(self, replica: ReplicaKey, now_ms: int) -> None:
        """Count a fetch of either kind: a majority of them within the time keeps the leader in
        office.
        """
        if not self._is_voter(replica):
            return
        self._fetched_voters.add(replica.id)
        needed = len(self.voters) // 2 + 1
        if self.local.id in self.voters:
            needed -= 1
        if len(self._fetched_voters) >= needed:
            self._fetched_voters.clear()
            self.check_quorum_deadline_ms = now_ms + self.check_quorum_timeout_ms

    def silent_voters(self, now_ms: int, silence_ms: int) -> tuple[ReplicaKey, ...]:
        """The other voters that have not fetched for so long."""
        return tuple(
            voter.key
            for voter in self.voters.values()
            if voter.key.id != self.local.id
            and (voter.last_fetch_ms is None or now_ms - voter.last_fetch_ms >= silence_ms)
        )

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, longest log first."""
        return tuple(
            voter.key for voter in self._by_end_offset() if not voter.key.matches(self.local)
        )

    def set_voters(self, voters: VoterSet) -> bool:
        """Take a new voter set over; whether that moved the high watermark.

        A voter that was an observer keeps its progress, and the other way round: it is the same
        replica.
        """
        old_voters = self.voters
        new_voters: dict[int, ReplicaProgress] = {}
        for voter in voters.voters:
            progress = self.progress(voter.key) or ReplicaProgress(voter.key)
            progress.key = voter.key
            self.observers.pop(voter.key, None)
            new_voters[voter.key.id] = progress
        self.voters = new_voters
        for progress in old_voters.values():
            if progress is not new_voters.get(progress.key.id):
                self.observers.setdefault(progress.key, progress)
        self._fetched_voters &= set(new_voters)
        return self._advance_high_watermark()

    def forget_silent_observers(self, now_ms: int) -> None:
        """Drop observers that have not fetched for minutes."""
        silence_ms = limits.QUORUM_OBSERVER_SESSION_MS
        for key, progress in list(self.observers.items()):
            last_fetch_ms = progress.last_fetch_ms
            if key != self.local and (
                last_fetch_ms is None or now_ms - last_fetch_ms >= silence_ms
            ):
                del self.observers[key]

    def _observe(self, replica: ReplicaKey, now_ms: int) -> ReplicaProgress:
        if len(self.observers) >= limits.QUORUM_OBSERVERS_MAX:
            self.forget_silent_observers(now_ms)
        if len(self.observers) >= limits.QUORUM_OBSERVERS_MAX:
            # Served all the same, only not remembered: nothing depends on an observer's progress.
            return ReplicaProgress(replica)
        return self.observers.setdefault(replica, ReplicaProgress(replica))

    def _is_voter(self, replica: ReplicaKey) -> bool:
        voter = self.voters.get(replica.id)
        return voter is not None and voter.key.matches(replica)

    def _by_end_offset(self) -> list[ReplicaProgress]:
        """The voters, longest log first, those that never fetched last."""
        return sorted(
            self.voters.values(),
            key=lambda voter: (
                1 if voter.end_offset is None else -voter.end_offset - 1,
                voter.key.sort_key(),
            ),
        )

    def _advance_high_watermark(self) -> bool:
        if not self.voters:
            return False
        # Of n voters in falling order, the one at n // 2 and all before it are a majority.
        ends = sorted(
            (
                -1 if voter.end_offset is None else voter.end_offset
                for voter in self.voters.values()
            ),
            reverse=True,
        )
        majority_end = ends[len(ends) // 2]
        if majority_end <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and majority_end <= self.high_watermark:
            # Below is possible after the voter set changed; it stays where it was.
            return False
        self.high_watermark = majority_end
        return True
