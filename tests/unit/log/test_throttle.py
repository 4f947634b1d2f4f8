"""Rests between pieces of work."""

from __future__ import annotations

import pytest

from kaa.log.throttle import PERIOD_SECONDS, Throttle


def test_work_below_the_rate_needs_no_rest() -> None:
    throttle = Throttle(10.0)
    assert throttle.rest_seconds(50, 1000.0, 10.1) == 0.0


def test_work_above_the_rate_rests_until_it_is_not() -> None:
    throttle = Throttle(10.0)
    assert throttle.rest_seconds(500, 1000.0, 10.1) == pytest.approx(0.4)
    # The rest has begun a new period, in which nothing was done yet.
    assert throttle.rest_seconds(600, 1000.0, 10.5) == pytest.approx(0.1)


def test_idleness_is_no_credit() -> None:
    throttle = Throttle(0.0)
    assert throttle.rest_seconds(0, 1000.0, 3600.0) == 0.0
    assert throttle.rest_seconds(1000, 1000.0, 3600.0) == pytest.approx(1.0)


def test_the_rate_holds_over_many_small_pieces() -> None:
    throttle = Throttle(0.0)
    now, total = 0.0, 0
    for _ in range(1000):
        total += 100
        now += 0.001
        now += throttle.rest_seconds(total, 10_000.0, now)
    assert now == pytest.approx(10.0, abs=PERIOD_SECONDS)
