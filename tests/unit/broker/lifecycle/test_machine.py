from __future__ import annotations

from random import Random

import pytest

from kaa.broker.lifecycle.machine import (
    Beaten,
    DirectoriesChanged,
    DirectoryFailed,
    Effect,
    GotEpoch,
    Leave,
    Left,
    LifecycleMachine,
    LifecycleState,
    LifecycleTimes,
    Published,
    Ready,
    Refused,
    Registered,
    SendHeartbeat,
    SendRegistration,
    Start,
    Tick,
    Unfenced,
    Unreported,
)
from kaa.wire.errors import Errors
from tests.support.ids import uuid

TIMES = LifecycleTimes(
    heartbeat_interval_ms=2_000,
    retry_pause_ms=100,
    retry_pause_ms_max=1_000,
    registration_timeout_ms=60_000,
)
FENCED = Beaten(Errors.NONE, is_caught_up=False, is_fenced=True)
ALIVE = Beaten(Errors.NONE, is_caught_up=True, is_fenced=False)


def machine() -> LifecycleMachine:
    return LifecycleMachine(TIMES, 7, Random(1))


def registered(epoch: int = 42) -> LifecycleMachine:
    made = machine()
    assert made.handle(Start(), 0) == [SendRegistration(7)]
    assert made.handle(Registered(Errors.NONE, epoch), 10) == [
        GotEpoch(epoch),
        SendHeartbeat(epoch, want_fence=True, want_shut_down=False),
    ]
    return made


def running() -> LifecycleMachine:
    made = registered()
    made.handle(FENCED, 20)
    assert made.handle(Ready(), 30) == [SendHeartbeat(42, want_fence=False, want_shut_down=False)]
    assert made.handle(ALIVE, 40) == [Unfenced()]
    assert made.state.value == "running"
    return made


def after(made: LifecycleMachine) -> list[Effect]:
    """What comes at the next deadline, and nothing before it."""
    deadline_ms = made.next_deadline_ms
    assert deadline_ms is not None
    assert made.handle(Tick(), deadline_ms - 1) == []
    return made.handle(Tick(), deadline_ms)


def test_a_life() -> None:
    made = running()
    assert after(made) == [SendHeartbeat(42, want_fence=False, want_shut_down=False)]
    assert made.next_deadline_ms is None
    made.handle(ALIVE, 2_050)
    assert made.handle(Leave(5_000), 3_000) == [
        SendHeartbeat(42, want_fence=False, want_shut_down=True)
    ]
    # Its leaderships have not moved yet.
    made.handle(ALIVE, 3_010)
    assert after(made) == [SendHeartbeat(42, want_fence=False, want_shut_down=True)]
    assert made.handle(Beaten(Errors.NONE, should_shut_down=True), 3_200) == [Left(True)]
    assert made.has_left
    assert made.handle(Tick(), 10_000) == []
    assert made.next_deadline_ms is None


def test_it_hurries_when_it_has_followed_its_registration() -> None:
    made = registered(epoch=42)
    made.handle(FENCED, 20)
    made.handle(Ready(), 30)
    # Ready, and yet before its own registration: asked again soon.
    assert made.handle(FENCED, 40) == []
    assert made.handle(Published(41), 45) == []
    assert made.handle(Published(42), 50) == [
        SendHeartbeat(42, want_fence=False, want_shut_down=False)
    ]
    assert made.handle(ALIVE, 60) == [Unfenced()]


def test_a_controller_without_the_broker_makes_it_register_again_and_go_on() -> None:
    made = running()
    after(made)
    assert made.handle(Beaten(Errors.STALE_BROKER_EPOCH), 2_050) == []
    assert after(made) == [SendRegistration(42)]
    assert made.handle(Registered(Errors.NONE, 99), 3_000) == [
        GotEpoch(99),
        SendHeartbeat(99, want_fence=False, want_shut_down=False),
    ]
    assert made.state is LifecycleState.RUNNING
    assert made.broker_epoch == 99


