"""The rule by which two figures are ahead, even or behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches.verdicts import AHEAD, BEHIND, EVEN, NONE, judge, significant, spread

figures = st.lists(st.floats(0.001, 1e6), min_size=3, max_size=7)


def test_spread_is_half_the_distance_of_the_rounds() -> None:
    found = spread([3.0, 1.0, 2.0])
    assert (found.median, found.low, found.high, found.rounds, found.half) == (2, 1, 3, 3, 1)
    assert found.to_json() == {"median": 2, "low": 1, "high": 3, "rounds": 3}


@pytest.mark.parametrize(
    ("ours", "theirs", "higher_is_better", "word"),
    [
        ([10, 11, 12], [1, 1.1, 1.2], True, AHEAD),
        ([1, 1.1, 1.2], [10, 11, 12], True, BEHIND),
        ([1, 1.1, 1.2], [10, 11, 12], False, AHEAD),
        ([10, 11, 12], [11, 12, 11], True, EVEN),
        # A machine that is slower from round to round slows both: within each the ratio holds.
        ([100, 60, 20], [90, 55, 18], True, AHEAD),
        # One round says otherwise; three cannot decide it, nine can.
        ([100, 100, 20], [50, 51, 52], True, EVEN),
        ([100, 100, 90, 100, 110, 100, 100, 100, 40], [50] * 9, True, AHEAD),
        ([5, 5, 5], [5, 5, 5], False, EVEN),
    ],
)
def test_words(ours: list[float], theirs: list[float], higher_is_better: bool, word: str) -> None:
    assert judge(ours, theirs, higher_is_better=higher_is_better).word == word


def test_ratio_says_how_many_times_better_and_how_sure_it_is() -> None:
    fast, slow = [100.0, 110.0, 90.0], [25.0, 26.0, 24.0]
    verdict = judge(fast, slow, higher_is_better=True)
    assert (verdict.word, verdict.ratio, verdict.sure) == (AHEAD, 4.0, 99)
    assert verdict.low < 3.95 < verdict.high
    assert judge(fast, slow, higher_is_better=False).ratio == 0.25
    assert (
        str(judge([4.0] * 3, [1.0] * 3, higher_is_better=True)) == "ahead 4.00x (4.00-4.00, 99 %)"
    )


def test_two_rounds_give_no_verdict() -> None:
    verdict = judge([1.0, 2.0], [9.0] * 3, higher_is_better=True)
    assert verdict.word == NONE
    assert str(verdict) == NONE


def test_figures_of_nothing() -> None:
    nothing, something = [0.0] * 3, [2.0] * 3
    assert judge(nothing, nothing, higher_is_better=False).word == EVEN
    assert judge(something, nothing, higher_is_better=False).word == BEHIND


@given(figures, figures, st.booleans())
def test_sides_agree(ours: list[float], theirs: list[float], higher_is_better: bool) -> None:
    """What is ahead for one is behind for the other."""
    opposite = {AHEAD: BEHIND, BEHIND: AHEAD, EVEN: EVEN}
    one = judge(ours, theirs, higher_is_better=higher_is_better)
    other = judge(theirs, ours, higher_is_better=higher_is_better)
    assert other.word == opposite[one.word]
    assert one.low * other.high == pytest.approx(1)
    assert one.sure == other.sure


def test_significant_digits() -> None:
    assert significant(123456.0) == 123500
    assert significant(0.0012345) == 0.001234
