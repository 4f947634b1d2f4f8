"""A simulated replica: a machine, its driver on the simulated disk and network, and a small state
machine.

The state machine keeps the last number that was committed. It appends when it knows that it
leads, takes snapshots, and loads one when the log no longer reaches back to where it is: the parts
that the numbered duties in `kaa.quorum` leave to a driver.
"""

from __future__ import annotations

import random
from typing import Protocol

from kaa.model.nodes import Endpoint
from kaa.model.seams import RandomSource
from kaa.quorum import (
    Append,
    AppendAsFollower,
    AppendAsLeader,
    AppendLeaderChange,
    AppendToSnapshot,
    BeginSnapshot,
    DiscardSnapshot,
    Effect,
    ErrorResponse,
    Event,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeaderChanged,
    LogWritten,
    Node,
    OffsetAndEpoch,
    PersistElection,
    QuorumConfig,
    QuorumMachine,
    RejectAppend,
    ReplicaKey,
    Report,
    Request,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    Response,
    SendRequest,
    Stopped,
    Tick,
    TruncateLog,
    VoteRequest,
    VoterNode,
    VoterSet,
    VoterSetHistory,
)
from kaa.quorum.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveVoterRequest,
    VoterChangeResponse,
)
from kaa.wire.primitives import Uuid
from tests.simulation.quorum.disk import LEADER_CHANGE, Batch, Disk, Snapshot
from tests.simulation.quorum.invariants import InvariantError
from tests.support.ids import uuid

LISTENER = "CONTROLLER"
CLUSTER_ID = "simulated"


class Surroundings(Protocol):
    """What a node needs of the world around it."""

    rng: random.Random
    now_ms: int

    def jitter(self, node_id: int) -> RandomSource:
        """Chance for a node's machine."""

    def send_request(
        self, sender: SimulatedNode, to: Node, correlation_id: int, request: Request
    ) -> None:
        """Put a request on the network."""

    def send_response(self, sender: SimulatedNode, request_id: int, response: Response) -> None:
        """Put the answer to a delivered request on the network."""

    def later(self, delay_ms: int, node: SimulatedNode, event: Event) -> None:
        """Hand an event to the node's machine, unless the process has ended by then."""

    def applied(self, node: SimulatedNode, batch: Batch) -> None:
        """A committed batch reached the node's state machine."""

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        """The node's state machine was replaced by a snapshot."""

    def acknowledged(self, node: SimulatedNode, batch: Batch) -> None:
        """The node answered its clients that a batch they appended is committed."""

    def performed(self, node: SimulatedNode, effect: Effect) -> bool:
        """An effect is done; whether the process ends here, before the next one."""

    def trace(self, node: SimulatedNode, what: object) -> None:
        """Something to read when a run fails."""


def directory_id(node_id: int) -> Uuid:
    return uuid((node_id + 1) << 64)


def address(node_id: int) -> Endpoint:
    return Endpoint(LISTENER, f"node-{node_id}", 9093)


def static_voters(count: int) -> VoterSet:
    """The voters 0, 1, ... as `controller.quorum.voters` gives them: without directory ids."""
    return VoterSet.of(
        VoterNode(ReplicaKey(node_id), (address(node_id),)) for node_id in range(count)
    )