def test_a_broker_that_leaves_does_not_register_again() -> None:
    made = running()
    made.handle(Leave(5_000), 100)
    assert made.handle(Beaten(Errors.STALE_BROKER_EPOCH), 110) == [Left(False)]
    assert made.next_deadline_ms is None


def test_failures_are_tried_again_with_longer_pauses() -> None:
    made = machine()
    made.handle(Start(), 0)
    pauses, now_ms = [], 0
    for _ in range(6):
        made.handle(Registered(Errors.REQUEST_TIMED_OUT), now_ms)
        deadline_ms = made.next_deadline_ms
        assert deadline_ms is not None
        pauses.append(deadline_ms - now_ms)
        now_ms = deadline_ms
        assert made.handle(Tick(), now_ms) == [SendRegistration(7)]
    assert 80 <= pauses[0] <= 120
    assert 2 * pauses[0] < pauses[3]
    assert pauses[-1] <= 1_200


@pytest.mark.parametrize(
    "error",
    [Errors.INCONSISTENT_CLUSTER_ID, Errors.UNSUPPORTED_VERSION, Errors.INVALID_REGISTRATION],
)
def test_what_no_time_heals_is_final(error: Errors) -> None:
    made = machine()
    made.handle(Start(), 0)
    assert made.handle(Registered(error), 5) == [Refused(error)]
    assert made.has_left


def test_a_registration_that_never_succeeds_is_given_up() -> None:
    made = machine()
    made.handle(Start(), 0)
    made.handle(Registered(Errors.DUPLICATE_BROKER_REGISTRATION), 59_990)
    assert made.next_deadline_ms == 60_000
    assert made.handle(Tick(), 60_000) == [Refused(Errors.REQUEST_TIMED_OUT)]


def test_leaving_is_not_waited_for_for_ever() -> None:
    made = running()
    made.handle(Leave(1_000), 100)
    # Nobody answers.
    assert made.next_deadline_ms == 1_100
    assert made.handle(Tick(), 1_100) == [Left(False)]


def test_who_never_came_leaves_at_once() -> None:
    made = machine()
    made.handle(Start(), 0)
    assert made.handle(Leave(1_000), 1) == [Left(False)]


def test_a_request_that_is_under_way_is_waited_for() -> None:
    made = running()
    after(made)
    assert made.handle(Leave(5_000), 2_045) == []
    assert made.handle(ALIVE, 2_050) == []
    assert after(made) == [SendHeartbeat(42, want_fence=False, want_shut_down=True)]


HEARTBEAT = SendHeartbeat(42, want_fence=False, want_shut_down=False)


def test_failed_directory_is_told_at_once() -> None:
    made = running()
    assert made.handle(DirectoryFailed(uuid(1), 30_000), 100) == [HEARTBEAT]
    assert made.handle(Beaten(Errors.NONE, is_fenced=False, offline=(uuid(1),)), 110) == []
    assert made.handle(Tick(), 30_100) == [HEARTBEAT]
    assert made.state is LifecycleState.RUNNING


def test_directory_that_fails_during_a_heartbeat_is_told_by_the_next_one() -> None:
    made = running()
    assert made.handle(Tick(), 2_040) == [HEARTBEAT]
    assert made.handle(DirectoryFailed(uuid(1), 30_000), 2_050) == []
    assert made.handle(ALIVE, 2_060) == [HEARTBEAT]


def test_broker_that_cannot_tell_of_a_failed_directory_stops() -> None:
    made = running()
    made.handle(DirectoryFailed(uuid(1), 500), 100)
    assert made.handle(Beaten(Errors.NETWORK_EXCEPTION), 110) == []
    assert made.next_deadline_ms is not None
    assert made.next_deadline_ms <= 600
    made.handle(Tick(), 400)
    assert made.handle(Tick(), 600) == [Unreported(uuid(1))]
    assert made.has_left


def test_changed_directories_are_told_at_once() -> None:
    made = running()
    assert made.handle(DirectoriesChanged(), 100) == [HEARTBEAT]
