from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from kaa.limits import PARTS_BEGUN_PER_TURN_MAX, RECORDS_PER_PIECE
from kaa.model.pieces import Pieces
from kaa.model.turns import Admission, Turns, freed, gathered, in_turns


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


class LetIn:
    """Tasks that are let in three at a time, and the round in which each did."""

    def __init__(self) -> None:
        self.admission = Admission(3)
        self.begun: dict[str, int] = {}
        self._round = 0

    async def begin(self, name: str, owner: str, place: int) -> None:
        await self.admission.next(owner, place)
        self.begun[name] = self._round

    async def rounds(self, *asked: tuple[str, str, int]) -> None:
        """Begins tasks at once, and waits until all have begun."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.begin(*one)) for one in asked]
            while not all(task.done() for task in tasks):
                await asyncio.sleep(0)
                self._round += 1

    def order(self) -> list[list[str]]:
        """Who began in the same round, in the order of rounds."""
        found: dict[int, list[str]] = {}
        for name, number in self.begun.items():
            found.setdefault(number, []).append(name)
        return [found[number] for number in sorted(found)]


def test_so_many_begin_in_one_round() -> None:
    let_in = LetIn()
    asyncio.run(let_in.rounds(*((str(number), "owner", 0) for number in range(8))))
    assert let_in.order() == [["0", "1", "2"], ["3", "4", "5"], ["6", "7"]]


def test_rounds_that_are_over_do_not_count() -> None:
    let_in = LetIn()

    async def main() -> None:
        for number in range(4):
            await let_in.rounds((f"{number}a", "owner", 0), (f"{number}b", "owner", 0))

    asyncio.run(main())
    assert let_in.order() == [["0a", "0b"], ["1a", "1b"], ["2a", "2b"], ["3a", "3b"]]


def test_owners_take_turns() -> None:
    let_in = LetIn()
    many = [(f"many {number}", "many", 0) for number in range(9)]
    asyncio.run(let_in.rounds(*many, ("few", "few", 0)))
    assert let_in.order()[1] == ["many 3", "few", "many 4"]


def test_those_for_one_place_begin_together() -> None:
    let_in = LetIn()
    asked = [(f"{number}", "owner", number % 2) for number in range(9)]
    asyncio.run(let_in.rounds(*asked))
    assert let_in.order() == [["0", "1", "2"], ["3", "5", "7"], ["4", "6", "8"]]


def test_one_place_does_not_keep_others_waiting() -> None:
    """Those who come to it later go after the others."""
    let_in = LetIn()

    async def main() -> None:
        first = [(f"a{number}", "owner", 0) for number in range(13)]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(let_in.rounds(*first, ("b", "owner", 1)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            tasks.create_task(let_in.rounds(("late", "owner", 0)))

    asyncio.run(main())
    assert list(let_in.begun) == [*(f"a{number}" for number in range(13)), "b", "late"]


def test_who_is_gone_holds_nobody_up() -> None:
    let_in = LetIn()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(let_in.begin(f"{one}", "owner", 0)) for one in range(6)]
            await asyncio.sleep(0)
            for task in tasks[3:5]:
                task.cancel()

    asyncio.run(main())
    assert list(let_in.begun) == ["0", "1", "2", "5"]


def test_things_are_freed_in_turns() -> None:
    async def scenario() -> None:
        things = list(range(3 * RECORDS_PER_PIECE))
        left: list[int] = []

        async def watch() -> None:
            while things:
                left.append(len(things))
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(freed(things))
            tasks.create_task(watch())
        assert left == [count * RECORDS_PER_PIECE for count in (3, 2, 1)]

    asyncio.run(scenario())
