from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaa.quorum
from kaa.quorum import (
    BeginQuorumEpochRequest,
    Effect,
    ElectionState,
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    FetchSnapshotRequest,
    HighWatermarkAdvanced,
    LeaderChanged,
    OffsetAndEpoch,
    PersistElection,
    QuorumError,
    QuorumMachine,
    ReceivedRequest,
    ReceivedResponse,
    ReplicaKey,
    Request,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    SendRequest,
    Start,
    Stopped,
    Tick,
    VoteRequest,
    VoterSetHistory,
)
from kaa.quorum.machine import QuorumDescription, ReplicaDescription
from kaa.quorum.messages import ApiVersionsResponse, VoterChangeResponse
from kaa.wire.errors import Errors
from tests.simulation.quorum.node import CLUSTER_ID, LISTENER, address
from tests.unit.quorum.bench import Bench, NoJitter, batch, key
from tests.unit.quorum.test_serving import fetch

PURE = {
    *("__init__", "config", "connections", "duties", "effects", "election", "events", "leader"),
    *("log_view", "machine", "messages", "replica", "replies", "serving", "states"),
    *("transitions", "values", "voter_changes", "voters"),
}
ALLOWED = {"__future__", "bisect", "collections", "enum", "functools", "typing", "kaa"}


@pytest.mark.parametrize("name", sorted(PURE))
def test_the_machine_imports_nothing_that_acts(name: str) -> None:
    path = Path(kaa.quorum.__file__).with_name(f"{name}.py")
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module)
    assert {module.split(".")[0] for module in imported} <= ALLOWED
    inside = {module for module in imported if module.startswith("kaa.")}
    model = {"kaa.model.nodes", "kaa.model.seams", "kaa.model.words"}
    below = {*model, "kaa.wire.errors", "kaa.wire.primitives"}
    assert inside <= {f"kaa.quorum.{other}" for other in PURE} | below


def test_a_replica_needs_an_identity() -> None:
    for local in (ReplicaKey(1), ReplicaKey(-1, key(1).directory_id)):
        with pytest.raises(ValueError, match="needs an id and a directory id"):
            QuorumMachine(
                cluster_id=CLUSTER_ID,
                local=local,
                local_endpoints=(),
                listener=LISTENER,
                log=Bench().log,
                random=NoJitter(),
                voters=VoterSetHistory(),
            )


def test_time_does_not_go_back() -> None:
    bench = Bench()
    bench.now_ms = 5
    bench.start()
    bench.now_ms = 4
    with pytest.raises(ValueError, match="time went back"):
        bench.handle(Tick())


def test_a_quorum_of_one_leads_and_commits_without_waiting() -> None:
    bench = Bench(voters=1, batches=(batch(0, 2, 1, 2),))
    kinds = [type(effect).__name__ for effect in bench.start()]
    assert kinds == [
        "LeaderChanged",
        "LeaderChanged",
        "PersistElection",
        "LeaderChanged",
        "AppendLeaderChange",
        "HighWatermarkAdvanced",
    ]
    assert bench.now_ms == 0
    assert (bench.machine.epoch, bench.machine.high_watermark) == (3, 3)
    assert LeaderChanged(3, 0, 2) in bench.effects


@pytest.mark.parametrize(
    "election",
    [None, ElectionState(4), ElectionState(4, 0), ElectionState(4, 9), ElectionState(4, 0, key(0))],
)
def test_a_quorum_of_one_leads_whatever_it_was(election: ElectionState | None) -> None:
    bench = Bench(voters=1, election=election)
    bench.start()
    assert bench.machine.is_leader
    assert bench.machine.epoch > (0 if election is None else election.epoch)


def test_a_quorum_of_one_that_had_voted_for_itself_goes_on_in_that_epoch() -> None:
    bench = Bench(voters=1, election=ElectionState(4, None, key(0)))
    bench.start()
    assert (bench.machine.is_leader, bench.machine.epoch) == (True, 4)


def test_a_leader_describes_its_quorum() -> None:
    bench = Bench.leading()
    bench.ask(fetch(1, offset=1, last_epoch=1))
    bench.ask(fetch(8, offset=0))
    one, two, three = (voter.key for voter in bench.voters.voters)
    assert bench.machine.describe(1500) == QuorumDescription(
        0,
        1,
        1,
        (
            ReplicaDescription(one, 1, 1500, 1500),
            ReplicaDescription(two, 1, 1000, 1000),
            ReplicaDescription(three, None, None, None),
        ),
        (ReplicaDescription(key(8), 0, 1000, None),),
        bench.voters,
    )
    assert Bench.following().machine.describe(0) is None


