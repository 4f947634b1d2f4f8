from __future__ import annotations

from kaa.tier.metadata.cache import RemoteLogCache
from kaa.tier.metadata.model import EpochStart, SegmentMetadata, SegmentState
from kaa.tier.plan import (
    Closed,
    Expiry,
    Reason,
    Retention,
    copied_up_to,
    epochs_within,
    to_copy,
    to_expire,
)
from tests.unit.tier.metadata.samples import segment, update

FINISHED = SegmentState.COPY_SEGMENT_FINISHED
EPOCHS = [EpochStart(0, 0), EpochStart(2, 20), EpochStart(3, 40)]
FOREVER = Retention(-1, -1)


def copied(*segments: SegmentMetadata) -> RemoteLogCache:
    cache = RemoteLogCache()
    for number, one in enumerate(segments, 1):
        cache.announce(one)
        assert cache.update(update(number, FINISHED))
    return cache


def numbers(expiry: Expiry) -> list[tuple[int, Reason]]:
    return [(int.from_bytes(one.segment.segment_id, "big"), one.reason) for one in expiry.deletions]


def expire(cache: RemoteLogCache, retention: Retention = FOREVER, **changes: int) -> Expiry:
    facts = {"log_start_offset": 0, "log_end_offset": 100, "local_only_bytes": 0, "now_ms": 2_000}
    facts |= changes
    return to_expire(cache, EPOCHS, retention=retention, **facts)  # type: ignore[arg-type]


def test_how_far_the_store_is() -> None:
    assert copied_up_to(RemoteLogCache(), EPOCHS, 100) == -1
    assert copied_up_to(copied(segment(1, 0, 9, (0, 0))), EPOCHS, 100) == 9
    assert copied_up_to(copied(segment(1, 30, 59, (2, 30), (3, 40))), EPOCHS, 100) == 59
    # A leader that was lost copied more of its epoch than came to stay.
    assert copied_up_to(copied(segment(1, 0, 33, (0, 0))), EPOCHS, 100) == 19
    assert copied_up_to(copied(segment(1, 40, 120, (3, 40))), EPOCHS, 100) == 99
    # An epoch that this log never had says nothing.
    assert copied_up_to(copied(segment(1, 20, 39, (1, 20))), EPOCHS, 100) == -1


def test_closed_segments_below_the_last_stable_offset_are_copied() -> None:
    bases = [0, 10, 25, 50]
    assert to_copy(bases, 0, 100) == [Closed(0, 10), Closed(10, 25), Closed(25, 50)]
    assert to_copy(bases, 10, 100) == [Closed(10, 25), Closed(25, 50)]
    assert to_copy(bases, 0, 49) == [Closed(0, 10), Closed(10, 25)]
    assert to_copy(bases, 0, 5) == []
    assert to_copy([7], 7, 100) == []


def test_epochs_of_a_segment() -> None:
    assert epochs_within(EPOCHS, 0, 20) == (EpochStart(0, 0),)
    assert epochs_within(EPOCHS, 10, 45) == (
        EpochStart(0, 10),
        EpochStart(2, 20),
        EpochStart(3, 40),
    )
    assert epochs_within(EPOCHS, 50, 60) == (EpochStart(3, 50),)


def test_nothing_expires_without_limits() -> None:
    cache = copied(segment(1, 0, 9), segment(2, 10, 19))
    assert expire(cache) == Expiry(0, ())


def test_below_the_log_start() -> None:
    cache = copied(segment(1, 0, 9), segment(2, 10, 19))
    assert numbers(expire(cache, log_start_offset=10)) == [(1, Reason.START)]
    assert numbers(expire(cache, log_start_offset=19)) == [(1, Reason.START)]


def test_by_size_while_enough_is_left() -> None:
    cache = copied(segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29, (2, 20)))
    found = expire(cache, Retention(-1, 250), local_only_bytes=150)
    assert numbers(found) == [(1, Reason.SIZE), (2, Reason.SIZE)]
    assert found.log_start_offset == 20
    assert numbers(expire(cache, Retention(-1, 450), local_only_bytes=150)) == []


def test_by_time_until_the_first_that_is_young() -> None:
    # Their newest records are of 1009, 1019 and, out of order, 1005.
    cache = copied(
        segment(1, 0, 9),
        segment(2, 10, 19),
        segment(3, 20, 29, (2, 20))._replace(max_timestamp_ms=1_005),
    )
    found = expire(cache, Retention(985, -1))
    assert numbers(found) == [(1, Reason.TIME)]
    assert found.log_start_offset == 10
    assert numbers(expire(cache, Retention(100, -1))) == [
        (1, Reason.TIME),
        (2, Reason.TIME),
        (3, Reason.TIME),
    ]


def test_a_segment_outside_the_log_is_not_judged_by_its_age() -> None:
    # Of epoch 0 this log has only what is before 20.
    cache = copied(segment(1, 0, 33), segment(2, 20, 39, (2, 20)))
    found = expire(cache, Retention(1, -1))
    assert numbers(found) == [(2, Reason.TIME)]
    assert found.log_start_offset == 40


def test_epochs_that_are_gone_from_the_log() -> None:
    cache = copied(segment(1, 0, 9), segment(2, 20, 29, (2, 20)))
    later = [EpochStart(2, 25), EpochStart(3, 40)]
    found = to_expire(
        cache,
        later,
        log_start_offset=25,
        log_end_offset=100,
        local_only_bytes=0,
        retention=FOREVER,
        now_ms=2_000,
    )
    assert numbers(found) == [(1, Reason.EPOCH)]


def test_an_epoch_without_records_does_not_matter() -> None:
    """The log has forgotten it: it ends where the next one begins."""
    cache = copied(segment(1, 10, 29, (0, 10), (1, 20), (2, 20)))
    assert numbers(expire(cache, log_start_offset=30)) == [(1, Reason.START)]


def test_what_was_interrupted() -> None:
    cache = copied(segment(1, 0, 9), segment(2, 10, 19))
    cache.update(update(1, SegmentState.DELETE_SEGMENT_STARTED))
    cache.announce(segment(3, 20, 29, (2, 20)))
    cache.announce(ours := segment(4, 30, 39, (2, 30)))
    found = to_expire(
        cache,
        EPOCHS,
        log_start_offset=10,
        log_end_offset=100,
        local_only_bytes=0,
        retention=FOREVER,
        now_ms=2_000,
        copying={ours.segment_id},
    )
    assert numbers(found) == [(1, Reason.LEFTOVER), (3, Reason.LEFTOVER)]
