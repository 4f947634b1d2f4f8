from __future__ import annotations

import time

from kaa.broker.clock import SystemClock


def test_clocks_tell_the_time_of_the_machine() -> None:
    clock = SystemClock()
    assert abs(clock.wall_ms() - time.time() * 1000) < 5_000
    assert clock.now_ms() >= clock.wall_ms() - 5_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()
