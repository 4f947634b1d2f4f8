from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from kaa.limits import PARTS_BEGUN_PER_TURN_MAX
from kaa.model.pieces import Pieces
from kaa.serving.turns import Turns, gathered, in_turns


def test_everything_is_found_in_order_and_few_are_under_way() -> None:
    under_way = most = 0

    async def work(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return number

    count = 3 * PARTS_BEGUN_PER_TURN_MAX + 1
    assert asyncio.run(gathered(work, range(count))) == list(range(count))
    assert most == PARTS_BEGUN_PER_TURN_MAX
    assert asyncio.run(gathered(work, [])) == []


async def turns_of_others(work: Coroutine[None, None, None]) -> int:
    """How many turns others have while something is done."""
    count = 0
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        # In the first turn it begins.
        await asyncio.sleep(0)
        while not task.done():
            await asyncio.sleep(0)
            count += 1
    return count


def test_others_have_a_turn_after_so_many_parts() -> None:
    told: list[bool] = []

    async def work() -> None:
        turns = Turns(3)
        told.extend([await turns.next() for _ in range(7)])

    assert asyncio.run(turns_of_others(work())) == 2
    assert told == [False, False, False, True, False, False, True]


def test_others_have_a_turn_after_each_piece() -> None:
    found: list[str] = []

    def pieces() -> Pieces[str]:
        yield
        yield
        return "all"

    async def work() -> None:
        found.append(await in_turns(pieces()))

    assert asyncio.run(turns_of_others(work())) == 2
    assert found == ["all"]
