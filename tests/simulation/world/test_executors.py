from __future__ import annotations

import pytest

from kaa.log.sim_files import CrashError
from tests.simulation.world.executors import SimExecutor
from tests.simulation.world.kernel import Kernel
from tests.simulation.world.loop import SimLoop
from tests.simulation.world.network import SimNetwork


def executor(threads: int = 1, slowness: float = 1.0) -> tuple[Kernel, SimLoop, SimExecutor]:
    kernel = Kernel(1)
    loop = SimLoop(kernel, "one", SimNetwork(kernel))
    return kernel, loop, SimExecutor(kernel, loop, "work", threads, lambda: slowness)


def test_work_is_done_later_and_in_order() -> None:
    kernel, _, found = executor()
    seen: list[int] = []
    works = [found.submit(seen.append, number) for number in range(5)]
    assert seen == []
    kernel.run_until(works[-1].done, 1, "the work was not done")
    assert seen == list(range(5))


def test_an_error_belongs_to_the_work() -> None:
    kernel, _, found = executor()
    work = found.submit(int, "x")
    kernel.run_until(work.done, 1, "the work was not done")
    assert isinstance(work.exception(), ValueError)


def test_anyone_who_asks_for_the_result_makes_it_so() -> None:
    _, _, found = executor()
    seen: list[int] = []
    for number in range(3):
        found.submit(seen.append, number)
    assert found.submit(lambda: 7).result() == 7
    assert seen == [0, 1, 2]


def test_a_slow_disk_takes_longer() -> None:
    kernel, _, found = executor(slowness=1_000)
    work = found.submit(int)
    kernel.run_until(work.done, 10, "the work was not done")
    assert kernel.now > 0.02


def test_a_paused_process_does_no_work() -> None:
    kernel, loop, found = executor()
    loop.pause(5)
    work = found.submit(int)
    kernel.run_until(work.done, 10, "the work was not done")
    assert kernel.now >= 5


def test_the_work_of_a_dead_process_is_never_done() -> None:
    kernel, loop, found = executor()
    seen: list[int] = []
    work = found.submit(seen.append, 1)
    loop.kill()
    kernel.run_for(1)
    assert seen == []
    with pytest.raises(CrashError):
        work.result()


def test_shutdown_waits_for_the_work() -> None:
    _, _, found = executor(threads=2)
    seen: list[int] = []
    for number in range(5):
        found.submit(seen.append, number)
    found.shutdown()
    assert seen == list(range(5))


def test_work_that_was_cancelled_does_not_hold_a_shutdown_up() -> None:
    _, _, found = executor()
    seen: list[int] = []
    taken, queued = found.submit(seen.append, 1), found.submit(seen.append, 2)
    assert taken.cancel()
    assert queued.cancel()
    found.shutdown()
    assert seen == []
