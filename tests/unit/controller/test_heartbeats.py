from __future__ import annotations

from kaa.controller.heartbeats import Heartbeats


def test_sessions_end_after_the_timeout() -> None:
    heartbeats = Heartbeats(100)
    heartbeats.register(1, is_fenced=False)
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


def test_the_lowest_offset_of_active_brokers() -> None:
    heartbeats = Heartbeats(100)
    assert heartbeats.lowest_active_offset() is None
    for broker_id, offset in ((1, 10), (2, 20), (3, 30)):
        heartbeats.register(broker_id, is_fenced=False)
        heartbeats.touch(
            broker_id, is_fenced=False, is_leaving=broker_id == 1, metadata_offset=offset
        )
    assert heartbeats.lowest_active_offset() == 10
    heartbeats.heartbeat_written(1, 15)
    assert heartbeats.lowest_active_offset() == 20
    heartbeats.touch(2, is_fenced=True, is_leaving=False, metadata_offset=25)
    assert heartbeats.lowest_active_offset() == 30
    heartbeats.remove(3)
    assert heartbeats.lowest_active_offset() is None


def test_a_controlled_shutdown_begins_once_and_ends_with_the_fencing() -> None:
    heartbeats = Heartbeats(100)
    heartbeats.register(1, is_fenced=False)
    heartbeats.heartbeat_written(1, 4)
    heartbeats.touch(1, is_fenced=False, is_leaving=True, metadata_offset=4)
    heartbeats.heartbeat_written(1, 5)
    heartbeats.heartbeat_written(1, 9)
    state = heartbeats.broker(1)
    assert state is not None
    assert state.controlled_shutdown_offset == 5
    heartbeats.register(1, is_fenced=True)
    assert not state.is_shutting_down
