from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

from kaa.handlers.context import Encoded, RequestContext
from kaa.handlers.in_slices import asked_in_slices, in_slices, in_slices_and_pieces
from kaa.model.pieces import Pieces
from kaa.net.pending import Pending
from kaa.wire.frames import RequestFrame, decode_response
from kaa.wire.messages.k03_metadata import MetadataResponse, MetadataResponseTopic
from kaa.wire.registry import ApiKey, api

VERSION = 12
CONTEXT = RequestContext(
    RequestFrame(ApiKey.METADATA, VERSION, 7, "c", 0), cast("Any", SimpleNamespace())
)


def respond(names: list[str]) -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in names])


def test_a_small_answer_is_made_at_once() -> None:
    services = cast("Any", SimpleNamespace())
    answer = in_slices(services, CONTEXT, ["a", "b"], str.upper, respond, slice_max=2)
    assert isinstance(answer, MetadataResponse)
    assert [topic.name for topic in answer.topics] == ["A", "B"]


def test_a_large_answer_is_made_in_turns() -> None:
    made: list[int] = []

    def make(item: int) -> str:
        made.append(item)
        return str(item)

    async def main() -> list[int]:
        with ThreadPoolExecutor(1) as executor:
            loop = asyncio.get_running_loop()
            services = cast("Any", SimpleNamespace(loop=loop, batch_work=executor))
            pending = in_slices(
                services, CONTEXT, range(10), make, respond, slice_max=6, cost=lambda _: 2
            )
            assert isinstance(pending, Pending)
            counts = []
            work = asyncio.ensure_future(pending.response)  # noqa: TID251
            while not work.done():
                counts.append(len(made))
                await asyncio.sleep(0)
            encoded = work.result()
            assert isinstance(encoded, Encoded)
        content = b"".join(bytes(part) for part in encoded.parts)
        correlation_id, response = decode_response(content[4:], api(ApiKey.METADATA), VERSION)
        assert correlation_id == 7
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
        with ThreadPoolExecutor(1) as executor:
            loop = asyncio.get_running_loop()
            services = cast("Any", SimpleNamespace(loop=loop, batch_work=executor))
            pending = in_slices_and_pieces(
                services, CONTEXT, ["a"], make, respond, slice_max=4, cost=lambda _: 5
            )
            assert isinstance(pending, Pending)
            counts = []
            work = asyncio.ensure_future(pending.response)  # noqa: TID251
            while not work.done():
                counts.append(len(made))
                await asyncio.sleep(0)
            assert isinstance(work.result(), Encoded)
        return counts

    assert set(asyncio.run(main())) == set(range(6))
    at_once = in_slices_and_pieces(
        cast("Any", None), CONTEXT, ["a"], make, respond, slice_max=5, cost=lambda _: 5
    )
    assert isinstance(at_once, MetadataResponse)


def test_parts_that_others_make_are_asked_for_one_by_one() -> None:
    asked: list[int] = []

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            loop = asyncio.get_running_loop()
            services = cast("Any", SimpleNamespace(loop=loop, batch_work=executor))

            def ask(item: int) -> asyncio.Future[str]:
                asked.append(item)
                part: asyncio.Future[str] = loop.create_future()
                if item == 1:
                    loop.call_soon(part.set_result, str(item))
                else:
                    part.set_result(str(item))
                return part

            small = asked_in_slices(services, CONTEXT, [2, 3], ask, respond, slice_max=2)
            assert isinstance(small, MetadataResponse)
            assert [topic.name for topic in small.topics] == ["2", "3"]
            asked.clear()
            pending = asked_in_slices(services, CONTEXT, range(4), ask, respond, slice_max=9)
            assert isinstance(pending, Pending)
            assert asked == [0, 1], "the next one waits for the large one"
            encoded = await pending.response
            assert isinstance(encoded, Encoded)
        content = b"".join(bytes(part) for part in encoded.parts)
        _, response = decode_response(content[4:], api(ApiKey.METADATA), VERSION)
        assert [topic.name for topic in response.topics] == ["0", "1", "2", "3"]

    asyncio.run(main())
