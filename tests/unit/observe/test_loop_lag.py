"""How late a loop is, on time that the test moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kaa.observe.loop_lag import INTERVAL_SECONDS, LagCounts, LoopLag, _bucket, _upper_end


@given(st.integers(0, 2**36))
def test_value_lies_in_its_bucket(microseconds: int) -> None:
    bucket = _bucket(microseconds)
    assert microseconds <= _upper_end(bucket) <= microseconds * 9 // 8 + 1
    assert bucket == 0 or _upper_end(bucket - 1) < microseconds


def test_percentiles() -> None:
    counts = LagCounts()
    for _ in range(990):
        counts.add(4)
    for _ in range(10):
        counts.add(5_000)
    assert counts.percentile(50) == 4
    assert counts.percentile(99) == 4
    assert counts.percentile(99.9) == counts.microseconds_max == 5_000


def test_nothing_was_counted() -> None:
    assert LagCounts().percentile(99) == 0


class _FakeLoop:
    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> None:
        assert delay == INTERVAL_SECONDS
        self.timers.append(call)


def test_asked_twice_it_says_what_it_saw_between() -> None:
    loop, said = _FakeLoop(), list[str]()
    lag = LoopLag(loop, said.append, loop.time)  # type: ignore[arg-type]
    assert loop.timers == []
    lag.ask()
    for late in (0.0, 0.0, 0.25):
        loop.now += INTERVAL_SECONDS + late
        loop.timers.pop()()
    lag.ask()
    lag.ask()
    assert len(loop.timers) == 1, "one timer, however often it is asked"
    assert said[0] == "loop lag   is measured from now on"
    assert said[1].endswith("max 250.000 ms of 3")
    assert said[2] == "loop lag   p50 0.000 p99 0.000 p99.9 0.000 max 0.000 ms of 0"


def test_real_loop() -> None:
    said: list[str] = []

    async def run() -> None:
        lag = LoopLag(asyncio.get_running_loop(), said.append)
        lag.ask()
        await asyncio.sleep(3 * INTERVAL_SECONDS)
        busy_until = time.perf_counter() + 0.1
        while time.perf_counter() < busy_until:
            pass
        await asyncio.sleep(INTERVAL_SECONDS)
        lag.ask()

    asyncio.run(run())
    assert float(said[1].partition("max ")[2].split()[0]) > 80
