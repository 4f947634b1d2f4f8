from __future__ import annotations

import asyncio

from kaa.handlers.in_slices import (
    asked_in_slices,
    begun_at_once,
    in_slices,
    in_slices_and_pieces,
)
from kaa.model.pieces import Pieces
from kaa.net.pending import Pending
from kaa.wire.messages.k03_metadata import MetadataResponse, MetadataResponseTopic


def respond(names: list[str]) -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in names])


def test_a_small_answer_is_made_at_once() -> None:
    answer = in_slices(["a", "b"], str.upper, respond, slice_max=2)
    assert isinstance(answer, MetadataResponse)
    assert [topic.name for topic in answer.topics] == ["A", "B"]


def test_a_large_answer_is_made_in_turns() -> None:
    made: list[int] = []

    def make(item: int) -> str:
        made.append(item)
        return str(item)

    async def main() -> list[int]:
        pending = in_slices(range(10), make, respond, slice_max=6, cost=lambda _: 2)
        assert isinstance(pending, Pending)
        counts = []
        work = asyncio.ensure_future(pending.response)  # noqa: TID251
        while not work.done():
            counts.append(len(made))
            await asyncio.sleep(0)
        response = work.result()
        assert isinstance(response, MetadataResponse)
        assert [topic.name for topic in response.topics] == [str(item) for item in range(10)]
        return counts

    counts = asyncio.run(main())
    assert {0, 3, 6, 9, 10} >= set(counts) >= {0, 3, 6, 9}


def test_one_large_part_is_made_in_pieces() -> None:
    made: list[int] = []

    def make(item: str) -> Pieces[str]:
        for number in range(5):
            made.append(number)
            yield
        return item

    async def main() -> list[int]:
        pending = in_slices_and_pieces(["a"], make, respond, slice_max=4, cost=lambda _: 5)
        assert isinstance(pending, Pending)
        counts = []
        work = asyncio.ensure_future(pending.response)  # noqa: TID251
        while not work.done():
            counts.append(len(made))
            await asyncio.sleep(0)
        assert isinstance(work.result(), MetadataResponse)
        return counts

    assert set(asyncio.run(main())) == set(range(6))
    at_once = in_slices_and_pieces(["a"], make, respond, slice_max=5, cost=lambda _: 5)
    assert isinstance(at_once, MetadataResponse)


def test_parts_that_others_make_are_asked_for_one_by_one() -> None:
    asked: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def ask(item: int) -> asyncio.Future[str]:
            asked.append(item)
            part: asyncio.Future[str] = loop.create_future()
            if item == 1:
                loop.call_soon(part.set_result, str(item))
            else:
                part.set_result(str(item))
            return part

        small = asked_in_slices([2, 3], ask, respond, slice_max=2)
        assert isinstance(small, MetadataResponse)
        assert [topic.name for topic in small.topics] == ["2", "3"]
        asked.clear()
        pending = asked_in_slices(range(4), ask, respond, slice_max=9)
        assert isinstance(pending, Pending)
        assert asked == [0, 1], "the next one waits for the large one"
        response = await pending.response
        assert isinstance(response, MetadataResponse)
        assert [topic.name for topic in response.topics] == ["0", "1", "2", "3"]

    asyncio.run(main())


def test_what_is_large_is_seen_without_a_look_at_all_of_it() -> None:
    looked_at = 0

    def cost(_: int) -> int:
        nonlocal looked_at
        looked_at += 1
        return 1

    pending = in_slices(range(1000), str, respond, slice_max=5, cost=cost)
    assert isinstance(pending, Pending)
    assert looked_at == 6
    assert asyncio.iscoroutine(pending.response)
    pending.response.close()


def test_work_of_one_piece_is_done_at_once() -> None:
    def work(pauses: int) -> Pieces[MetadataResponse]:
        for _ in range(pauses):
            yield
        return respond(["a"])

    async def main() -> None:
        at_once = begun_at_once(work(0))
        assert isinstance(at_once, MetadataResponse)
        later = begun_at_once(work(3))
        assert isinstance(later, Pending)
        assert await later.response == at_once

    asyncio.run(main())
