"""The local replica: its identity and state, how it changes state, and what it asks for.

Everything that handles an event (`serving`, `replies`, `duties`) works on a `Replica`. It owns the
rules that hold whatever the event: a transition is checked against the table, its election is on
disk before anything else that follows, connections are forgotten, parked fetches of a lost
leadership are answered, and the local state machine hears of a new leader once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kaa import limits
from kaa.quorum.connections import Connections
from kaa.quorum.effects import (
    AppendLeaderChange,
    DiscardSnapshot,
    HighWatermarkAdvanced,
    LeaderChanged,
    PersistElection,
    Report,
    Respond,
    SendRequest,
)
from kaa.quorum.election import Ballot, ElectionState
from kaa.quorum.leader import Leader
from kaa.quorum.messages import FetchResponse
from kaa.quorum.states import Candidate, Follower, Prospective, Resigned, Unattached
from kaa.quorum.transitions import QuorumError, check_transition
from kaa.quorum.voter_changes import forsake_voter_change
from kaa.quorum.voters import KRAFT_VERSIONS, VoterNode, node_at
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.model.nodes import VersionRange
    from kaa.model.seams import RandomSource
    from kaa.quorum.config import QuorumConfig
    from kaa.quorum.effects import (
        Effect,
    )
    from kaa.quorum.log_view import LogView
    from kaa.quorum.messages import Request
    from kaa.quorum.states import State
    from kaa.quorum.voters import Endpoints, Node, ReplicaKey, VoterSet, VoterSetHistory


class Replica:
    """The state of this node in the quorum. Event handlers change it only by its methods, which
    emit the effects that every change needs.
    """

    def __init__(
        self,
        *,
        cluster_id: str,
        local: ReplicaKey,
        local_endpoints: Endpoints,
        listener: str,
        can_become_voter: bool,
        config: QuorumConfig,
        log: LogView,
        voters: VoterSetHistory,
        bootstrap: tuple[Node, ...],
        election: ElectionState | None,
        random: RandomSource,
        kraft_version: Callable[[], int] = lambda: 0,
        supported_kraft_version: VersionRange = KRAFT_VERSIONS,
        joins_by_itself: bool = False,
    ) -> None:
        self.cluster_id = cluster_id
        # The level that the log is at, as far as it was appended.
        self.kraft_version = kraft_version
        # As the log should know this replica once it votes.
        self.local_voter = VoterNode(local, local_endpoints, supported_kraft_version)
        # Whether it asks to be a voter (controller.quorum.auto.join.enable).
        self.joins_by_itself = joins_by_itself
        # What keeps it from the quorum, as reported; None once a leader answers.
        self.trouble: str | None = None
        # The last time that a leader was there, or that this replica started.
        self.leader_seen_ms = 0
        # The last report of each kind, so that each is made once.
        self._reported: dict[object, str] = {}
        # Why the leader did not take it last, so that it is reported once.
        self.join_refusal = Errors.NONE
        # With a directory id, always.
        self.local = local
        self.local_endpoints = local_endpoints
        # The name of the listener that replicas use among themselves.
        self.listener = listener
        # Whether the log is flushed although the replica does not vote: it may be made a voter.
        self.can_become_voter = can_become_voter
        self.config = config
        self.log = log
        # Filled by `VoterSetRead` as records are appended; cut together with the log.
        self.voters = voters
        # The log write that puts a snapshot in place of the log, until its voters are known. Those
        # from before may be long gone, and those of the settings too.
        self.installing: int | None = None
        self.connections = Connections(
            tuple(node for node in bootstrap if node.id != local.id), config, random
        )
        self._random = random
        # The election on disk, once the effects asked for so far are done; None before the first.
        self.persisted = election
        self.state: State = Unattached(0, None, None, None, None)
        # The time of the event being handled; never falls.
        self.now_ms = 0
        # What the event being handled asks for, in order; empty between events.
        self.effects: list[Effect] = []
        # Log writes are numbered; those up to `completed` are on disk. At most one is open, except
        # on a leader.
        self.writes_requested = 0
        self.writes_completed = 0
        # The highest high watermark ever known: nothing below it may be cut off.
        self.committed_offset = 0
        # The last leader that the local state machine was notified of.
        self._announced = LeaderChanged(0, None)
        # Set by `Shutdown`; from then on the replica neither leads nor stands.
        self.shutdown_deadline_ms: int | None = None
        # The last transitions, for anyone who must find out why.
        self.story: deque[str] = deque(maxlen=limits.QUORUM_STORY_LINES_MAX)

    # --- questions

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def voter_set(self) -> VoterSet:
        return self.voters.last()

    @property
    def is_voter(self) -> bool:
        return self.voter_set.is_voter(self.local)

    @property
    def may_stand(self) -> bool:
        """Whether it may be elected: a voter, or one that was removed by a record of which it does
        not know that it is committed. As long as it is not, the others may need this replica: its
        log may be the longest. It then leads without a vote of its own until the record is
        committed. (Only the last change can be open, see `voter_changes`.) Not while a snapshot is
        installed whose voters it has not read yet.
        """
        if self.installing is not None:
            return False
        if self.is_voter:
            return True
        last_offset, before = self.voters.last_offset(), self.voters.before_last()
        if last_offset is None or before is None:
            return False
        return last_offset >= self.committed_offset and before.is_voter(self.local)

    @property
    def is_only_voter(self) -> bool:
        return self.voter_set.is_only_voter(self.local)

    @property
    def has_remote_leader(self) -> bool:
        return self.state.leader_id is not None and self.state.leader_id != self.local.id

    @property
    def is_log_settled(self) -> bool:
        """Whether all of the log is on disk, so that others may learn its end."""
        return self.writes_completed == self.writes_requested

    def voter_node(self, voter_id: int) -> Node | None:
        return node_at(voter_id, self.voter_set.endpoints(voter_id), self.listener)

    def fault(self, message: str) -> QuorumError:
        return QuorumError(f"replica {self.local}: {message}", self.story)

    # --- effects

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def report(self, message: str) -> None:
        self.emit(Report(message))

    def report_once(self, kind: object, message: str) -> None:
        """Report what comes again and again; of each kind only what differs from the last. There
        are no more kinds than other replicas.
        """
        if self._reported.get(kind) != message:
            self._reported[kind] = message
            self.report(message)

    def accepted_by(self, node_id: int) -> None:
        """Another replica took a request: its next refusal is news."""
        self._reported.pop(node_id, None)

    def tell_trouble(self, message: str) -> None:
        """Report what keeps this replica from the quorum, until that is over."""
        self.trouble = message
        self.report(message)

    def leader_seen(self) -> None:
        """There is a leader that answers, or this replica leads."""
        self.leader_seen_ms = self.now_ms
        if self.trouble is not None:
            self.trouble = None
            self.report(f"the leader of the quorum is {self.state.leader_id}, and answers")

    def address(self, node_id: int) -> str:
        """How an operator knows another replica; bootstrap servers have no id of their own."""
        known = (self.voter_node(voter_id) for voter_id in self.voter_set.ids())
        for node in self.connections.servers(node for node in known if node is not None):
            if node.id == node_id:
                return node.address if node_id < 0 else f"{node_id} ({node.address})"
        return str(node_id)

    def voters_installed(self) -> None:
        """The snapshot that took the place of the log says who votes, or the settings do."""
        self.voters.clear()
        self.installing = None

    def next_write_id(self) -> int:
        self.writes_requested += 1
        return self.writes_requested

    def try_send(self, node: Node, build: Callable[[], Request]) -> int:
        """Send unless the node is busy; gives the time at which to look again."""
        if self.connections.is_ready(node.id, self.now_ms):
            correlation_id = self.connections.sent(node.id, self.now_ms)
            self.emit(SendRequest(node, correlation_id, build()))
        return self.connections.ready_ms(node.id, self.now_ms)

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Tell the local state machine what is committed, if that is new."""
        if high_watermark > self.committed_offset:
            self.committed_offset = high_watermark
            self.emit(HighWatermarkAdvanced(high_watermark))

    # --- transitions

    def initialize(self) -> None:
        """Go on from the election on disk, in a state that breaks no promise given before the
        restart.
        """
        self.leader_seen_ms = self.now_ms
        election = ElectionState() if self.persisted is None else self.persisted
        end = self.log.end()
        deadline_ms = self.election_deadline_ms()
        if election.epoch < end.epoch:
            # The file is older than the log: all it says is of a past epoch.
            self._begin_as(Unattached(end.epoch, None, None, deadline_ms, None))
        elif election.leader_id == self.local.id:
            self._begin_as(self._resigned(election.epoch, (), deadline_ms))
        elif (
            election.voted_key is not None
            and election.voted_key.matches(self.local)
            and election.leader_id is None
            and self.is_voter
        ):
            ballot = Ballot(self.voter_set.ids(), self.local.id)
            self._begin_as(Candidate(election.epoch, self.local, ballot, deadline_ms, None))
        elif election.leader_id is not None and self.voter_node(election.leader_id) is not None:
            self._begin_as(
                Follower(
                    election.epoch,
                    election.leader_id,
                    self.voter_set.endpoints(election.leader_id),
                    election.voted_key,
                    self.now_ms + self.config.fetch_timeout_ms,
                    None,
                )
            )
        else:
            self._begin_as(
                Unattached(
                    election.epoch, election.leader_id, election.voted_key, deadline_ms, None
                )
            )

    def become_unattached(self, epoch: int, leader_id: int | None = None) -> None:
        """A higher epoch without a known leader; or the same one, after a pre-vote that failed."""
        state = self.state
        voted_key = state.voted_key if epoch == state.epoch else None
        deadline_ms: int | None
        if not self.may_stand:
            deadline_ms = None
        elif (isinstance(state, Prospective) and state.ballot.is_lost) or isinstance(
            state, Follower | Leader
        ):
            deadline_ms = self.election_deadline_ms()
        else:
            # An election that runs on: others' epochs must not keep this replica from its turn for
            # ever.
            deadline_ms = state.election_deadline_ms
        self._transition(Unattached(epoch, leader_id, voted_key, deadline_ms, state.high_watermark))

    def add_vote(self, candidate: ReplicaKey) -> None:
        """Give the vote of this epoch; the candidate then has a full election timeout to win."""
        state = self.state
        deadline_ms = self.election_deadline_ms()
        if isinstance(state, Unattached) and state.voted_key is None:
            self._transition(
                Unattached(
                    state.epoch, state.leader_id, candidate, deadline_ms, state.high_watermark
                ),
                keep_connections=True,
            )
        elif isinstance(state, Prospective) and state.voted_key is None:
            self._transition(
                Prospective(
                    state.epoch,
                    state.leader_id,
                    state.leader_endpoints,
                    candidate,
                    Ballot(self.voter_set.ids(), self.local.id),
                    deadline_ms,
                    state.high_watermark,
                ),
                keep_connections=True,
            )

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
        state = self.state
        if not endpoints:
            raise self.fault(f"leader {leader_id} of epoch {epoch} has no endpoint")
        if leader_id == self.local.id:
            raise self.fault(f"asked to follow itself in epoch {epoch}")
        voted_key = state.voted_key if epoch == state.epoch else None
        fetch_deadline_ms = self.now_ms + self.config.fetch_timeout_ms
        self._transition(
            Follower(
                epoch, leader_id, endpoints, voted_key, fetch_deadline_ms, state.high_watermark
            )
        )

    def become_prospective(self) -> None:
        state = self.state
        self._transition(
            Prospective(
                state.epoch,
                state.leader_id,
                state.leader_endpoints,
                state.voted_key,
                Ballot(self.voter_set.ids(), self.local.id),
                self.election_deadline_ms(),
                state.high_watermark,
            )
        )
        self.advance_nominee()

    def become_candidate(self) -> None:
        state = self.state
        self._transition(
            Candidate(
                state.epoch + 1,
                self.local,
                Ballot(self.voter_set.ids(), self.local.id),
                self.election_deadline_ms(),
                state.high_watermark,
            )
        )
        self.advance_nominee()

    def advance_nominee(self) -> None:
        """Go on if a majority is for it; a quorum of one needs nobody else's vote."""
        state = self.state
        if isinstance(state, Prospective) and state.ballot.is_won:
            self.become_candidate()
        elif isinstance(state, Candidate) and state.ballot.is_won:
            self._become_leader(state.ballot.granted_by())

    def become_resigned(self) -> None:
        state = self.state
        if not isinstance(state, Leader):
            raise self.fault("only a leader can resign")
        self.leader_seen_ms = self.now_ms
        self._transition(
            self._resigned(state.epoch, state.successors(), self.election_deadline_ms())
        )

    def election_deadline_ms(self) -> int:
        """An election timeout from now, drawn again so that replicas do not all stand at once."""
        timeout_ms = self.config.election_timeout_ms
        jitter_ms = self._random.randrange(timeout_ms) if timeout_ms > 0 else 0
        return self.now_ms + timeout_ms + jitter_ms

    def _become_leader(self, granting_voters: tuple[int, ...]) -> None:
        # The high watermark is not taken along: it starts over when a record of this epoch is
        # committed.
        epoch_start_offset = self.log.end().offset
        leader = Leader(
            self.epoch,
            epoch_start_offset,
            self.local,
            self.local_endpoints,
            self.voter_set,
            self.config.check_quorum_timeout_ms,
            self.now_ms,
        )
        self._transition(leader)
        self.leader_seen()
        self.emit(
            AppendLeaderChange(
                self.next_write_id(),
                leader.epoch,
                self.local.id,
                self.voter_set.ids(),
                granting_voters,
            )
        )

    def _resigned(
        self, epoch: int, successors: tuple[ReplicaKey, ...], election_deadline_ms: int
    ) -> Resigned:
        others = set(self.voter_set.ids()) - {self.local.id}
        return Resigned(
            epoch, self.local.id, self.local_endpoints, others, successors, election_deadline_ms
        )

    def _begin_as(self, state: State) -> None:
        self.state = state
        self._settle("start")

    def _transition(self, new: State, keep_connections: bool = False) -> None:
        old = self.state
        if new.epoch > limits.QUORUM_EPOCHS_MAX:
            raise self.fault(
                f"there is no epoch after {old.epoch}: the quorum has to be formed again from "
                "the snapshot of one controller"
            )
        check_transition(old, new, self.story)
        self.state = new
        self._settle(f"{type(old).__name__}({old.epoch})")
        if not keep_connections:
            self.connections.reset()
        if isinstance(old, Follower) and old.download is not None:
            self.emit(DiscardSnapshot(old.download.snapshot_id))
        if isinstance(old, Leader):
            self._answer_parked(old)

    def _settle(self, before: str) -> None:
        """Make the new state's election durable, tell the local state machine of a new leader."""
        state = self.state
        self.story.append(
            f"{self.now_ms} ms: {before} -> {type(state).__name__}({state.epoch}),"
            f" leader {state.leader_id}, voted {state.voted_key}"
        )
        election = state.election
        if election != self.persisted:
            self._persist(election)
        if isinstance(state, Resigned | Prospective):
            # Neither brings news: the one led until now, the other asks about what it knows.
            return
        start_offset = state.epoch_start_offset if isinstance(state, Leader) else None
        news = LeaderChanged(state.epoch, state.leader_id, start_offset)
        known = self._announced
        if news.epoch > known.epoch or (known.leader_id is None and news.leader_id is not None):
            self._announced = news
            self.emit(news)

    def _persist(self, election: ElectionState) -> None:
        """Ask for it on disk; one asked for before that nothing was sent on is moot."""
        self.persisted = election
        for index in reversed(range(len(self.effects))):
            effect = self.effects[index]
            if isinstance(effect, PersistElection):
                del self.effects[index]
                break
            if not isinstance(effect, LeaderChanged | Report):
                break
        self.emit(PersistElection(election))

    def _answer_parked(self, leader: Leader) -> None:
        for parked in leader.parked_fetches:
            self.emit(
                Respond(
                    parked.request_id,
                    FetchResponse(
                        error=Errors.NOT_LEADER_OR_FOLLOWER,
                        leader_id=self.state.leader_id,
                        leader_epoch=self.state.epoch,
                        leader_endpoints=self.state.leader_endpoints,
                        high_watermark=None,
                        log_start_offset=self.log.start_offset(),
                    ),
                )
            )
        leader.parked_fetches.clear()
        forsake_voter_change(self, leader)
