from __future__ import annotations

from itertools import count

from kaa.serving.fetch_sessions import (
    EPOCH_FINAL,
    EPOCH_INITIAL,
    FetchContext,
    FetchSessions,
    PartitionKey,
    Position,
)
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import PartitionData
from kaa.wire.primitives import UUID_ZERO


def key(number: int) -> PartitionKey:
    return PartitionKey("t", UUID_ZERO, number)


def positions(*numbers: int, offset: int = 0) -> dict[PartitionKey, Position]:
    return {key(number): Position(offset, 1000) for number in numbers}


class Sessions:
    """Sessions with ids 1, 2, 3, ... and short calls."""

    def __init__(self, sessions_max: int = 10, eviction_ms: int = 100) -> None:
        self.cache = FetchSessions(sessions_max, eviction_ms, count(1).__next__)

    def fetch(
        self,
        session_id: int,
        epoch: int,
        asked: dict[PartitionKey, Position],
        *,
        forgotten: tuple[PartitionKey, ...] = (),
        follower: bool = False,
        ids: bool = True,
        now_ms: int = 0,
    ) -> FetchContext:
        return self.cache.context(
            session_id,
            epoch,
            asked,
            list(forgotten),
            is_follower=follower,
            uses_ids=ids,
            now_ms=now_ms,
        )


def test_full_fetch_outside_of_a_session() -> None:
    sessions = Sessions()
    context = sessions.fetch(0, EPOCH_FINAL, positions(0, 1))
    assert context.session_id == 0
    assert list(context.positions) == [key(0), key(1)]
    assert len(sessions.cache) == 0


def test_session_is_made_and_goes_on_by_epoch() -> None:
    sessions = Sessions()
    context = sessions.fetch(0, EPOCH_INITIAL, positions(0, 1))
    assert context.session_id == 1
    following = sessions.fetch(1, 1, positions(1, offset=5))
    assert following.positions == {key(0): Position(0, 1000), key(1): Position(5, 1000)}
    assert sessions.fetch(1, 1, {}).error is Errors.INVALID_FETCH_SESSION_EPOCH
    assert sessions.fetch(1, 2, {}).error is Errors.NONE


def test_epoch_wraps_to_one() -> None:
    sessions = Sessions()
    sessions.fetch(0, EPOCH_INITIAL, positions(0))
    sessions.cache._sessions[1].epoch = 2**31 - 1
    assert sessions.fetch(1, 2**31 - 1, {}).error is Errors.NONE
    assert sessions.fetch(1, 1, {}).error is Errors.NONE


def test_unknown_session_and_mixed_ids_are_refused() -> None:
    sessions = Sessions()
    assert sessions.fetch(7, 1, {}).error is Errors.FETCH_SESSION_ID_NOT_FOUND
    sessions.fetch(0, EPOCH_INITIAL, positions(0))
    assert sessions.fetch(1, 1, {}, ids=False).error is Errors.FETCH_SESSION_TOPIC_ID_ERROR


def test_full_fetch_ends_the_named_session() -> None:
    sessions = Sessions()
    sessions.fetch(0, EPOCH_INITIAL, positions(0))
    assert sessions.fetch(1, EPOCH_INITIAL, positions(0)).session_id == 2
    assert sessions.fetch(1, 1, {}).error is Errors.FETCH_SESSION_ID_NOT_FOUND
    sessions.fetch(2, EPOCH_FINAL, positions(0))
    assert len(sessions.cache) == 0


def test_session_without_partitions_ends() -> None:
    sessions = Sessions()
    sessions.fetch(0, EPOCH_INITIAL, positions(0))
    context = sessions.fetch(1, 1, {}, forgotten=(key(0),))
    assert context.session_id == 0
    assert context.positions == {}
    assert len(sessions.cache) == 0
    assert sessions.fetch(0, EPOCH_INITIAL, {}).session_id == 0


def test_only_news_is_told() -> None:
    sessions = Sessions()
    sessions.fetch(0, EPOCH_INITIAL, positions(0, 1, 2))

    def told(context: FetchContext, number: int, *, data: bool, high: int, low: int = 0) -> bool:
        records = b"records" if data else b""
        part = PartitionData(high_watermark=high, log_start_offset=low, records=records)
        return context.note_sent(key(number), part)

    first = sessions.fetch(1, 1, {})
    assert all(told(first, number, data=False, high=0) for number in range(3))
    second = sessions.fetch(1, 2, {})
    assert not told(second, 0, data=False, high=0)
    assert told(second, 0, data=False, high=1)
    assert told(second, 1, data=True, high=0)
    assert told(second, 2, data=False, high=0, low=1)
    # What had data goes to the back, so that the others come first in the next answer.
    assert list(sessions.fetch(1, 3, {}).positions) == [key(0), key(2), key(1)]


def test_everything_is_news_outside_of_a_session() -> None:
    context = Sessions().fetch(0, EPOCH_FINAL, positions(0))
    for _ in range(2):
        assert context.note_sent(key(0), PartitionData(high_watermark=0, log_start_offset=0))


def test_full_cache_serves_without_a_session() -> None:
    sessions = Sessions(sessions_max=1)
    sessions.fetch(0, EPOCH_INITIAL, positions(0))
    assert sessions.fetch(0, EPOCH_INITIAL, positions(0)).session_id == 0


def test_session_used_longest_ago_makes_room() -> None:
    sessions = Sessions(sessions_max=2)
    sessions.fetch(0, EPOCH_INITIAL, positions(0))
    sessions.fetch(0, EPOCH_INITIAL, positions(0), now_ms=50)
    sessions.fetch(1, 1, {}, now_ms=60)
    assert sessions.fetch(0, EPOCH_INITIAL, positions(0), now_ms=151).session_id == 3
    assert sessions.fetch(2, 1, {}).error is Errors.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.fetch(1, 2, {}).error is Errors.NONE
    assert sessions.cache.evicted_count == 1


def test_lesser_session_makes_room() -> None:
    sessions = Sessions(sessions_max=2)
    sessions.fetch(0, EPOCH_INITIAL, positions(0))
    sessions.fetch(0, EPOCH_INITIAL, positions(0, 1, 2))
    for session in (1, 2):
        sessions.fetch(session, 1, {}, now_ms=100)
    # Both are settled and lately used; the smaller one has fewer partitions than the new one.
    assert sessions.fetch(0, EPOCH_INITIAL, positions(0, 1), now_ms=150).session_id == 3
    assert sessions.fetch(1, 2, {}, now_ms=150).error is Errors.FETCH_SESSION_ID_NOT_FOUND


def test_follower_displaces_a_consumer_at_once() -> None:
    sessions = Sessions(sessions_max=1)
    sessions.fetch(0, EPOCH_INITIAL, positions(0, 1, 2))
    assert sessions.fetch(0, EPOCH_INITIAL, positions(0), follower=True).session_id == 2
    assert sessions.fetch(0, EPOCH_INITIAL, positions(0, 1)).session_id == 0
