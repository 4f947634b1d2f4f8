"""Controllers that become voters by themselves."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kaa import limits
from kaa.quorum import (
    ErrorResponse,
    FetchRequest,
    Node,
    ReplicaKey,
    Report,
    Shutdown,
    Stopped,
    VoterNode,
    VoterSet,
    VoterSetRead,
)
from kaa.quorum.messages import AddVoterRequest, RemoveVoterRequest, VoterChangeResponse
from kaa.quorum.voters import KRAFT_VERSIONS
from kaa.wire.errors import Errors
from tests.simulation.quorum.node import CLUSTER_ID, address, directory_id
from tests.unit.quorum.bench import Bench, key, records, refusal


def joining() -> Bench:
    """A controller that is not a voter and follows leader 1, whom it has asked to be taken."""
    bench = Bench(9, joins_by_itself=True, bootstrap=(Node(-2, address(1).host, address(1).port),))
    bench.start()
    ask_to_join(bench)
    return bench


def ask_to_join(bench: Bench, seconds: int = 10, leader_id: int = 1, epoch: int = 1) -> None:
    """Time passes, with fetches that find nothing new, until the next question."""
    for _ in range(seconds * 4):
        if bench.sent(AddVoterRequest):
            return
        fetches = bench.sent(FetchRequest)
        bench.forget()
        for send, _ in fetches:
            bench.answer(send, records(epoch=epoch, leader_id=leader_id, high_watermark=0))
        bench.advance(250)


def refuse(bench: Bench, error: Errors) -> list[str]:
    """Answers the question; what the replica has to say about that."""
    ((send, request),) = bench.sent(AddVoterRequest)
    assert send.node.id == 1
    assert not request.ack_when_committed
    bench.forget()
    new = bench.answer(send, VoterChangeResponse(error, "a reason"))
    return [effect.message for effect in new if isinstance(effect, Report)]


@pytest.mark.parametrize("error", [Errors.REQUEST_TIMED_OUT, Errors.NOT_LEADER_OR_FOLLOWER])
def test_a_controller_that_may_join_later_asks_again_without_a_word(error: Errors) -> None:
    bench = joining()
    for _ in range(3):
        assert refuse(bench, error) == []
        ask_to_join(bench)
        assert bench.sent(AddVoterRequest)


def test_what_only_people_can_change_is_told_once_and_asked_for_slowly() -> None:
    bench = joining()
    (told,) = refuse(bench, Errors.DUPLICATE_VOTER)
    assert "DUPLICATE_VOTER (a reason); give it a node.id that no other" in told
    ask_to_join(bench, limits.QUORUM_JOIN_REFUSED_PAUSE_MS // 1000 - 10)
    assert not bench.sent(AddVoterRequest)
    ask_to_join(bench, 20)
    assert refuse(bench, Errors.DUPLICATE_VOTER) == []
    ask_to_join(bench, 70)
    assert refuse(bench, Errors.INVALID_REQUEST) != []


def test_a_controller_with_a_new_disk_takes_its_old_vote_away_first() -> None:
    """One thing at a time, once in a while, and then it asks to be taken."""
    old = VoterNode(ReplicaKey(9, directory_id(8)), (address(9),), KRAFT_VERSIONS)
    others = [VoterNode(key(each), (address(each),), KRAFT_VERSIONS) for each in (1, 2)]
    bench = Bench(
        9,
        VoterSet.of([*others, old]),
        joins_by_itself=True,
        bootstrap=(Node(-2, address(1).host, address(1).port),),
    )
    bench.start()
    asked_ms = []
    for _ in range(80):
        removals, fetches = bench.sent(RemoveVoterRequest), bench.sent(FetchRequest)
        assert not bench.sent(AddVoterRequest)
        bench.forget()
        for removal, request in removals:
            assert (removal.node.id, request.key) == (1, old.key)
            asked_ms.append(bench.now_ms)
            bench.answer(removal, VoterChangeResponse(Errors.REQUEST_TIMED_OUT, ""))
        for send, _ in fetches:
            bench.answer(send, records(epoch=1, high_watermark=0))
        bench.advance(250)
    assert len(asked_ms) > 3
    assert min(then - now for now, then in pairwise(asked_ms)) >= 2000
    bench.handle(VoterSetRead(5, VoterSet.of(others)))
    ask_to_join(bench)
    ((_, asked),) = bench.sent(AddVoterRequest)
    assert asked.key == key(9)


def test_nobody_joins_where_the_settings_say_who_votes() -> None:
    bench = Bench(
        9,
        joins_by_itself=True,
        kraft_version=0,
        bootstrap=(Node(-2, address(1).host, address(1).port),),
    )
    bench.start()
    ask_to_join(bench, 30)
    assert not bench.sent(AddVoterRequest)
    assert bench.sent(FetchRequest), "it follows all the same"


def test_a_leader_that_is_too_old_to_be_asked_is_told_of_once() -> None:
    """It fails on the way: the leader has no version that can carry the question."""
    bench = joining()
    reports = []
    for pause_seconds in (10, limits.QUORUM_JOIN_REFUSED_PAUSE_MS // 1000 + 20, 0):
        sent = bench.sent(AddVoterRequest)
        bench.forget()
        for send, _ in sent:
            new = bench.answer(send, ErrorResponse(Errors.UNSUPPORTED_VERSION))
            reports += [effect.message for effect in new if isinstance(effect, Report)]
        ask_to_join(bench, pause_seconds)
        assert bool(bench.sent(AddVoterRequest)) == (pause_seconds > 60)
    (told,) = reports
    assert "UNSUPPORTED_VERSION" in told
    assert "with all controllers up to date" in told


def test_who_does_not_join_by_itself_does_not_ask() -> None:
    bench = Bench(9, bootstrap=(Node(-2, address(1).host, address(1).port),))
    bench.start()
    ask_to_join(bench)
    assert not bench.sent(AddVoterRequest)
    assert bench.sent(FetchRequest)


def test_a_controller_that_joins_asks_the_leader_that_answers_name() -> None:
    bench = joining()
    assert refuse(bench, Errors.NOT_LEADER_OR_FOLLOWER) == []
    # Another one leads by now, says the one it follows.
    for send, _ in bench.sent(FetchRequest):
        bench.answer(send, refusal(Errors.FENCED_LEADER_EPOCH, epoch=2, leader_id=2))
    assert bench.machine.leader_id == 2
    ask_to_join(bench, leader_id=2, epoch=2)
    ((send, request),) = bench.sent(AddVoterRequest)
    assert send.node.id == 2
    # As the quorum writes it, not as some library prints a UUID.
    assert request.cluster_id == CLUSTER_ID


def test_a_controller_that_joins_stops_with_its_node() -> None:
    bench = joining()
    assert Stopped(clean=True) in bench.handle(Shutdown(1_000))
    bench.forget()
    bench.advance(600_000)
    assert not bench.effects