class SimulatedNode:
    """A process; it ends at a kill, and a restart makes a new one on the same disk."""

    def __init__(
        self,
        node_id: int,
        disk: Disk,
        voters: VoterSet,
        config: QuorumConfig,
        world: Surroundings,
        flush_ms_max: int,
    ) -> None:
        self.id = node_id
        self.disk = disk
        self.world = world
        self.is_running = True
        # A flush takes up to this long; 0 is a driver that flushes at once.
        self.flush_ms_max = flush_ms_max
        # A paused process gets its events in order when the pause is over.
        self.paused_until_ms = 0
        self.backlog: list[Event] = []
        # The state machine: all before `applied_offset` is in `value`.
        self.applied_offset = 0
        self.value = 0
        # The epoch that the state machine knows it leads; None while it may not append.
        self.claimed_epoch: int | None = None
        self._pending_claim: LeaderChanged | None = None
        # Appended by this leadership and not committed yet.
        self._unacknowledged: list[Batch] = []
        # The snapshot under download.
        self._download: tuple[OffsetAndEpoch, bytes] | None = None
        self._next_flush_ms = 0
        self.machine = QuorumMachine(
            cluster_id=CLUSTER_ID,
            local=ReplicaKey(node_id, directory_id(node_id)),
            local_endpoints=(address(node_id),),
            listener=LISTENER,
            log=disk.log,
            random=world.jitter(node_id),
            voters=VoterSetHistory(voters),
            bootstrap=tuple(
                Node(-2 - index, address(voter_id).host, address(voter_id).port)
                for index, voter_id in enumerate(voters.ids())
                if voter_id != node_id
            ),
            election=disk.election,
            config=config,
            can_become_voter=False,
        )

    def handle(self, event: Event) -> None:
        if not isinstance(event, Tick):
            self.world.trace(self, event)
        for effect in self.machine.handle(event, self.world.now_ms):
            self.world.trace(self, effect)
            self.perform(effect)
            if self.world.performed(self, effect):
                return

    def append(self, append_id: int, values: tuple[int, ...]) -> None:
        """A client's request to the state machine."""
        if self.claimed_epoch is not None:
            self.handle(Append(append_id, self.claimed_epoch, values))

    # --- effects

    def perform(self, effect: Effect) -> None:
        log = self.disk.log
        match effect:
            case PersistElection(election):
                self.disk.election = election
            case SendRequest(node, correlation_id, request):
                self._check_persisted(request)
                self.world.send_request(self, node, correlation_id, request)
            case Respond(request_id, response):
                self._check_persisted(response)
                self.world.send_response(self, request_id, response)
            case RespondWithRecords(request_id, response, offset, max_bytes):
                self._check_persisted(response)
                records = log.read(offset, max_bytes)
                self.world.send_response(self, request_id, response.replace(records=records))
            case RespondWithSnapshot(request_id, response, max_bytes):
                self._check_persisted(response)
                assert response.snapshot_id is not None
                content = log.snapshots[response.snapshot_id].content
                piece = content[response.position : response.position + max_bytes]
                self.world.send_response(self, request_id, response.replace(records=piece))
            case HighWatermarkAdvanced(high_watermark):
                self._apply_to(high_watermark)
            case LeaderChanged():
                self._leader_changed(effect)
            case Stopped():
                self.is_running = False
            case RejectAppend() | Report():
                pass
            case _:
                self._change_log(effect)

    def _change_log(self, effect: Effect) -> None:
        log = self.disk.log
        match effect:
            case AppendLeaderChange(write_id, epoch):
                log.append_as_leader(epoch, (LEADER_CHANGE,))
                self._flush(write_id)
            case AppendAsLeader(write_id, _, epoch, values):
                assert isinstance(values, tuple)
                self._unacknowledged.append(log.append_as_leader(epoch, values))
                self._flush(write_id)
            case AppendAsFollower(write_id, _, batches, flush):
                assert isinstance(batches, tuple)
                log.append_as_follower(batches)
                self._flush(write_id, needed=flush)
            case TruncateLog(write_id, offset):
                log.truncate_to(offset)
                self._flush(write_id)
            case BeginSnapshot(snapshot_id):
                self._download = (snapshot_id, b"")
            case AppendToSnapshot(snapshot_id, position, piece):
                assert self._download is not None
                assert isinstance(piece, bytes)
                assert (self._download[0], len(self._download[1])) == (snapshot_id, position)
                self._download = (snapshot_id, self._download[1] + piece)
            case DiscardSnapshot():
                self._download = None
            case InstallSnapshot(write_id, snapshot_id):
                assert self._download is not None
                assert self._download[0] == snapshot_id
                content = self._download[1]
                log.install(snapshot_id, Snapshot(int(content.split()[-1]), content))
                self._download = None
                self.world.later(0, self, LogWritten(write_id, log.end().offset))
            case _:
                raise AssertionError(f"unknown effect {effect}")

    def _flush(self, write_id: int, needed: bool = True) -> None:
        """Let the disk work, in order; the followers may have the records meanwhile."""
        if not needed:
            self.world.later(0, self, LogWritten(write_id, self.disk.log.end().offset))
            return
        now_ms = self.world.now_ms
        took_ms = self.world.rng.randint(0, self.flush_ms_max)
        self._next_flush_ms = max(self._next_flush_ms, now_ms + took_ms)
        self.world.later(self._next_flush_ms - now_ms, self, LogWritten(write_id, -1))
        if took_ms:
            self.world.later(0, self, Tick())

    def flushed(self, written: LogWritten) -> LogWritten:
        """The disk has finished: everything visible by now is durable."""
        if written.end_offset >= 0:
            return written
        self.disk.log.flush()
        return LogWritten(written.write_id, self.disk.log.end().offset)

    def _check_persisted(self, message: Request | Response) -> None:
        """No message leaves before its epoch, and the vote in it, are on disk."""
        election = self.disk.election
        match message:
            case (
                ErrorResponse()
                | AddVoterRequest()
                | RemoveVoterRequest()
                | VoterChangeResponse()
                | ApiVersionsRequest()
                | ApiVersionsResponse()
            ):
                # They say nothing about an epoch.
                return
            case VoteRequest():
                epoch, is_own_vote = message.replica_epoch, not message.pre_vote
            case _:
                epoch, is_own_vote = message.leader_epoch, False
        own = ReplicaKey(self.id, directory_id(self.id))
        if (
            election is None
            or election.epoch != epoch
            or (is_own_vote and election.voted_key != own)
        ):
            raise InvariantError("PersistBeforeSend", f"{message} leaves, on disk is {election}")

    # --- the state machine

    def _leader_changed(self, change: LeaderChanged) -> None:
        self.claimed_epoch = None
        self._unacknowledged.clear()
        self._pending_claim = change if change.leader_id == self.id else None
        self._claim_if_caught_up()

    def _claim_if_caught_up(self) -> None:
        claim = self._pending_claim
        if claim is None or claim.epoch_start_offset is None:
            return
        if self.applied_offset > claim.epoch_start_offset:
            self.claimed_epoch = claim.epoch
            self._pending_claim = None

    def _apply_to(self, high_watermark: int) -> None:
        log = self.disk.log
        latest = log.latest_snapshot_id()
        if self.applied_offset < log.start_offset():
            assert latest is not None, "the log starts after the state machine without a snapshot"
            self._load(latest)
        for batch in log.between(self.applied_offset, high_watermark):
            self.world.applied(self, batch)
            self.applied_offset = batch.end_offset
            numbers = [value for value in batch.values if isinstance(value, int)]
            self.value = numbers[-1] if numbers else self.value
        self._claim_if_caught_up()
        while self._unacknowledged and self._unacknowledged[0].end_offset <= high_watermark:
            self.world.acknowledged(self, self._unacknowledged.pop(0))

    def _load(self, snapshot_id: OffsetAndEpoch) -> None:
        snapshot = self.disk.log.snapshots[snapshot_id]
        self.world.loaded(self, snapshot_id, snapshot)
        self.applied_offset = snapshot_id.offset
        self.value = snapshot.value

    def take_snapshot(self, delete_log: bool) -> None:
        """Snapshot what is applied; then perhaps let the log start at a snapshot, the newest or an
        older one.
        """
        log = self.disk.log
        if self.applied_offset <= log.start_offset():
            return
        log.take_snapshot(self.applied_offset, self.value)
        if delete_log:
            log.delete_before(self.world.rng.choice(sorted(log.snapshots)))
