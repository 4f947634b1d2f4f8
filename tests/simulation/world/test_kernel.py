from __future__ import annotations

import asyncio

import pytest

from tests.simulation.world.kernel import Kernel, StuckError
from tests.simulation.world.loop import SimLoop
from tests.simulation.world.network import SimNetwork


def loop_on(kernel: Kernel, host: str = "one", rate: float = 1.0) -> SimLoop:
    return SimLoop(kernel, host, SimNetwork(kernel), rate=rate)


def test_hours_pass_in_a_moment() -> None:
    kernel = Kernel(1)
    loop = loop_on(kernel)
    task = loop.create_task(asyncio.sleep(3_600, "done"))
    kernel.run_until(task.done, 3_601, "the sleeper did not wake")
    assert task.result() == "done"
    assert kernel.now == pytest.approx(3_600, abs=0.1)


def test_callbacks_of_a_process_keep_their_order() -> None:
    kernel = Kernel(1)
    loop = loop_on(kernel)
    seen: list[int] = []
    for number in range(20):
        loop.call_soon(seen.append, number)
    kernel.run_until(lambda: len(seen) == 20, 1, "callbacks did not run")
    assert seen == list(range(20))


def order_of_processes(seed: int) -> list[str]:
    kernel = Kernel(seed)
    seen: list[str] = []
    for host in "abcdef":
        loop_on(kernel, host).call_soon(seen.append, host)
    kernel.run_until(lambda: len(seen) == 6, 1, "callbacks did not run")
    return seen


def test_the_order_between_processes_is_the_seeds() -> None:
    orders = [order_of_processes(seed) for seed in range(10)]
    assert orders == [order_of_processes(seed) for seed in range(10)]
    assert len({tuple(order) for order in orders}) > 1


def test_timers_of_one_moment_fire_in_an_order_of_the_seed() -> None:
    def run(seed: int) -> list[int]:
        kernel = Kernel(seed)
        loop = loop_on(kernel)
        seen: list[int] = []
        for number in range(6):
            loop.call_at(1.0, seen.append, number)
        kernel.run_until(lambda: len(seen) == 6, 2, "timers did not fire")
        return seen

    assert len({tuple(run(seed)) for seed in range(10)}) > 1


def test_clocks_of_machines_drift() -> None:
    kernel = Kernel(1)
    fast, slow = loop_on(kernel, "fast", 1.01), loop_on(kernel, "slow", 0.99)
    kernel.run_for(100)
    assert fast.time() == pytest.approx(101, abs=0.1)
    assert slow.time() == pytest.approx(99, abs=0.1)


def test_a_paused_process_does_nothing_and_then_all() -> None:
    kernel = Kernel(1)
    loop = loop_on(kernel)
    seen: list[float] = []
    loop.call_later(1, lambda: seen.append(kernel.now))
    loop.pause(30)
    kernel.run_until(lambda: bool(seen), 40, "it never went on")
    assert seen[0] >= 30


def test_a_killed_process_runs_no_more_code() -> None:
    kernel = Kernel(1)
    loop = loop_on(kernel)
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("woke")
        finally:
            await asyncio.sleep(1)
            seen.append("cleaned up")

    loop.create_task(work())
    kernel.run_for(0.5)
    loop.kill()
    kernel.after(5, lambda: None)
    kernel.run_for(4)
    assert seen == []


def test_nothing_left_to_do_is_an_error() -> None:
    with pytest.raises(StuckError):
        Kernel(1).run_until(lambda: False, 10, "it did not happen")


def test_what_does_not_happen_in_time_is_named() -> None:
    kernel = Kernel(1)
    loop = loop_on(kernel)
    loop.create_task(asyncio.sleep(100))
    with pytest.raises(StuckError, match="it did not happen within 10 s"):
        kernel.run_until(lambda: False, 10, "it did not happen")
    loop.kill()
