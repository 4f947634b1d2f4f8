"""Deliberately broken quorums: each one must be caught, or the simulation proves nothing.

A mutant is a patch that is in force while a seed runs, the invariants that may catch it, and how
many seeds it may take. The patches break one rule each; the rest of the machine is the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple
from unittest.mock import patch

from kaa.quorum import (
    AppendAsFollower,
    Effect,
    LeaderChanged,
    LogWritten,
    OffsetAndEpoch,
    PersistElection,
    QuorumMachine,
    Records,
)
from kaa.quorum import duties as duties_module
from kaa.quorum import replies as replies_module
from kaa.quorum import serving as serving_module
from kaa.quorum import states as states_module
from kaa.quorum.election import Ballot, ElectionState
from kaa.quorum.leader import Leader
from kaa.quorum.log_view import LogView, Validity, validate_fetch_position
from kaa.quorum.replica import Replica
from kaa.quorum.states import Candidate, Prospective, Resigned
from tests.simulation.quorum.disk import SimulatedLog
from tests.simulation.quorum.node import SimulatedNode
from tests.simulation.quorum.scenario import ElectionStorm, LeaderCrashes, Scenario


@contextmanager
def vote_is_not_persisted() -> Iterator[None]:
    """The epoch goes to disk, the vote does not: after a restart the replica votes again."""
    perform = SimulatedNode.perform

    def forgetful(self: SimulatedNode, effect: Effect) -> None:
        if isinstance(effect, PersistElection):
            election = effect.election
            effect = PersistElection(ElectionState(election.epoch, election.leader_id, None))
        perform(self, effect)

    with (
        patch.object(SimulatedNode, "perform", forgetful),
        patch.object(SimulatedNode, "_check_persisted", lambda *_: None),
    ):
        yield


@contextmanager
def epoch_is_not_persisted() -> Iterator[None]:
    """Nothing of an election goes to disk."""
    perform = SimulatedNode.perform

    def forgetful(self: SimulatedNode, effect: Effect) -> None:
        if not isinstance(effect, PersistElection):
            perform(self, effect)

    with (
        patch.object(SimulatedNode, "perform", forgetful),
        patch.object(SimulatedNode, "_check_persisted", lambda *_: None),
    ):
        yield


@contextmanager
def election_is_persisted_after_the_messages() -> Iterator[None]:
    """Effects in the wrong order."""
    handle = QuorumMachine.handle

    def late(self: QuorumMachine, event: object, now_ms: int) -> list[Effect]:
        effects = handle(self, event, now_ms)  # type: ignore[arg-type]
        return sorted(effects, key=lambda effect: isinstance(effect, PersistElection))

    with patch.object(QuorumMachine, "handle", late):
        yield


@contextmanager
def high_watermark_counts_old_epochs() -> Iterator[None]:
    """A majority of any records commits them, without a record of the leader's own epoch."""
    advance = Leader._advance_high_watermark

    def hasty(self: Leader) -> bool:
        start_offset, self.epoch_start_offset = self.epoch_start_offset, -1
        try:
            return advance(self)
        finally:
            self.epoch_start_offset = start_offset

    with patch.object(Leader, "_advance_high_watermark", hasty):
        yield


@contextmanager
def leader_counts_its_own_log_at_once() -> Iterator[None]:
    """The leader's offset counts when it is appended, not when it is on disk."""
    fetched = Leader.replica_fetched

    def hasty(self: Leader, *arguments: object) -> bool:
        own = self.voters[self.local.id]
        own.end_offset = arguments[2]  # type: ignore[assignment]
        return fetched(self, *arguments)  # type: ignore[arg-type]

    with patch.object(Leader, "replica_fetched", hasty):
        yield


@contextmanager
def follower_acknowledges_before_the_flush() -> Iterator[None]:
    """A voter does not ask for a flush before it goes on fetching."""

    def hasty(write_id: int, epoch: int, records: Records, _flush: bool) -> AppendAsFollower:
        return AppendAsFollower(write_id, epoch, records, flush=False)

    with patch.object(replies_module, "AppendAsFollower", hasty):
        yield


@contextmanager
def nominee_stands_before_the_flush() -> Iterator[None]:
    """A nominee asks for votes for records that it has not on disk yet."""
    send_votes = duties_module._send_votes

    def hasty(replica: Replica, state: Prospective | Candidate) -> int | None:
        completed, replica.writes_completed = replica.writes_completed, replica.writes_requested
        try:
            return send_votes(replica, state)
        finally:
            replica.writes_completed = completed

    with patch.object(duties_module, "_send_votes", hasty):
        yield


@contextmanager
def vote_ignores_the_log() -> Iterator[None]:
    """Votes are given to replicas whose log is behind."""
    with patch.object(
        serving_module, "OffsetAndEpoch", lambda *_: OffsetAndEpoch(1 << 40, 1 << 20)
    ):
        yield


