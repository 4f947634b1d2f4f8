from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaa.handlers.context import KeepsFrame, Parked
from kaa.handlers.registry import (
    BROKER_APIS,
    CONTROLLER_APIS,
    Router,
    Served,
    advertised_versions,
    load_handlers,
)
from kaa.net.connection import CloseConnectionError, Later
from kaa.wire.errors import Errors
from kaa.wire.frames import encode_request
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from kaa.wire.primitives import Versions
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.net.connection import Connection

CONNECTION = cast("Connection", SimpleNamespace(listener_name="PLAINTEXT", facts={}))


def frame(version: int = 0) -> memoryview:
    parts = encode_request(ApiVersionsRequest(), version, 7, "client")
    return memoryview(bytearray(b"".join(parts)[4:]))


def served(handle: Callable[..., Any]) -> dict[int, Served]:
    found = api(ApiKey.API_VERSIONS)
    return {found.key: Served(found, handle, Versions(0, 4), Versions(0, 4))}


async def route(handle: Callable[..., Any], *reports: list[str]) -> Any:
    """What a connection would send."""

    def report(text: str) -> None:
        for found in reports:
            found.append(text)

    async with asyncio.TaskGroup() as tasks:
        router = Router(None, served(handle), tasks, report)
        answer = router(CONNECTION, frame())
        if not isinstance(answer, Later):
            return answer
        await asyncio.wait([answer.parts])
        parts = answer.encode(answer.parts) if answer.encode else answer.parts.result()
        return answer.is_parked, parts


def test_tables_name_handlers_that_exist_and_listeners_that_may_have_them() -> None:
    for keys, listener in ((BROKER_APIS, "broker"), (CONTROLLER_APIS, "controller")):
        handlers = load_handlers(keys)
        assert list(handlers) == sorted(handlers)
        for key, found in handlers.items():
            assert listener in api(key).listener_types
            assert found.versions.low <= found.versions.high


def test_produce_is_advertised_below_what_is_served() -> None:
    handlers = load_handlers(BROKER_APIS)
    said = {entry.api_key: entry for entry in advertised_versions(handlers)}
    assert said[ApiKey.PRODUCE].min_version == 0
    assert handlers[ApiKey.PRODUCE].versions.low == 3


def test_answer_at_once() -> None:
    (part,) = asyncio.run(route(lambda *_: ApiVersionsResponse(error_code=3)))
    assert bytes(part[4:8]) == (7).to_bytes(4, "big")
    assert ApiVersionsResponse.decode(bytes(part[8:]), 0).error_code == 3


def test_no_answer() -> None:
    assert asyncio.run(route(lambda *_: None)) == []


def test_later_answers_hold_the_connection_unless_parked() -> None:
    async def later(*_: object) -> ApiVersionsResponse:
        await asyncio.sleep(0)
        return ApiVersionsResponse()

    def parked(*_: object) -> Parked:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, ApiVersionsResponse())
        return Parked(future, asyncio.Future.result)

    assert asyncio.run(route(later))[0] is False
    assert asyncio.run(route(parked))[0] is True


def test_what_is_known_already_is_not_parked() -> None:
    def known(*_: object) -> Parked:
        future = asyncio.get_running_loop().create_future()
        future.set_result(ApiVersionsResponse())
        return Parked(future, asyncio.Future.result)

    assert asyncio.run(route(known)) == asyncio.run(route(lambda *_: ApiVersionsResponse()))


def test_handler_may_go_on_reading_its_frame() -> None:
    async def main() -> None:
        async def response() -> ApiVersionsResponse:
            return ApiVersionsResponse()

        async with asyncio.TaskGroup() as tasks:
            router = Router(None, served(lambda *_: KeepsFrame(response())), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Later)
            assert (answer.is_parked, answer.keeps_frame) == (False, True)
            assert await answer.parts

    asyncio.run(main())


def test_handler_that_has_read_its_frame_may_park_its_answer() -> None:
    async def main() -> None:
        promised: asyncio.Future[ApiVersionsResponse] = asyncio.get_running_loop().create_future()

        async def response() -> Parked:
            return Parked(promised, asyncio.Future.result)

        async with asyncio.TaskGroup() as tasks:
            router = Router(None, served(lambda *_: KeepsFrame(response())), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Later)
            assert answer.freed is not None
            await answer.freed
            assert not answer.parts.done()
            promised.set_result(ApiVersionsResponse())
            assert await answer.parts

    asyncio.run(main())


def test_handler_that_fails_frees_its_frame() -> None:
    async def main() -> None:
        async def response() -> None:
            raise ZeroDivisionError

        async with asyncio.TaskGroup() as tasks:
            router = Router(None, served(lambda *_: KeepsFrame(response())), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Later)
            assert answer.freed is not None
            await answer.freed
            with pytest.raises(CloseConnectionError):
                await answer.parts

    asyncio.run(main())


def test_handler_that_fails_costs_its_client_the_connection_and_is_reported() -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("by mistake")

    async def fails_later(*_: object) -> None:
        await asyncio.sleep(0)
        fails()

    for handle in (fails, fails_later):
        reports: list[str] = []
        with pytest.raises((CloseConnectionError, BaseExceptionGroup)):
            asyncio.run(route(handle, reports))
        assert len(reports) == 1
        assert "API_VERSIONS" in reports[0]
        assert "by mistake" in reports[0]


def test_unknown_version_of_api_versions_is_answered_in_version_zero() -> None:
    async def main() -> ApiVersionsResponse:
        async with asyncio.TaskGroup() as tasks:
            router = Router(None, served(lambda *_: None), tasks)
            newer = frame(0)
            newer[2:4] = (99).to_bytes(2, "big")
            # The header of a flexible version has tagged fields behind the client id.
            answer = router(CONNECTION, memoryview(bytearray(newer) + b"\0"))
            assert isinstance(answer, list)
            return ApiVersionsResponse.decode(b"".join(answer)[8:], 0)

    response = asyncio.run(main())
    assert response.error_code == Errors.UNSUPPORTED_VERSION
    assert [(entry.api_key, entry.max_version) for entry in response.api_keys] == [(18, 4)]


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"\x7f\xff\0\0\0\0\0\0\xff\xff"])
def test_frames_that_cannot_be_answered_close(content: bytes) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            Router(None, served(lambda *_: None), tasks)(CONNECTION, memoryview(content))

    with pytest.raises(BaseExceptionGroup) as failure:
        asyncio.run(main())
    assert failure.group_contains(CloseConnectionError)
