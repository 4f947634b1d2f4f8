"""Quorums with one rule of changing voters broken: each must be caught by what it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from kaa.quorum import duties, voter_changes
from kaa.quorum.driver import QuorumDriver
from kaa.quorum.events import LogWritten
from kaa.quorum.leader import Leader
from kaa.quorum.messages import AddVoterRequest, Request
from kaa.quorum.replica import Replica
from kaa.quorum.shared_sync import SharedSync
from kaa.quorum.states import Follower
from kaa.quorum.voter_changes import VoterChange
from kaa.quorum.voters import VoterNode, VoterSet
from kaa.wire.errors import Errors
from tests.simulation.controllers.scenario import Plan
from tests.simulation.world.kinds import Kind


@contextmanager
def a_snapshot_has_the_newest_voters() -> Iterator[None]:
    """Not those of its own offset; the newest may never be committed."""

    def newest(self: QuorumDriver, _: int) -> tuple[int, VoterSet]:
        return self.kraft_version, self.machine.voter_set

    with patch.object(QuorumDriver, "voters_at", newest):
        yield


@contextmanager
def two_changes_at_once() -> Iterator[None]:
    """The leader begins a change while another is not committed."""

    def careless(replica: Replica, _: str) -> Any:
        if isinstance(replica.state, Leader) and replica.kraft_version() > 0:
            return replica.state
        return Errors.NOT_LEADER_OR_FOLLOWER, "this controller does not lead"

    with patch.object(voter_changes, "_leader_that_may_change", careless):
        yield


@contextmanager
def nothing_is_synced() -> Iterator[None]:
    """Writes count as soon as they are in the page cache."""

    def wrote(self: SharedSync, write_id: int, **_: bool) -> None:
        self._loop.call_soon(self._written, LogWritten(write_id, self._log.end().offset))

    with patch.object(SharedSync, "wrote", wrote):
        yield


@contextmanager
def a_removed_leader_stays() -> Iterator[None]:
    """It does not resign when its removal is committed."""
    settle = voter_changes.settle_voter_change

    def stubborn(replica: Replica, leader: Leader) -> None:
        settle(replica, leader)
        leader.resign_requested = False

    with patch("kaa.quorum.serving.settle_voter_change", stubborn):
        yield


@contextmanager
def a_node_joins_twice() -> Iterator[None]:
    """The leader lets a second replica with the id of a voter in, in place of the first."""

    def add(self: VoterSet, voter: VoterNode) -> VoterSet:
        others = [other for other in self.voters if other.key.id != voter.key.id]
        return VoterSet.of((*others, voter))

    def handle(replica: Replica, request_id: int, request: AddVoterRequest) -> None:
        found = voter_changes._leader_that_may_change(replica, "adding a voter")
        if not isinstance(found, Leader):
            voter_changes._refuse(replica, request_id, *found)
            return
        deadline_ms = replica.now_ms + request.timeout_ms
        found.voter_change = VoterChange(request_id, request.key, request.endpoints, deadline_ms)

    membership = duties._membership_request

    def asks(replica: Replica, state: Follower) -> Request | None:
        request = membership(replica, state)
        if request is None or not replica.joins_by_itself or replica.is_voter:
            return request
        endpoints, timeout_ms = replica.local_voter.endpoints, replica.config.request_timeout_ms
        return AddVoterRequest(replica.cluster_id, replica.local, endpoints, timeout_ms, True)

    with (
        patch.object(VoterSet, "add", add),
        patch("kaa.quorum.serving.handle_add_voter", handle),
        patch.object(duties, "_membership_request", asks),
    ):
        yield


class Mutant(NamedTuple):
    mutation: Callable[[], AbstractContextManager[None]]
    caught_by: str
    # Stories that are tried, in this order.
    seeds: tuple[int, ...]
    # What goes wrong meanwhile, where it takes that.
    kinds: tuple[Kind, ...] = ()
    budget: int = 12
    snapshot_bytes: int = 1_500

    def plans(self) -> Iterator[Plan]:
        for seed in self.seeds:
            budget = self.budget if self.kinds else 0
            yield Plan(seed, 25.0, budget, self.kinds, self.snapshot_bytes)


MUTANTS = (
    Mutant(
        a_snapshot_has_the_newest_voters,
        "voters",
        (11, 32, 33, 31, 10, 12),
        ("kill", "slow link", "slow disk", "restart"),
        16,
        # Often enough for one between a change of the voters and its commit.
        200,
    ),
    Mutant(two_changes_at_once, "one-change", (0, 1, 2)),
    Mutant(nothing_is_synced, "prefix", (7, 2, 3, 4), ("power cut",)),
    Mutant(a_removed_leader_stays, "stranger", (0, 1, 2)),
    Mutant(a_node_joins_twice, "steps", (64, 24, 11, 3, 4), ("kill", "restart"), 6),
)
