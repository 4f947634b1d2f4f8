"""The rule by which two figures are ahead, even or behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches.verdicts import AHEAD, BEHIND, EVEN, NONE, Verdict, judge, significant, spread

figures = st.lists(st.floats(0.001, 1e6), min_size=3, max_size=7)


def test_spread_is_half_the_distance_of_the_rounds() -> None:
    found = spread([3.0, 1.0, 2.0])
    assert (found.median, found.low, found.high, found.rounds, found.half) == (2, 1, 3, 3, 1)
    assert found.to_json() == {"median": 2, "low": 1, "high": 3, "rounds": 3}


@pytest.mark.parametrize(
    ("ours", "theirs", "higher_is_better", "word"),
    [
        ([10, 11, 12], [1, 2, 3], True, AHEAD),
        ([1, 2, 3], [10, 11, 12], True, BEHIND),
        ([1, 2, 3], [10, 11, 12], False, AHEAD),
        ([10, 11, 12], [1, 2, 3], False, BEHIND),
        ([10, 11, 12], [11, 12, 13], True, EVEN),
        # The intervals just meet, and just do not.
        ([10, 11, 12], [12, 13, 14], True, EVEN),
        ([10, 11, 12], [12, 13.1, 14], True, BEHIND),
        # One bad round widens the interval, but does not move the median.
        ([100, 100, 20], [50, 51, 52], True, AHEAD),
        ([5, 5, 5], [5, 5, 5], False, EVEN),
    ],
)
def test_words(ours: list[float], theirs: list[float], higher_is_better: bool, word: str) -> None:
    assert judge(spread(ours), spread(theirs), higher_is_better=higher_is_better).word == word


def test_ratio_says_how_many_times_better() -> None:
    fast, slow = spread([100.0] * 3), spread([25.0] * 3)
    assert judge(fast, slow, higher_is_better=True) == Verdict(AHEAD, 4.0)
    assert judge(fast, slow, higher_is_better=False) == Verdict(BEHIND, 0.25)
    assert str(judge(fast, slow, higher_is_better=True)) == "ahead 4.00x"


def test_two_rounds_give_no_verdict() -> None:
    verdict = judge(spread([1.0, 2.0]), spread([9.0] * 3), higher_is_better=True)
    assert verdict.word == NONE
    assert str(verdict) == NONE


def test_figures_of_nothing() -> None:
    nothing, something = spread([0.0] * 3), spread([2.0] * 3)
    assert judge(nothing, nothing, higher_is_better=False).word == EVEN
    assert judge(something, nothing, higher_is_better=False).ratio == 0


@given(figures, figures, st.booleans())
def test_sides_agree(ours: list[float], theirs: list[float], higher_is_better: bool) -> None:
    """What is ahead for one is behind for the other."""
    opposite = {AHEAD: BEHIND, BEHIND: AHEAD, EVEN: EVEN}
    one = judge(spread(ours), spread(theirs), higher_is_better=higher_is_better)
    other = judge(spread(theirs), spread(ours), higher_is_better=higher_is_better)
    assert other.word == opposite[one.word]
    assert one.ratio * other.ratio == pytest.approx(1)


def test_significant_digits() -> None:
    assert significant(123456.0) == 123500
    assert significant(0.0012345) == 0.001234
