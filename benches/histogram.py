"""Latencies in an HDR histogram: microseconds, three digits, up to a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hdrh.histogram import HdrHistogram

if TYPE_CHECKING:
    from collections.abc import Iterable

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
# Where the curves of the plots are looked at: ever closer to all.
CURVE: Final = (0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)
_MICROSECONDS_MAX: Final = 60_000_000
_DIGITS: Final = 3


class Latencies:
    """Adds up what many runs saw; travels between processes as text."""

    def __init__(self, microseconds: Iterable[float] = ()) -> None:
        self._histogram: Any = HdrHistogram(1, _MICROSECONDS_MAX, _DIGITS)
        for value in microseconds:
            self._histogram.record_value(min(_MICROSECONDS_MAX, max(1, round(value))))

    @classmethod
    def from_text(cls, text: str) -> Latencies:
        found = cls()
        found.add(text)
        return found

    def to_text(self) -> str:
        encoded: bytes = self._histogram.encode()
        return encoded.decode()

    def add(self, text: str) -> None:
        self._histogram.decode_and_add(text.encode())

    @property
    def count(self) -> int:
        return int(self._histogram.get_total_count())

    def milliseconds(self, percent: float) -> float:
        return float(self._histogram.get_value_at_percentile(percent)) / 1e3

    def figures(self) -> dict[str, float]:
        """By name, as they stand in results."""
        found = {f"p{percent:g}_ms": self.milliseconds(percent) for percent in PERCENTILES}
        return found | {"max_ms": float(self._histogram.get_max_value()) / 1e3}

    def curve(self) -> list[tuple[float, float]]:
        """Percentile and milliseconds, for a plot."""
        return [(percent, self.milliseconds(percent)) for percent in CURVE]