# --- hostile peers

ids = st.integers(-1, 4)
epochs = st.integers(-1, 6)
offsets = st.integers(-1, 6)
keys = ids.map(lambda node_id: key(node_id) if node_id >= 0 else ReplicaKey(node_id))
clusters = st.sampled_from([CLUSTER_ID, None, "other"])
endpoints = st.sampled_from([(), (address(1),), (address(2), address(2)._replace(listener="B"))])
positions = st.builds(OffsetAndEpoch, offsets, epochs)

requests: st.SearchStrategy[Request] = st.one_of(
    st.builds(
        VoteRequest, clusters, st.none() | keys, keys, epochs, epochs, offsets, st.booleans()
    ),
    st.builds(BeginQuorumEpochRequest, clusters, st.none() | keys, ids, epochs, endpoints),
    st.builds(EndQuorumEpochRequest, clusters, ids, epochs, endpoints, st.lists(keys).map(tuple)),
    st.builds(FetchRequest, clusters, keys, epochs, offsets, epochs, offsets, offsets, st.just(1)),
    st.builds(FetchSnapshotRequest, clusters, keys, epochs, positions, offsets, st.just(1)),
)
benches = st.sampled_from(["leader", "follower", "unattached", "resigned", "one", "observer"])


def bench_of(name: str) -> Bench:
    if name == "leader":
        return Bench.leading(batches=(batch(0, 0, 1, 2),))
    if name == "follower":
        return Bench.following(epoch=2, batches=(batch(0, 1, 1, 2),))
    if name == "one":
        return Bench.leading(voters=1)
    if name == "observer":
        return Bench.following(epoch=2, node_id=4)
    bench = Bench(election=ElectionState(2, 0) if name == "resigned" else None)
    bench.start()
    return bench


def answered(effects: list[Effect]) -> list[int]:
    kinds = Respond | RespondWithRecords | RespondWithSnapshot
    return [effect.request_id for effect in effects if isinstance(effect, kinds)]


@settings(max_examples=300)
@given(benches, st.lists(st.tuples(requests, st.integers(0, 1500)), min_size=1, max_size=12))
def test_no_request_can_harm(name: str, steps: list[tuple[Request, int]]) -> None:
    bench = bench_of(name)
    committed = bench.machine.high_watermark or 0
    election = bench.machine.election or ElectionState()
    bench.forget()
    for request_id, (request, time_ms) in enumerate(steps, 1):
        bench._next_request_id = request_id - 1
        bench.ask(request)
        bench.advance(time_ms)
    bench.advance(10)
    replies = answered(bench.effects)
    assert sorted(replies) == list(range(1, len(steps) + 1))
    for effect in bench.effects:
        if isinstance(effect, PersistElection):
            assert effect.election.epoch >= election.epoch
            if effect.election.epoch == election.epoch:
                assert election.leader_id in (None, effect.election.leader_id)
            election = effect.election
        elif isinstance(effect, Respond) and not isinstance(
            effect.response, ErrorResponse | VoterChangeResponse | ApiVersionsResponse
        ):
            assert effect.response.leader_epoch == election.epoch
        elif isinstance(effect, HighWatermarkAdvanced):
            assert effect.high_watermark > committed
            committed = effect.high_watermark
    assert bench.machine.election == election


@settings(max_examples=300)
@given(benches, st.data())
def test_errors_of_peers_are_survived(name: str, data: st.DataObject) -> None:
    """Any error to any request, at any time: the machine goes on and sends one at a time."""
    bench = bench_of(name)
    for _ in range(data.draw(st.integers(1, 8))):
        open_sends = [effect for effect in bench.effects if isinstance(effect, SendRequest)]
        if open_sends:
            send = data.draw(st.sampled_from(open_sends))
            error = data.draw(st.sampled_from(list(Errors)))
            event = ReceivedResponse(send.node.id, send.correlation_id, ErrorResponse(error))
            bench.handle(event)
        bench.advance(data.draw(st.integers(0, 2500)))
        assert not bench.machine.is_stopped


def test_what_is_done_after_a_stop() -> None:
    bench = Bench.leading(voters=1)
    bench.machine._is_stopped = True
    assert bench.handle(ReceivedRequest(1, fetch())) == []
    assert Stopped(clean=True) != Stopped(clean=False)


def test_a_machine_must_be_started_once() -> None:
    bench = Bench()
    bench.start()
    with pytest.raises(QuorumError):
        bench.handle(Start())
