from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.client.connection import Connection, ConnectionSettings, FrameReader, common_version
from kaa.client.errors import (
    DisconnectedError,
    ProtocolError,
    RequestTimeoutError,
    UnreachableError,
    UnsupportedApiError,
)
from kaa.config.addresses import parse_host_port
from kaa.wire.errors import Errors
from kaa.wire.frames import encode_response, read_request_header
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from kaa.wire.registry import ApiKey, api
from tests.support.ports import LOOPBACK, free_port

SETTINGS = ConnectionSettings(client_id="test", request_timeout_ms=5_000, setup_timeout_ms=5_000)


@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
    st.sampled_from([0, 70_000]),
)
def test_frames_come_out_as_they_went_in(bodies: list[bytes], steps: list[int], extra: int) -> None:
    bodies = [body + bytes(extra) for body in bodies]
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    reader = FrameReader()
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        buffer = reader.buffer()
        step = min(steps[turn % len(steps)] * (1 + extra // 100), len(buffer))
        piece = stream[position : position + step]
        buffer[: len(piece)] = piece
        frames += map(bytes, reader.received(len(piece)))
        position += len(piece)
        turn += 1
    assert frames == bodies


def test_frame_above_the_limit_is_refused() -> None:
    reader = FrameReader(frame_bytes_max=10)
    reader.buffer()[:4] = (11).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="claims 11 bytes"):
        reader.received(4)


def test_common_version_is_the_highest_of_both() -> None:
    metadata = api(ApiKey.METADATA)
    served = metadata.served_versions()
    assert common_version(metadata, 0, 5) == 5
    assert common_version(metadata, 0, 99) == served.high
    assert common_version(metadata, 0, 99, 9) == 9
    with pytest.raises(UnsupportedApiError, match="Metadata in versions 99 to 100"):
        common_version(metadata, 99, 100)


def test_requests_are_pipelined_and_answered(bootstrap: str) -> None:
    async def run() -> None:
        host, port = parse_host_port("", "", bootstrap, "")
        connection = await Connection.open(host, port, SETTINGS)
        assert connection.versions[ApiKey.METADATA][1] >= 12
        futures = [connection.send(MetadataRequest(topics=[])) for _ in range(20)]
        assert connection.in_flight_count == 20
        answers = await asyncio.gather(*futures)
        assert all(answer.brokers for answer in answers)
        assert connection.in_flight_count == 0
        connection.close()
        with pytest.raises(DisconnectedError):
            connection.send(MetadataRequest(topics=[]))

    asyncio.run(run())


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def serve(talk: Talk, use: Callable[[int], Awaitable[None]]) -> None:
    """A server that says to one client what a test makes it say."""
    done = asyncio.Event()

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await talk(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        done.set()

    server = await asyncio.start_server(whole, LOOPBACK, 0)
    async with server:
        await use(server.sockets[0].getsockname()[1])
        await asyncio.wait_for(done.wait(), 60)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def answer_versions(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int, error: Errors
) -> int:
    header = read_request_header(await read_frame(reader))
    response = ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(api_key=18, min_version=0, max_version=2),
            ApiVersion(api_key=3, min_version=0, max_version=9),
        ],
    )
    writer.writelines(encode_response(response, version, header.correlation_id))
    return header.api_version


def test_older_broker_is_asked_again_in_its_own_version() -> None:
    asked = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await answer_versions(reader, writer, 0, Errors.UNSUPPORTED_VERSION))
        asked.append(await answer_versions(reader, writer, 2, Errors.NONE))
        await reader.read()

    async def use(port: int) -> None:
        connection = await Connection.open(LOOPBACK, port, SETTINGS)
        assert connection.version_of(ApiKey.METADATA) == 9
        with pytest.raises(UnsupportedApiError, match="does not serve Fetch"):
            connection.version_of(ApiKey.FETCH)
        connection.close()

    asyncio.run(serve(talk, use))
    assert asked == [4, 2]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"\x00\x00\x00\x04\x7f\x00\x00\x00", ProtocolError),
        (b"HTTP/1.1 400 Bad Request", ProtocolError),
        (b"", DisconnectedError),
        (None, RequestTimeoutError),
    ],
)
def test_all_that_wait_fail_with_the_reason(reply: bytes | None, error: type[Exception]) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_versions(reader, writer, 4, Errors.NONE)
        await read_frame(reader)
        if reply:
            writer.write(reply)
        if reply is None:
            await reader.read()

    async def use(port: int) -> None:
        connection = await Connection.open(LOOPBACK, port, SETTINGS)
        futures = [connection.send(MetadataRequest(topics=[]), timeout_ms=200) for _ in range(2)]
        for future in futures:
            with pytest.raises(error):
                await future
        assert not connection.is_open

    asyncio.run(serve(talk, use))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_short_deadline_holds_beside_longer_ones(is_first: bool) -> None:
    """The request for versions, long answered, and another with more time must not hold it up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_versions(reader, writer, 4, Errors.NONE)
        await reader.read()

    async def use(port: int) -> None:
        settings = SETTINGS._replace(request_timeout_ms=600_000)
        connection = await Connection.open(LOOPBACK, port, settings)
        timeouts_ms = [20, None] if is_first else [None, 20]
        futures = [connection.send(MetadataRequest(topics=[]), timeout_ms=ms) for ms in timeouts_ms]
        async with asyncio.timeout(60):
            for future in futures:
                with pytest.raises(RequestTimeoutError):
                    await future

    asyncio.run(serve(talk, use))


def test_nobody_listens() -> None:
    async def run() -> None:
        with pytest.raises(UnreachableError, match="check that a broker listens there"):
            await Connection.open(LOOPBACK, free_port(), SETTINGS)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "port"), [("ctl..example", 1), (f"{'x' * 64}.example", 1), (LOOPBACK, 65_536)]
)
def test_a_name_that_is_no_address_is_unreachable(host: str, port: int) -> None:
    async def run() -> None:
        with pytest.raises(UnreachableError, match="this is not a valid address"):
            await Connection.open(host, port, SETTINGS)

    asyncio.run(run())
