"""One machine on a bench: a simulated log, log writes done at once, all effects kept."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from kaa.quorum import (
    AppendAsFollower,
    AppendAsLeader,
    AppendLeaderChange,
    Effect,
    ElectionState,
    Event,
    InstallSnapshot,
    LogWritten,
    Node,
    OffsetAndEpoch,
    QuorumConfig,
    QuorumMachine,
    ReceivedRequest,
    ReceivedResponse,
    ReplicaKey,
    Request,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    Response,
    SendRequest,
    Start,
    Tick,
    TruncateLog,
    VoteRequest,
    VoteResponse,
    VoterSet,
    VoterSetHistory,
    VoterSetRead,
)
from kaa.quorum.effects import AppendVoters
from kaa.quorum.messages import FetchResponse
from kaa.wire.errors import Errors
from tests.simulation.quorum.disk import LEADER_CHANGE, Batch, SimulatedLog, snapshot_of
from tests.simulation.quorum.node import CLUSTER_ID, LISTENER, address, directory_id, static_voters

T = TypeVar("T")
FULL_SIZE = 1 << 20


class NoJitter(Random):
    """Always the least."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, directory_id(node_id))


class Bench:
    """See the module."""

    def __init__(
        self,
        node_id: int = 0,
        voters: int | VoterSet = 3,
        *,
        election: ElectionState | None = None,
        batches: tuple[Batch, ...] = (),
        config: QuorumConfig | None = None,
        log: SimulatedLog | None = None,
        is_flushing: bool = True,
        bootstrap: tuple[Node, ...] = (),
        can_become_voter: bool = True,
        joins_by_itself: bool = False,
        kraft_version: int | None = None,
    ) -> None:
        self.now_ms = 0
        self.effects: list[Effect] = []
        # Without flushing, log writes are visible but never reported.
        self.is_flushing = is_flushing
        self.log = SimulatedLog() if log is None else log
        self.log.append_as_follower(batches)
        self.voters = static_voters(voters) if isinstance(voters, int) else voters
        self._next_request_id = 0
        self.machine = QuorumMachine(
            cluster_id=CLUSTER_ID,
            local=key(node_id),
            local_endpoints=(address(node_id),),
            listener=LISTENER,
            log=self.log,
            random=NoJitter(),
            voters=VoterSetHistory(self.voters),
            bootstrap=bootstrap,
            election=election,
            config=config,
            can_become_voter=can_become_voter,
            # Only where the log says who votes can anybody join.
            kraft_version=lambda: int(joins_by_itself) if kraft_version is None else kraft_version,
            joins_by_itself=joins_by_itself,
        )

    def handle(self, event: Event) -> list[Effect]:
        """Hand an event in; gives all effects, those of finished log writes included."""
        new = self.machine.handle(event, self.now_ms)
        self.effects += new
        for effect in list(new):
            write_id = self._change_log(effect)
            if write_id is not None and self.is_flushing:
                new += self.handle(LogWritten(write_id, self.log.end().offset))
        return new

    def _change_log(self, effect: Effect) -> int | None:
        match effect:
            case AppendLeaderChange(write_id, epoch):
                self.log.append_as_leader(epoch, (LEADER_CHANGE,))
            case AppendAsLeader(write_id, _, epoch, values):
                assert isinstance(values, tuple)
                self.log.append_as_leader(epoch, values)
            case AppendVoters(write_id, epoch, voters):
                offset = self.log.end().offset
                self.log.append_as_leader(epoch, (0,))
                self.handle(VoterSetRead(offset, voters))
            case AppendAsFollower(write_id, _, batches):
                assert isinstance(batches, tuple)
                self.log.append_as_follower(batches)
            case TruncateLog(write_id, offset):
                self.log.truncate_to(offset)
            case InstallSnapshot(write_id, snapshot_id):
                self.log.install(snapshot_id, snapshot_of(0))
            case _:
                return None
        return write_id

    def is_in(self, state: type) -> bool:
        return type(self.machine.state) is state

    def start(self) -> list[Effect]:
        return self.handle(Start())

    def advance(self, time_ms: int) -> list[Effect]:
        """Let time pass, waking the machine when it asked to be."""
        end_ms = self.now_ms + time_ms
        new: list[Effect] = []
        while (deadline_ms := self.machine.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = deadline_ms
            new += self.handle(Tick())
        self.now_ms = end_ms
        return new

    def ask(self, request: Request) -> list[Effect]:
        """Another replica's request."""
        self._next_request_id += 1
        return self.handle(ReceivedRequest(self._next_request_id, request))

    def reply(self, request: Request) -> Response:
        """The answer that another replica gets at once."""
        answers = [
            effect.response
            for effect in self.ask(request)
            if isinstance(effect, Respond | RespondWithRecords | RespondWithSnapshot)
            and effect.request_id == self._next_request_id
        ]
        assert len(answers) == 1, answers
        return answers[0]

    def sent(self, request_type: type[T]) -> list[tuple[SendRequest, T]]:
        """The requests of one kind that were sent since the last `forget`."""
        return [
            (effect, effect.request)
            for effect in self.effects
            if isinstance(effect, SendRequest) and isinstance(effect.request, request_type)
        ]

    def forget(self) -> None:
        self.effects = []

    def answer(self, send: SendRequest, response: Response) -> list[Effect]:
        """The answer to a request of this replica."""
        return self.handle(ReceivedResponse(send.node.id, send.correlation_id, response))

    def grant_votes(self) -> None:
        """Every voter says yes, to pre-votes and then to votes."""
        for _ in range(2):
            requests = self.sent(VoteRequest)
            self.forget()
            for send, request in requests:
                granted = VoteResponse(Errors.NONE, None, request.replica_epoch, (), True)
                self.answer(send, granted)

    @staticmethod
    def leading(**settings: object) -> Bench:
        """A machine that was just elected."""
        bench = Bench(**settings)  # type: ignore[arg-type]
        bench.start()
        bench.advance(1000)
        bench.grant_votes()
        assert bench.machine.is_leader
        return bench

    @staticmethod
    def following(leader_id: int = 1, epoch: int = 3, **settings: object) -> Bench:
        """A machine that knows its leader from before a restart."""
        bench = Bench(election=ElectionState(epoch, leader_id), **settings)  # type: ignore[arg-type]
        bench.start()
        return bench


def batch(base_offset: int, epoch: int, *values: int) -> Batch:
    return Batch(base_offset, epoch, values)


def end(offset: int, epoch: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(offset, epoch)


def records(
    *batches: Batch, high_watermark: int | None = None, epoch: int = 3, leader_id: int | None = 1
) -> FetchResponse:
    endpoints = () if leader_id is None else (address(leader_id),)
    return FetchResponse(
        Errors.NONE, leader_id, epoch, endpoints, high_watermark, 0, records=batches
    )


def refusal(error: Errors, epoch: int = 3, leader_id: int | None = 1) -> FetchResponse:
    return records(epoch=epoch, leader_id=leader_id).replace(error=error)