@contextmanager
def voter_votes_twice() -> Iterator[None]:
    """A vote in an epoch does not bind."""

    def generous(_self: object, _replica: object, up_to_date: bool, _pre: bool) -> bool:
        return up_to_date

    with patch.object(states_module._WithoutLeader, "grants_vote", generous):
        yield


@contextmanager
def minority_elects() -> Iterator[None]:
    """One vote less than a majority is enough."""
    with patch.object(Ballot, "_majority", property(lambda self: len(self._votes) // 2)):
        yield


@contextmanager
def diverging_log_is_not_truncated() -> Iterator[None]:
    """A fetch at any offset is taken for valid, whatever its epoch."""

    def trusting(log: LogView, offset: int, last_epoch: int) -> object:
        validity, position = validate_fetch_position(log, offset, last_epoch)
        if validity is Validity.DIVERGING and offset <= log.end().offset:
            return Validity.VALID, OffsetAndEpoch(offset, last_epoch)
        return validity, position

    with patch.object(serving_module, "validate_fetch_position", trusting):
        yield


@contextmanager
def leader_restarts_as_leader() -> Iterator[None]:
    """A leader that comes back leads the same epoch on, though its log may have shrunk."""
    initialize = Replica.initialize

    def stubborn(self: Replica) -> None:
        initialize(self)
        if isinstance(self.state, Resigned):
            ballot = Ballot(self.voter_set.ids(), self.local.id)
            self.state = Candidate(self.state.epoch, self.local, ballot, self.now_ms, None)
            self._become_leader((self.local.id,))

    with patch.object(Replica, "initialize", stubborn):
        yield


@contextmanager
def state_machine_leads_before_it_caught_up() -> Iterator[None]:
    """The driver tells its state machine at once that it leads."""

    def hasty(self: SimulatedNode, change: LeaderChanged) -> None:
        self._unacknowledged.clear()
        self.claimed_epoch = change.epoch if change.leader_id == self.id else None

    with patch.object(SimulatedNode, "_leader_changed", hasty):
        yield


@contextmanager
def log_start_passes_the_snapshot() -> Iterator[None]:
    """The log is cut one batch after its snapshot."""
    delete_before = SimulatedLog.delete_before

    def careless(self: SimulatedLog, snapshot_id: OffsetAndEpoch) -> None:
        delete_before(self, snapshot_id)
        if self.batches:
            self._start_offset = self.batches.pop(0).end_offset
            self._count_epochs()

    with patch.object(SimulatedLog, "delete_before", careless):
        yield


@contextmanager
def log_writes_are_never_reported() -> Iterator[None]:
    """The machine never hears that a log write is done: safe, but nothing moves."""
    handled = replies_module.handle_log_written

    def deaf(replica: Replica, written: LogWritten) -> None:
        if replica.epoch < 2:
            handled(replica, written)

    with patch("kaa.quorum.machine.handle_log_written", deaf):
        yield


class Mutant(NamedTuple):
    """A broken quorum, where it is run, for at most how many seeds, and what may catch it.

    "QuorumError" is the machine itself, which refuses to cut committed records off.
    """

    mutation: Callable[[], AbstractContextManager[None]]
    scenario: type[Scenario]
    seeds: int
    caught_by: set[str]


MUTANTS = (
    Mutant(vote_is_not_persisted, ElectionStorm, 60, {"SingleLeader"}),
    Mutant(epoch_is_not_persisted, Scenario, 10, {"MonotonicEpoch"}),
    Mutant(election_is_persisted_after_the_messages, Scenario, 10, {"PersistBeforeSend"}),
    Mutant(voter_votes_twice, ElectionStorm, 60, {"SingleLeader"}),
    Mutant(minority_elects, Scenario, 10, {"SingleLeader", "QuorumError", "SnapshotAtLogStart"}),
    Mutant(vote_ignores_the_log, Scenario, 40, {"ConsistentCommittedData", "QuorumError"}),
    Mutant(high_watermark_counts_old_epochs, Scenario, 40, {"MonotonicHighWatermark"}),
    Mutant(leader_counts_its_own_log_at_once, Scenario, 20, {"MajorityReachedHighWatermark"}),
    Mutant(follower_acknowledges_before_the_flush, Scenario, 20, {"MajorityReachedHighWatermark"}),
    Mutant(diverging_log_is_not_truncated, Scenario, 40, {"ConsistentCommittedData"}),
    Mutant(leader_restarts_as_leader, LeaderCrashes, 20, {"ConsistentCommittedData"}),
    Mutant(state_machine_leads_before_it_caught_up, Scenario, 20, {"LeaderNeverLoadSnapshot"}),
    Mutant(log_start_passes_the_snapshot, Scenario, 10, {"SnapshotAtLogStart"}),
    Mutant(log_writes_are_never_reported, Scenario, 3, {"Liveness"}),
)
