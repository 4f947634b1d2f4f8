from __future__ import annotations

from kaa.controller.heartbeats import Heartbeats


def test_sessions_end_after_the_timeout() -> None:
    heartbeats = Heartbeats(100)
    assert not heartbeats.has_session(1, 5, 0)
    heartbeats.contact(1, 5, 0)
    assert heartbeats.has_session(1, 5, 100)
    assert not heartbeats.has_session(1, 5, 101)
    assert not heartbeats.has_session(1, 6, 0)


def test_expired_sessions_are_taken_oldest_first_and_once() -> None:
    heartbeats = Heartbeats(100)
    for broker_id in (1, 2, 3):
        heartbeats.contact(broker_id, 0, broker_id)
    heartbeats.contact(1, 0, 90)
    assert heartbeats.take_expired(102) is None
    assert heartbeats.take_expired(103) == (2, 0)
    assert heartbeats.take_expired(104) == (3, 0)
    assert heartbeats.take_expired(104) is None
    assert heartbeats.take_expired(1000) == (1, 0)


def test_a_time_in_which_nobody_could_be_heard_does_not_count() -> None:
    heartbeats = Heartbeats(100)
    heartbeats.contact(1, 0, 10)
    heartbeats.contact(2, 0, 20)
    heartbeats.extend(500)
    assert heartbeats.take_expired(610) is None
    assert heartbeats.take_expired(620) == (1, 0)
    assert heartbeats.take_expired(621) == (2, 0)


def test_a_session_that_was_given_is_told_from_one_that_was_earned() -> None:
    heartbeats = Heartbeats(100)
    heartbeats.expect(1, 5, 0)
    assert heartbeats.has_session(1, 5, 100)
    assert not heartbeats.was_heard(1, 5)
    heartbeats.contact(1, 5, 50)
    assert heartbeats.was_heard(1, 5)
    heartbeats.expect(2, 6, 60)
    assert heartbeats.take_expired(151) == (1, 5)
    assert heartbeats.take_expired(161) == (2, 6)


def test_the_fencing_ends_a_controlled_shutdown() -> None:
    heartbeats = Heartbeats(100)
    progress = heartbeats.progress(1)
    progress.metadata_offset, progress.controlled_shutdown_offset = 4, 5
    heartbeats.registration_changed(1, is_fenced=False)
    assert progress.is_shutting_down
    assert progress.metadata_offset == -1
    heartbeats.registration_changed(1, is_fenced=True)
    assert not progress.is_shutting_down


def test_a_broker_that_was_forgotten_starts_over() -> None:
    heartbeats = Heartbeats(100)
    heartbeats.progress(1).metadata_offset = 4
    heartbeats.forget(1)
    heartbeats.forget(2)
    assert heartbeats.progress(1).metadata_offset == -1
