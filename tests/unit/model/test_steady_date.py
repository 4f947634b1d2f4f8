from __future__ import annotations

from kaa.model.steady_date import SteadyDate

NOON_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def at(steady: SteadyDate, passed_ms: int, shift_ms: int = 0) -> int:
    """How far the date is after noon, when so much has passed and the date was set by so much."""
    return steady.at(NOON_MS + passed_ms + shift_ms, passed_ms, DAY_MS) - NOON_MS


def test_as_long_as_nobody_sets_the_date_it_is_the_date() -> None:
    steady = SteadyDate()
    for hours in (0, 1, 30, 1_000):
        # The clock is quickened a little, too.
        assert at(steady, hours * HOUR_MS, hours) == hours * HOUR_MS + hours


def test_a_date_that_is_set_ahead_is_believed_when_all_before_it_has_expired() -> None:
    steady = SteadyDate()
    at(steady, 0)
    for hours in (1, 5, 24):
        assert at(steady, hours * HOUR_MS, 7 * DAY_MS) == hours * HOUR_MS
    assert at(steady, 25 * HOUR_MS, 7 * DAY_MS) == 25 * HOUR_MS + 7 * DAY_MS
    assert at(steady, 26 * HOUR_MS, 7 * DAY_MS) == 26 * HOUR_MS + 7 * DAY_MS


def test_a_date_that_is_set_back_is_believed_at_once() -> None:
    steady = SteadyDate()
    at(steady, 0)
    assert at(steady, HOUR_MS, -DAY_MS) == HOUR_MS - DAY_MS
    # Right again: a step ahead, as far as one can see.
    assert at(steady, 2 * HOUR_MS) == 2 * HOUR_MS - DAY_MS
    assert at(steady, 3 * HOUR_MS, -DAY_MS) == 3 * HOUR_MS - DAY_MS
