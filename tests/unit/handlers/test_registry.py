from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaa.handlers.registry import (
    BROKER_APIS,
    CONTROLLER_APIS,
    LazyHandler,
    Router,
    Served,
    advertised_versions,
    find_handlers,
)
from kaa.limits import REQUEST_BYTES_ON_LOOP_MAX
from kaa.model.turns import freed
from kaa.net.connection import CloseConnectionError
from kaa.net.pending import Hold, Pending
from kaa.wire.errors import Errors
from kaa.wire.frames import encode_request
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from kaa.wire.primitives import Versions
from kaa.wire.registry import ApiKey, api
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.handlers.context import Answer, RequestContext
    from kaa.net.connection import Connection
    from kaa.serving.services import NodeServices
    from kaa.wire.schema import Request

SERVICES = cast("NodeServices", None)
CONNECTION = cast("Connection", SimpleNamespace(listener_name="PLAINTEXT", facts={}))


def services(work: ThreadPoolExecutor) -> NodeServices:
    loop = asyncio.get_running_loop()
    return cast("NodeServices", SimpleNamespace(loop=loop, batch_work=work))


def frame(version: int = 0) -> memoryview:
    parts = encode_request(ApiVersionsRequest(), version, 7, "client")
    return memoryview(bytearray(b"".join(parts)[4:]))


def served(handle: Callable[..., Any]) -> dict[int, Served]:
    found = api(ApiKey.API_VERSIONS)
    return {found.key: Served(found, handle, Versions(0, 4), Versions(0, 4))}


async def sent(answer: Pending[Any]) -> list[Any]:
    """The parts that a connection sends in the end."""
    future = answer.response
    assert isinstance(future, asyncio.Future)
    await asyncio.wait([future])
    parts = answer.encode(future) if answer.encode else future.result()
    return await sent(parts) if isinstance(parts, Pending) else parts


async def route(handle: Callable[..., Any], *reports: list[str]) -> Any:
    """What a connection would send."""

    def report(text: str) -> None:
        for found in reports:
            found.append(text)

    async with asyncio.TaskGroup() as tasks:
        router = Router(SERVICES, served(handle), tasks, report)
        answer = router(CONNECTION, frame())
        if not isinstance(answer, Pending):
            return answer
        return answer.hold, await sent(answer)


def test_tables_name_handlers_that_exist_and_listeners_that_may_have_them() -> None:
    for keys, listener in ((BROKER_APIS, "broker"), (CONTROLLER_APIS, "controller")):
        handlers = find_handlers(keys)
        assert list(handlers) == sorted(handlers)
        for key, found in handlers.items():
            assert listener in api(key).listener_types
            assert found.versions.low <= found.versions.high
            assert isinstance(found.handle, LazyHandler)
            loaded = found.handle.load()
            # From now on requests go straight to the function.
            assert handlers.get(key) == found._replace(handle=loaded)


