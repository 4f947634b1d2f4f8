from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from kaa.serving.delayed import LongPolls, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.replication.partition import Partition


class FakePartition:
    """The two methods that a wait uses of a partition."""

    def __init__(self) -> None:
        self.waiters: set[Callable[[], None]] = set()

    def wait(self, waiter: Callable[[], None]) -> None:
        self.waiters.add(waiter)

    def forget(self, waiter: Callable[[], None]) -> None:
        self.waiters.discard(waiter)

    def progress(self) -> None:
        for waiter in tuple(self.waiters):
            waiter()


def start(partition: FakePartition, timeout_ms: int, satisfied: Callable[[], bool]) -> Wait:
    loop = asyncio.get_running_loop()
    return Wait(loop, [cast("Partition", partition)], timeout_ms, satisfied)


def test_progress_is_looked_at_once_per_turn() -> None:
    looks: list[int] = []

    def is_satisfied() -> bool:
        looks.append(len(looks))
        return len(looks) == 2

    async def main() -> None:
        partition = FakePartition()
        wait = start(partition, 10_000, is_satisfied)
        for _ in range(5):
            partition.progress()
        await asyncio.sleep(0)
        assert len(looks) == 1
        assert not wait.done.done()
        partition.progress()
        assert await wait.done
        assert len(looks) == 2
        await asyncio.sleep(0)
        assert not partition.waiters

    asyncio.run(main())


def test_time_is_up() -> None:
    async def main() -> None:
        partition = FakePartition()
        wait = start(partition, 5, lambda: False)
        assert not await wait.done
        await asyncio.sleep(0)
        assert not partition.waiters

    asyncio.run(main())


def test_wait_that_is_not_wanted_any_more_leaves_nothing() -> None:
    async def main() -> None:
        partition = FakePartition()
        wait = start(partition, 10_000, lambda: True)
        wait.done.cancel()
        partition.progress()
        await asyncio.sleep(0)
        assert not partition.waiters

    asyncio.run(main())


def test_long_polls_end_together_and_later_ones_at_once() -> None:
    async def main() -> None:
        partition = cast("Partition", FakePartition())
        polls = LongPolls(asyncio.get_running_loop())
        waits = [polls.wait([partition], 60_000, lambda: False) for _ in range(3)]
        assert len(polls) == 3
        polls.end()
        assert [await wait.done for wait in waits] == [False] * 3
        late = polls.wait([partition], 60_000, lambda: False)
        assert late.done.done()
        assert not late.done.result()
        await asyncio.sleep(0)
        assert len(polls) == 0
        assert not cast("FakePartition", partition).waiters

    asyncio.run(main())


def test_a_long_poll_that_was_satisfied_is_forgotten() -> None:
    async def main() -> None:
        partition = FakePartition()
        polls = LongPolls(asyncio.get_running_loop())
        wait = polls.wait([cast("Partition", partition)], 60_000, lambda: True)
        partition.progress()
        assert await wait.done
        await asyncio.sleep(0)
        assert len(polls) == 0

    asyncio.run(main())
