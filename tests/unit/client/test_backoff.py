from __future__ import annotations

from random import Random

from kaa.client.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_start_again() -> None:
    backoff = Backoff(100, 1000, Random(1))
    for nominal in (100, 200, 400, 800, 1000, 1000):
        assert nominal * 0.8 <= backoff.next_ms() <= nominal * 1.2
    backoff.reset()
    assert backoff.next_ms() <= 120


def test_very_many_failures() -> None:
    backoff = Backoff(100, 1000, Random(1))
    backoff.failures = 10**6
    assert backoff.next_ms() <= 1200