def test_handlers_load_for_the_first_request_or_ahead() -> None:
    program = """
import sys
from kaa.handlers.registry import BROKER_APIS, find_handlers, load_ahead, module_name
modules = [f"kaa.handlers.{module_name(key)}" for key in BROKER_APIS]
handlers = find_handlers(BROKER_APIS)
assert not [name for name in modules if name in sys.modules]
load_ahead(handlers)
assert all(name in sys.modules for name in modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_produce_is_advertised_below_what_is_served() -> None:
    handlers = find_handlers(BROKER_APIS)
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
    async def later() -> ApiVersionsResponse:
        await asyncio.sleep(0)
        return ApiVersionsResponse()

    def parked(*_: object) -> Pending[ApiVersionsResponse]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, ApiVersionsResponse())
        return Pending(future, Hold.NOTHING)

    assert asyncio.run(route(lambda *_: Pending(later())))[0] is Hold.CONNECTION
    assert asyncio.run(route(parked))[0] is Hold.NOTHING


def test_what_is_known_already_is_not_parked() -> None:
    def known(*_: object) -> Pending[ApiVersionsResponse]:
        future = asyncio.get_running_loop().create_future()
        future.set_result(ApiVersionsResponse())
        return Pending(future, Hold.NOTHING)

    assert asyncio.run(route(known)) == asyncio.run(route(lambda *_: ApiVersionsResponse()))


def test_handler_may_go_on_reading_its_frame() -> None:
    async def main() -> None:
        async def response() -> ApiVersionsResponse:
            return ApiVersionsResponse()

        async with asyncio.TaskGroup() as tasks:
            router = Router(SERVICES, served(lambda *_: Pending(response(), Hold.FRAME)), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Pending)
            assert answer.hold is Hold.FRAME
            assert await sent(answer)

    asyncio.run(main())


def test_handler_that_has_read_its_frame_may_park_its_answer() -> None:
    async def main() -> None:
        promised: asyncio.Future[ApiVersionsResponse] = asyncio.get_running_loop().create_future()

        async def response() -> Pending[ApiVersionsResponse]:
            return Pending(promised, Hold.NOTHING)

        async with asyncio.TaskGroup() as tasks:
            router = Router(SERVICES, served(lambda *_: Pending(response(), Hold.FRAME)), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Pending)
            parked = await answer.response
            assert isinstance(parked, Pending)
            assert parked.hold is Hold.NOTHING
            assert not promised.done()
            promised.set_result(ApiVersionsResponse())
            assert await sent(parked)

    asyncio.run(main())


def large(request: Request[Any], version: int) -> memoryview:
    parts = encode_request(request, version, 7, "client")
    content = b"".join(bytes(part) for part in parts)[4:]
    assert len(content) > REQUEST_BYTES_ON_LOOP_MAX
    return memoryview(bytearray(content))


async def route_large(frame: memoryview, threads: list[int], seen: list[Any]) -> list[Any]:
    """What a connection would send, if the handler answers later."""

    class Threads(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **options: Any) -> Future[Any]:
            threads.append(1)
            return super().submit(*arguments, **options)

    async def soon() -> OffsetCommitResponse:
        await asyncio.sleep(0)
        return OffsetCommitResponse()

    def handle(_: object, request: Any, context: RequestContext) -> Answer[OffsetCommitResponse]:
        seen.append((request, context.header.correlation_id, threading.get_ident()))
        return Pending(soon())

    found = api(ApiKey.OFFSET_COMMIT)
    handlers: dict[int, Served]
    handlers = {found.key: Served(found, handle, Versions(2, 10), Versions(2, 10))}
    with Threads(1) as work:
        async with asyncio.TaskGroup() as tasks:
            router = Router(services(work), handlers, tasks)
            answer = router(CONNECTION, frame)
            assert isinstance(answer, Pending)
            # Nothing else is read into the buffer while the thread reads it.
            assert answer.hold is Hold.FRAME
            try:
                return await sent(answer)
            except CloseConnectionError as error:
                return [str(error)]


def test_a_large_request_is_decoded_by_a_thread_and_handled_on_the_loop() -> None:
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=f"topic-{number}",
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
            for number in range(5_000)
        ],
    )
    threads: list[int] = []
    seen: list[Any] = []
    assert asyncio.run(route_large(large(request, 8), threads, seen))
    assert threads == [1]
    assert seen == [(request, 7, threading.get_ident())]


@pytest.mark.parametrize(("topics", "partitions"), [(5_000, 1), (1, 5_000)])
def test_a_large_request_is_freed_in_turns_after_its_answer(
    monkeypatch: pytest.MonkeyPatch, topics: int, partitions: int
) -> None:
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=f"topic-{number}",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index)
                    for index in range(partitions)
                ],
            )
            for number in range(topics)
        ],
    )
    let_go: list[int] = []

    async def free(things: list[Any]) -> None:
        let_go.append(len(things))
        await freed(things)
        let_go.append(len(things))

    monkeypatch.setattr("kaa.handlers.registry.freed", free)
    assert asyncio.run(route_large(large(request, 8), [], []))
    # The lists of all are not walked through for it.
    assert let_go == [5_000 if topics > 1 else 5_001, 0]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_produce_of_very_many_topics_is_decoded_by_a_thread(*, is_whole: bool) -> None:
    """However many records one of few topics has, it is handled at once."""
    seen: list[int] = []

    def handle(_: object, request: Any, context: RequestContext) -> Answer[ProduceResponse]:
        assert context.header.correlation_id == 7
        seen.append(len(request.topic_data))
        return ProduceResponse()

    found = api(ApiKey.PRODUCE)
    handlers: dict[int, Served]
    handlers = {found.key: Served(found, handle, Versions(3, 13), Versions(0, 13))}
    records = [PartitionProduceData(records=bytes(REQUEST_BYTES_ON_LOOP_MAX))]
    few = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=records)])
    many = ProduceRequest(topic_data=[TopicProduceData()] * REQUEST_BYTES_ON_LOOP_MAX)
    frames = [large(few, 12), large(many, 12)]

    async def main() -> None:
        with ThreadPoolExecutor(1) as work:
            async with asyncio.TaskGroup() as tasks:
                router = Router(services(work), handlers, tasks)
                assert isinstance(router(CONNECTION, frames[0]), list)
                assert seen == [1]
                answer = router(CONNECTION, frames[1] if is_whole else frames[1][:-9])
                assert isinstance(answer, Pending)
                assert answer.hold is Hold.FRAME
                assert seen == [1]
                if is_whole:
                    assert await sent(answer)
                else:
                    with pytest.raises(CloseConnectionError, match="malformed request"):
                        await sent(answer)

    asyncio.run(main())
    assert seen == ([1, REQUEST_BYTES_ON_LOOP_MAX] if is_whole else [1])


def test_a_large_request_that_is_malformed_closes_and_is_not_handled() -> None:
    name = "x" * 30_000
    topic = OffsetCommitRequestTopic(name=name, partitions=[])
    whole = large(OffsetCommitRequest(group_id="g", topics=[topic] * 4), 8)
    seen: list[Any] = []
    (reason,) = asyncio.run(route_large(whole[:-9], [], seen))
    assert reason == "malformed request: OffsetCommitRequest v8: cut short"
    assert not seen


@pytest.mark.parametrize(
    ("topics", "partitions", "is_long"), [(2_000, 1, True), (1, 2_000, True), (10, 2, False)]
)
def test_a_long_answer_is_encoded_by_a_thread(
    topics: int, partitions: int, *, is_long: bool
) -> None:
    """Many entries, or one with many."""
    threads: list[int] = []

    class Noted(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
            threads.append(1)
            return super().submit(*arguments, **named)

    def topic(number: int) -> OffsetCommitResponseTopic:
        return OffsetCommitResponseTopic(
            name=str(number),
            partitions=[
                OffsetCommitResponsePartition(partition_index=one) for one in range(partitions)
            ],
        )

    async def answer() -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=[topic(number) for number in range(topics)])

    async def main() -> None:
        with Noted(1) as executor:
            async with asyncio.TaskGroup() as tasks:
                handlers = served(lambda *_: Pending(answer()))
                found = Router(services(executor), handlers, tasks)(CONNECTION, frame(2))
                assert isinstance(found, Pending)
                await sent(found)

    asyncio.run(main())
    assert bool(threads) is is_long


def test_an_answer_that_is_given_up_costs_the_connection() -> None:
    async def main() -> None:
        promised: asyncio.Future[ApiVersionsResponse] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as tasks:
            router = Router(SERVICES, served(lambda *_: Pending(promised, Hold.NOTHING)), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Pending)
            promised.cancel()
            with pytest.raises(CloseConnectionError):
                await sent(answer)

    asyncio.run(main())


def test_handler_that_fails_ends_its_wait() -> None:
    async def main() -> None:
        async def response() -> None:
            raise ZeroDivisionError

        async with asyncio.TaskGroup() as tasks:
            router = Router(SERVICES, served(lambda *_: Pending(response(), Hold.FRAME)), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Pending)
            with pytest.raises(CloseConnectionError):
                await sent(answer)

    asyncio.run(main())


def test_handler_that_fails_costs_its_client_the_connection_and_is_reported() -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("by mistake")

    async def fails_later() -> None:
        await asyncio.sleep(0)
        fails()

    for handle in (fails, lambda *_: Pending(fails_later())):
        reports: list[str] = []
        with pytest.raises((CloseConnectionError, BaseExceptionGroup)):
            asyncio.run(route(handle, reports))
        assert len(reports) == 1
        assert "API_VERSIONS" in reports[0]
        assert "by mistake" in reports[0]


def test_a_node_that_is_ending_begins_nothing_and_reports_nothing_of_it() -> None:
    """Something else in it has failed; requests that still come are not what went wrong."""
    reports: list[str] = []

    async def response() -> None:
        """Never runs."""

    async def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            handlers = served(lambda *_: Pending(response()))
            router = Router(SERVICES, handlers, tasks, reports.append)
            tasks.create_task(fail())
            try:
                await asyncio.sleep(60)
            finally:
                with pytest.raises(CloseConnectionError, match="stopping"):
                    router(CONNECTION, frame())

    with pytest.raises(ExceptionGroup):
        asyncio.run(main())
    assert reports == []


def test_a_request_that_is_cancelled_before_it_begins_ends_its_wait() -> None:
    async def response() -> None:
        """Never runs, and nobody complains of that."""

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            router = Router(SERVICES, served(lambda *_: Pending(response())), tasks)
            answer = router(CONNECTION, frame())
            assert isinstance(answer, Pending)
            router.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sent(answer)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))


def test_unknown_version_of_api_versions_is_answered_in_version_zero() -> None:
    async def main() -> ApiVersionsResponse:
        async with asyncio.TaskGroup() as tasks:
            router = Router(SERVICES, served(lambda *_: None), tasks)
            newer = frame(0)
            newer[2:4] = (99).to_bytes(2, "big")
            # The header of a flexible version has tagged fields after the client id.
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
            Router(SERVICES, served(lambda *_: None), tasks)(CONNECTION, memoryview(content))

    with pytest.raises(BaseExceptionGroup) as failure:
        asyncio.run(main())
    assert failure.group_contains(CloseConnectionError)
