"""Bytes per second over a window of samples."""

from __future__ import annotations

from kaa.tier.quota import ByteRate, QuotaWindow


def test_what_exceeds_the_rate_waits_until_it_is_below_again() -> None:
    rate = ByteRate(QuotaWindow(samples=11, sample_ms=1_000))
    assert rate.wait_ms(100, 0) == 0
    # All samples but one: a thousand bytes fit into ten seconds.
    rate.record(1_000, 0)
    assert rate.wait_ms(100, 0) == 0
    rate.record(500, 500)
    assert rate.wait_ms(100, 500) == 5_000
    # It looks again in between, and may be allowed more.
    assert rate.wait_ms(150, 500) == 0
    assert rate.wait_ms(100, 10_500) == 4_500
    # The first sample is forgotten.
    assert rate.wait_ms(100, 11_000) == 0


def test_samples_are_few_however_often_it_is_told() -> None:
    rate = ByteRate(QuotaWindow(samples=3, sample_ms=1_000))
    for now_ms in range(0, 100_000, 10):
        rate.record(1, now_ms)
        assert len(rate._samples) <= 4
    assert rate.wait_ms(200, 100_000) == 0
    assert rate.wait_ms(50, 100_000) > 0
