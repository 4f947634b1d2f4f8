"""The machine: events in, effects out; no clock, no disk, no socket.

What a driver owes it is written down in the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa import limits
from kaa.quorum.config import QuorumConfig
from kaa.quorum.duties import finish_shutdown, look_around
from kaa.quorum.events import (
    Append,
    FetchDamaged,
    LogWritten,
    ReceivedRequest,
    ReceivedResponse,
    Resign,
    Shutdown,
    Start,
    VoterSetRead,
)
from kaa.quorum.leader import Leader
from kaa.quorum.replica import Replica
from kaa.quorum.replies import (
    handle_damage,
    handle_log_written,
    handle_response,
    handle_voter_set,
)
from kaa.quorum.serving import handle_append, handle_request
from kaa.quorum.states import Follower, Resigned, Unattached
from kaa.quorum.values import Value
from kaa.quorum.voter_changes import known_voters

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.model.seams import RandomSource
    from kaa.quorum.effects import Effect
    from kaa.quorum.election import ElectionState
    from kaa.quorum.events import (
        Event,
    )
    from kaa.quorum.leader import ReplicaProgress
    from kaa.quorum.log_view import LogView
    from kaa.quorum.states import State
    from kaa.quorum.voters import Endpoints, Node, ReplicaKey, VoterSet, VoterSetHistory


class ReplicaDescription(Value):
    """One replica in the answer to DescribeQuorum; times are the machine's, None for never."""

    key: ReplicaKey
    log_end_offset: int | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class QuorumDescription(Value):
    """What a leader answers to DescribeQuorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int | None
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
    voter_set: VoterSet


class QuorumMachine:
    """One replica of the quorum."""

    __slots__ = ("_is_stopped", "_replica", "next_deadline_ms")

    def __init__(
        self,
        *,
        cluster_id: str,
        local: ReplicaKey,
        local_endpoints: Endpoints,
        listener: str,
        log: LogView,
        random: RandomSource,
        voters: VoterSetHistory,
        bootstrap: tuple[Node, ...] = (),
        election: ElectionState | None = None,
        config: QuorumConfig | None = None,
        can_become_voter: bool = True,
        kraft_version: Callable[[], int] = lambda: 0,
        joins_by_itself: bool = False,
    ) -> None:
        if local.id < 0 or local.directory_id is None:
            raise ValueError(f"a replica needs an id and a directory id, not {local}")
        self._replica = Replica(
            cluster_id=cluster_id,
            local=local,
            local_endpoints=local_endpoints,
            listener=listener,
            can_become_voter=can_become_voter,
            config=QuorumConfig() if config is None else config,
            log=log,
            voters=voters,
            bootstrap=bootstrap,
            election=election,
            random=random,
            kraft_version=kraft_version,
            joins_by_itself=joins_by_itself,
        )
        # When to hand in a `Tick` if nothing else happens before, None for never; every event sets
        # it.
        self.next_deadline_ms: int | None = None
        # Set once, by `Stopped`.
        self._is_stopped = False

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take an event in; gives what must be done, in order, before the next event."""
        if self._is_stopped:
            return []
        replica = self._replica
        if now_ms < replica.now_ms:
            raise ValueError(f"time went back from {replica.now_ms} to {now_ms} ms")
        replica.now_ms = now_ms
        self._dispatch(event)
        # Until nothing more is due, so that the effects leave the machine at rest.
        for _ in range(limits.QUORUM_TRANSITIONS_PER_EVENT_MAX):
            if finish_shutdown(replica):
                self._is_stopped = True
                self.next_deadline_ms = None
                break
            self.next_deadline_ms = look_around(replica)
            if self.next_deadline_ms is None or self.next_deadline_ms > now_ms:
                break
        effects, replica.effects = replica.effects, []
        return effects

    # --- what a driver may ask

    @property
    def state(self) -> State:
        """The current state, to read; it belongs to the machine."""
        return self._replica.state

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_id(self) -> int | None:
        return self._replica.state.leader_id

    @property
    def known_leader(self) -> tuple[int, int | None]:
        """The epoch, and who leads in it as far as this replica knows."""
        return self._replica.epoch, self._replica.state.leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self._replica.state, Leader)

    @property
    def high_watermark(self) -> int | None:
        """What this state knows to be committed; None for a while after a start or an election."""
        return self._replica.state.high_watermark

    @property
    def election(self) -> ElectionState | None:
        """What is on disk once all effects so far are done; None before the start."""
        return self._replica.persisted

    @property
    def voter_set(self) -> VoterSet:
        return self._replica.voter_set

    @property
    def trouble(self) -> str | None:
        """What keeps this replica from the quorum, with the remedy; None if nothing does."""
        return self._replica.trouble

    @property
    def story(self) -> tuple[str, ...]:
        """The last transitions, oldest first."""
        return tuple(self._replica.story)

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def known_voters(self, level: int) -> VoterSet | None:
        """The voters as the log would have to name them at a level of kraft.version; None if this
        replica does not lead, or some voter has not said enough or does not support the level.
        """
        return known_voters(self._replica, self._replica.local_voter, level)

    def describe(self, now_ms: int) -> QuorumDescription | None:
        """The answer to DescribeQuorum; None unless this replica leads."""
        state = self._replica.state
        if not isinstance(state, Leader):
            return None
        state.forget_silent_observers(now_ms)
        return QuorumDescription(
            state.local.id,
            state.epoch,
            state.high_watermark,
            tuple(_describe(state, progress, now_ms) for progress in state.voters.values()),
            tuple(_describe(state, progress, now_ms) for progress in state.observers.values()),
            self.voter_set,
        )

    # --- the machine

    def _dispatch(self, event: Event) -> None:
        replica = self._replica
        if isinstance(event, ReceivedRequest):
            handle_request(replica, event.request_id, event.request)
        elif isinstance(event, ReceivedResponse):
            handle_response(replica, event.node_id, event.correlation_id, event.response)
        elif isinstance(event, LogWritten):
            handle_log_written(replica, event)
        elif isinstance(event, FetchDamaged):
            handle_damage(replica, event)
        elif isinstance(event, VoterSetRead):
            handle_voter_set(replica, event)
        elif isinstance(event, Append):
            handle_append(replica, event)
        elif isinstance(event, Start):
            self._start()
        elif isinstance(event, Resign):
            if isinstance(replica.state, Leader) and replica.epoch == event.epoch:
                replica.state.resign_requested = True
        elif isinstance(event, Shutdown):
            replica.shutdown_deadline_ms = replica.now_ms + event.timeout_ms

    def _start(self) -> None:
        replica = self._replica
        if replica.story:
            raise replica.fault("started twice")
        replica.initialize()
        if replica.is_only_voter and isinstance(replica.state, Unattached | Follower | Resigned):
            # Nobody to wait for.
            replica.become_prospective()


def _describe(leader: Leader, progress: ReplicaProgress, now_ms: int) -> ReplicaDescription:
    # The leader itself never fetches and is always caught up.
    is_local = progress.key.id == leader.local.id
    return ReplicaDescription(
        progress.key,
        progress.end_offset,
        now_ms if is_local else progress.last_fetch_ms,
        now_ms if is_local else progress.last_caught_up_ms,
    )
