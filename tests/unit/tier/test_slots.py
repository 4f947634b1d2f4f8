"""At most so many at a time."""

from __future__ import annotations

import asyncio

from kaa.tier.slots import Slots


def test_who_came_first_goes_first_and_the_limit_may_change() -> None:
    async def story() -> None:
        limit, order = 2, []
        slots = Slots(lambda: limit)
        go = {number: asyncio.Event() for number in range(6)}

        async def work(number: int) -> None:
            async with slots:
                order.append(number)
                await go[number].wait()

        async with asyncio.TaskGroup() as tasks:
            made = [tasks.create_task(work(number)) for number in range(6)]
            await asyncio.sleep(0)
            assert (order, slots.waiting_count) == ([0, 1], 4)
            # One that is cancelled while it waits takes no turn.
            made[2].cancel()
            go[0].set()
            await asyncio.sleep(0.001)
            assert order == [0, 1, 3]
            limit = 3
            go[1].set()
            await asyncio.sleep(0.001)
            assert (order, slots.waiting_count) == ([0, 1, 3, 4, 5], 0)
            for event in go.values():
                event.set()

    asyncio.run(story())


def test_a_turn_that_came_too_late_is_passed_on() -> None:
    async def story() -> None:
        slots = Slots(lambda: 1)
        done: list[str] = []

        async def work(name: str) -> None:
            async with slots:
                done.append(name)

        async with asyncio.TaskGroup() as tasks:
            async with slots:
                first, _ = (tasks.create_task(work(name)) for name in ("first", "second"))
                await asyncio.sleep(0)
            # The slot was handed to it, and it is gone.
            first.cancel()
        assert done == ["second"]

    asyncio.run(story())
