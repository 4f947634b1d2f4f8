"""What counts as drift in the mixed load."""

from __future__ import annotations

import pytest

from tests.soak.mixed import Window, problems

STEADY = Window(memory_mb=50.0, descriptors=40, p99_ms=2.0, lag_ms=3.0)


def test_steady_windows_are_fine() -> None:
    assert problems([STEADY] * 12) == []


def test_warm_up_does_not_count() -> None:
    assert problems([STEADY._replace(memory_mb=10.0, descriptors=5), *[STEADY] * 11]) == []


def test_one_bad_window_is_the_machine() -> None:
    bad = STEADY._replace(p99_ms=900.0, lag_ms=900.0)
    assert problems([*[STEADY] * 11, bad]) == []


@pytest.mark.parametrize(
    ("drifted", "text"),
    [
        (STEADY._replace(memory_mb=120.0), "memory grew from 50 to 120 MB"),
        (STEADY._replace(descriptors=90), "open descriptors grew from 40 to 90"),
        (STEADY._replace(p99_ms=60.0), "the 99th percentile went from 2.0 to 60.0 ms"),
        (STEADY._replace(lag_ms=80.0), "the lag of the loop went from 3.0 to 80.0 ms"),
    ],
)
def test_drift_is_told(drifted: Window, text: str) -> None:
    assert problems([*[STEADY] * 6, *[drifted] * 6]) == [text]
