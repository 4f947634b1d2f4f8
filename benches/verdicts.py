"""Medians, their spread, and what they say about two systems.

A figure is the median of its rounds, its spread half the distance between the best and the worst.
Rounds of two systems are made in turn, so what the machine does meanwhile hits both: they are
compared within each round. The ratio of a round says how many times better Kaa is, whichever way
the unit points; the ratio of the cell is the median of them.

How sure that is: the logarithms of the ratios have a mean and an interval around it (Student's t).
Kaa is *ahead* or *behind* where the interval of `SURE_PERCENT` per cent leaves out even terms,
otherwise the two are *even*: as far as these rounds can tell. More rounds make the interval
smaller, so the runner adds some to cells that are even, up to `ROUNDS_MAX`.

Fewer than `ROUNDS_MIN` rounds on either side give no verdict.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS_MIN: Final = 3
ROUNDS_MAX: Final = 9
SURE_PERCENT: Final = 95
# Student's t by pairs of rounds, for two-sided intervals of so many per cent.
_STUDENT: Final = {
    3: {99: 9.925, 95: 4.303, 90: 2.920},
    4: {99: 5.841, 95: 3.182, 90: 2.353},
    5: {99: 4.604, 95: 2.776, 90: 2.132},
    6: {99: 4.032, 95: 2.571, 90: 2.015},
    7: {99: 3.707, 95: 2.447, 90: 1.943},
    8: {99: 3.499, 95: 2.365, 90: 1.895},
    9: {99: 3.355, 95: 2.306, 90: 1.860},
}
# A figure of nothing (no byte swapped, no lag seen) is that many times better or worse.
_BEYOND: Final = 1e6

AHEAD: Final = "ahead"
EVEN: Final = "even"
BEHIND: Final = "behind"
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Spread:
    """What the rounds of one side gave."""

    median: float
    low: float
    high: float
    rounds: int

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, float]:
        return {
            "median": significant(self.median),
            "low": significant(self.low),
            "high": significant(self.high),
            "rounds": self.rounds,
        }


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Kaa beside one peer in one figure."""

    word: str
    ratio: float
    # Of the ratio, at SURE_PERCENT.
    low: float
    high: float
    # The most of 90, 95 and 99 per cent at which it is not even; 0 for none of them.
    sure: int

    def __str__(self) -> str:
        if self.word == NONE:
            return self.word
        sure = f", {self.sure} %" if self.sure else ""
        return f"{self.word} {self.ratio:.2f}x ({self.low:.2f}-{self.high:.2f}{sure})"

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.word,
            "ratio": significant(self.ratio),
            "interval": [significant(self.low), significant(self.high)],
            "sure_percent": self.sure,
        }


def judge(ours: Sequence[float], theirs: Sequence[float], *, higher_is_better: bool) -> Verdict:
    """Compares round by round; what one side has more of has no pair and does not count."""
    better, worse = (ours, theirs) if higher_is_better else (theirs, ours)
    ratios = [_ratio(one, other) for one, other in zip(better, worse, strict=False)][:ROUNDS_MAX]
    ratio = statistics.median(ratios)
    if len(ratios) < ROUNDS_MIN:
        return Verdict(NONE, ratio, ratio, ratio, 0)
    logarithms = [math.log(one) for one in ratios]
    mean = statistics.fmean(logarithms)
    error = statistics.stdev(logarithms) / math.sqrt(len(ratios))
    student = _STUDENT[len(ratios)]
    half = student[SURE_PERCENT] * error
    sure = next((percent for percent, t in student.items() if abs(mean) > t * error), 0)
    word = EVEN
    if sure >= SURE_PERCENT:
        word = AHEAD if mean > 0 else BEHIND
    return Verdict(word, ratio, math.exp(mean - half), math.exp(mean + half), sure)


def _ratio(better: float, worse: float) -> float:
    if better == worse:
        return 1.0
    return min(_BEYOND, max(1 / _BEYOND, better / worse if worse else _BEYOND))


def significant(value: float, digits: int = 4) -> float:
    """Rounded to what a measurement can tell."""
    return float(f"{value:.{digits}g}")
