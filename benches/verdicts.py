"""Medians, their spread, and what they say about two systems.

A figure is the median of its rounds. Its spread is half the distance between the best and the worst
round; the interval is the median plus and minus the spread. Two figures are *even* where their
intervals meet, otherwise the better median is *ahead*. The ratio says how many times better Kaa is,
whichever way the unit points; below 1 it is worse.

Fewer than `ROUNDS_MIN` rounds on either side give no verdict.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS_MIN: Final = 3

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

    def __str__(self) -> str:
        return self.word if self.word == NONE else f"{self.word} {self.ratio:.2f}x"

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.word, "ratio": significant(self.ratio)}


def judge(ours: Spread, theirs: Spread, *, higher_is_better: bool) -> Verdict:
    better, worse = (ours, theirs) if higher_is_better else (theirs, ours)
    # A figure of nothing (no byte swapped, no lag seen) has no ratio to speak of.
    ratio = better.median / worse.median if worse.median else float(better.median == 0)
    if min(ours.rounds, theirs.rounds) < ROUNDS_MIN:
        return Verdict(NONE, ratio)
    if abs(ours.median - theirs.median) <= ours.half + theirs.half:
        return Verdict(EVEN, ratio)
    return Verdict(AHEAD if ratio > 1 else BEHIND, ratio)


def significant(value: float, digits: int = 4) -> float:
    """Rounded to what a measurement can tell."""
    return float(f"{value:.{digits}g}")
