from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest

from kaa.cli import broker
from kaa.observe.loop_guard import BEAT_SECONDS, LoopGuard

if TYPE_CHECKING:
    from kaa.broker import Broker

HELD_SECONDS = 0.3
BLOCKED_SECONDS = 1.3
STEP_SECONDS = 0.004
WALKED_OBJECTS = 500_000


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def hog() -> None:
    burn(HELD_SECONDS)


def first_step() -> None:
    burn(STEP_SECONDS)


def second_step() -> None:
    burn(STEP_SECONDS)


def third_step() -> None:
    burn(STEP_SECONDS)


def many_steps() -> None:
    end = time.thread_time() + HELD_SECONDS
    while time.thread_time() < end:
        first_step()
        second_step()
        third_step()


def more_steps() -> None:
    many_steps()


def doze() -> None:
    time.sleep(BLOCKED_SECONDS)  # noqa: TID251  It is what must not be done.


async def guarded(*works: object) -> list[str]:
    reports: list[str] = []
    loop = asyncio.get_running_loop()
    guard = LoopGuard(loop, reports.append)
    guard.start()
    try:
        for work in works:
            await asyncio.sleep(3 * BEAT_SECONDS)
            assert callable(work)
            work()
            await asyncio.sleep(3 * BEAT_SECONDS)
    finally:
        guard.stop()
    return reports


def test_work_that_holds_the_loop_is_named() -> None:
    (report,) = asyncio.run(guarded(hog))
    assert report.endswith("burn < test_loop_guard.py hog < test_loop_guard.py guarded")
    assert "the loop was held for " in report


def test_the_collector_of_garbage_is_named_and_not_its_caller() -> None:
    kept: list[list[object]] = []

    def collect() -> None:
        kept.extend([kept] for _ in range(WALKED_OBJECTS))
        gc.collect()

    before = list(gc.callbacks)
    reports = asyncio.run(guarded(collect))
    kept.clear()
    assert [one for one in reports if "by the collector of garbage (generation 2)" in one]
    assert gc.callbacks == before


def test_a_wait_that_holds_the_loop_costs_no_processor_time() -> None:
    (report,) = asyncio.run(guarded(doze))
    assert "doze" in report
    used_ms = int(report.partition("(")[2].partition(" ")[0])
    assert used_ms < BLOCKED_SECONDS * 1000 / 2


def test_the_same_place_is_reported_once_in_a_while() -> None:
    reports = asyncio.run(guarded(doze, doze, hog))
    assert len([report for report in reports if "doze" in report]) == 1
    assert len([report for report in reports if "hog" in report]) <= 2


def test_who_does_many_short_steps_is_named_and_not_the_step() -> None:
    """Others do the same step: one who was named does not hide them."""
    first, second = asyncio.run(guarded(many_steps, more_steps))
    file = "test_loop_guard.py"
    assert first.endswith(f" many_steps < {file} guarded")
    assert second.endswith(f" many_steps < {file} more_steps < {file} guarded")


def test_a_loop_with_little_to_do_is_left_alone() -> None:
    async def main() -> list[str]:
        reports: list[str] = []
        guard = LoopGuard(asyncio.get_running_loop(), reports.append)
        guard.start()
        for _ in range(20):
            await asyncio.sleep(0.01)
        guard.stop()
        return reports

    assert asyncio.run(main()) == []


@pytest.mark.parametrize("place", ["start", "stop"])
def test_a_start_and_a_stop_are_guarded(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    reports: list[str] = []
    stop = asyncio.Event()

    async def held(now: str) -> None:
        await asyncio.sleep(3 * BEAT_SECONDS)
        if now == place:
            hog()
        await asyncio.sleep(3 * BEAT_SECONDS)

    @asynccontextmanager
    async def running(_: object) -> AsyncIterator[None]:
        await held("start")
        yield
        await held("stop")

    monkeypatch.setattr("kaa.broker.running", running)
    monkeypatch.setattr(broker, "say", reports.append)
    monkeypatch.setattr(broker, "_say_ready", lambda *_: stop.set())
    monkeypatch.setattr(broker, "_load_the_rest", lambda _: None)
    asyncio.run(broker._serve_until(stop, cast("Broker", None), 0.0, None))
    (report,) = reports
    assert "_serve_until" in report
