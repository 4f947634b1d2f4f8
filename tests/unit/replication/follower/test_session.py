from __future__ import annotations

from kaa.replication.follower.session import FetchPlan, FetchPosition, FetchSession
from kaa.wire.errors import Errors
from tests.support.ids import uuid

TOPIC = uuid(1)
A, B, C = ((TOPIC, number) for number in range(3))


def at(offset: int, leader_epoch: int = 0) -> FetchPosition:
    return FetchPosition(offset, leader_epoch, -1, 0, 1_000)


def begun() -> FetchSession:
    """A session 7 that knows of A and B."""
    session = FetchSession()
    session.want(A, at(0))
    session.want(B, at(0))
    assert session.plan() == FetchPlan(0, 0, {A: at(0), B: at(0)}, [])
    assert session.answered(0, 7)
    return session


def test_nothing_wanted_is_nothing_to_fetch() -> None:
    session = FetchSession()
    assert session.plan() is None
    session.want(A, at(0))
    session.drop(A)
    assert session.plan() is None


def test_only_changes_are_named() -> None:
    session = begun()
    assert session.plan() == FetchPlan(7, 1, {}, [])
    assert session.answered(0, 7)
    session.want(A, at(5))
    session.want(B, at(0))
    session.want(C, at(3))
    assert session.plan() == FetchPlan(7, 2, {A: at(5), C: at(3)}, [])
    assert session.answered(0, 7)
    session.drop(B)
    assert session.plan() == FetchPlan(7, 3, {}, [B])


def test_a_new_leader_epoch_and_an_end_that_went_down_are_changes() -> None:
    session = begun()
    session.want(A, at(0, leader_epoch=1))
    plan = session.plan()
    assert plan is not None
    assert plan.partitions == {A: at(0, leader_epoch=1)}


def test_what_comes_back_is_not_forgotten() -> None:
    session = begun()
    session.drop(A)
    session.want(A, at(0))
    assert session.plan() == FetchPlan(7, 1, {A: at(0)}, [])


def test_a_leader_without_room_for_sessions_gets_full_fetches() -> None:
    session = FetchSession()
    session.want(A, at(0))
    for _ in range(2):
        assert session.plan() == FetchPlan(0, 0, {A: at(0)}, [])
        assert session.answered(0, 0)


def test_errors_begin_a_new_session() -> None:
    for error in (Errors.FETCH_SESSION_ID_NOT_FOUND, Errors.INVALID_FETCH_SESSION_EPOCH):
        session = begun()
        session.want(A, at(9))
        session.plan()
        assert not session.answered(error, 0)
        assert session.plan() == FetchPlan(7, 0, {B: at(0), A: at(9)}, [])


def test_a_closed_session_and_one_of_somebody_else() -> None:
    session = begun()
    session.plan()
    assert session.answered(0, 0)
    plan = session.plan()
    assert plan is not None
    assert plan.session_epoch == 0
    session = begun()
    session.plan()
    assert not session.answered(0, 8)


def test_the_epoch_starts_over() -> None:
    session = begun()
    session._epoch = 2**31 - 1
    plan = session.plan()
    assert plan is not None
    assert plan.session_epoch == 2**31 - 1
    assert session.answered(0, 7)
    assert session.plan() == FetchPlan(7, 1, {}, [])
