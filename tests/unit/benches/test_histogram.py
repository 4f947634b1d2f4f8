"""Latencies in a histogram, and their way between processes."""

from __future__ import annotations

import pytest

from benches.histogram import Latencies


def test_percentiles_in_milliseconds() -> None:
    found = Latencies(range(1, 10_001)).figures()
    assert found["p50_ms"] == pytest.approx(5, rel=1e-3)
    assert found["p99_ms"] == pytest.approx(9.9, rel=1e-3)
    assert found["p99.9_ms"] == pytest.approx(9.99, rel=1e-3)
    assert found["max_ms"] == pytest.approx(10, rel=1e-3)


def test_text_keeps_everything() -> None:
    one, other = Latencies([100.0] * 50), Latencies([900.0] * 50)
    both = Latencies.from_text(one.to_text())
    both.add(other.to_text())
    assert both.count == 100
    assert both.milliseconds(50) == pytest.approx(0.1, rel=1e-2)
    assert both.milliseconds(99) == pytest.approx(0.9, rel=1e-2)


def test_values_outside_are_kept_at_the_edges() -> None:
    found = Latencies([-5.0, 0.0, 1e12])
    assert found.count == 3
    assert found.milliseconds(100) >= 59_000


def test_curve_rises() -> None:
    values = [value for _, value in Latencies(range(1, 1_000)).curve()]
    assert values == sorted(values)
