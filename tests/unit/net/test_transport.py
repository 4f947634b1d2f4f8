"""The conformance suite of transports: a connection behaves the same on each of them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from kaa.net.transport import PlainTransport
from tests.unit.net.support import ECHO, FILE, HOLD, PARK, REFUSE, Region, running, sized

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["plain", "tls"])
def contexts(
    request: pytest.FixtureRequest, tls_contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    return tls_contexts if request.param == "tls" else None


def test_small_and_large_frames(contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None) -> None:
    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            for size in (0, 1, 100, 16_384, 70_000, 3_000_000):
                frame = bytes([ECHO]) + os.urandom(size)
                sending = asyncio.ensure_future(client.send(sized(frame)))  # noqa: TID251
                assert await client.answer() == frame
                await sending

    asyncio.run(main())


def test_many_frames_in_one_piece(contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None) -> None:
    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            frames = [bytes([ECHO]) + str(index).encode() for index in range(1000)]
            await client.send(b"".join(map(sized, frames)))
            assert [await client.answer() for _ in frames] == frames

    asyncio.run(main())


def test_input_that_came_while_a_request_was_under_way(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None,
) -> None:
    """It may be in the socket, in the transport or in the connection; nothing else will come."""

    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            held = bytes([HOLD])
            frames = [bytes([ECHO]) + os.urandom(100) for _ in range(5)]
            # In pieces, but all of them before the node can look.
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for frame in (held, *frames):
                client.socket.sendall(sized(frame))
            await system.until(lambda: bool(system.node.waiting))
            system.node.answer(held)
            assert [await client.answer() for _ in range(6)] == [held, *frames]

    asyncio.run(main())


def test_later_answers(contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None) -> None:
    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            await client.send(sized(bytes([PARK])))
            await system.until(lambda: bool(system.node.waiting))
            system.node.answer(bytes([PARK]))
            assert await client.answer() == bytes([PARK])

    asyncio.run(main())


@pytest.mark.parametrize("on_disk", [True, False])
def test_file_regions(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None, tmp_path: Path, on_disk: bool
) -> None:
    content = os.urandom(2_000_000)

    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            path = tmp_path / "segment" if on_disk else None
            system.node.region = lambda: Region(content, path)
            assert await client.ask(bytes([FILE])) == content
            assert await client.ask(bytes([ECHO])) == bytes([ECHO])
            assert system.node.regions[0].released == 1

    asyncio.run(main())


def test_file_region_that_cannot_be_read(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the system reads it for a socket that is fine, or the node itself."""

    def sendfile(*_: int) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "sendfile", sendfile)

    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            region = Region(bytes(200_000), tmp_path / "segment")
            region.is_broken = True
            system.node.region = lambda: region
            await client.send(sized(bytes([FILE])))
            with pytest.raises((EOFError, ssl.SSLError)):
                await client.answer()
            assert [error.errno for error in region.failures] == [errno.EIO]
            assert region.released == 1

    asyncio.run(main())


def test_socket_that_is_gone_is_no_fault_of_the_file(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    transport, region = PlainTransport(one), Region(bytes(200_000), tmp_path / "segment")
    other.close()
    with pytest.raises(ConnectionError):
        transport.send_file(region, 0)
    assert not region.failures
    transport.close()
    region.release()


def test_cut_off_by_the_node(contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None) -> None:
    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            await client.send(sized(bytes([REFUSE])))
            assert await client.is_cut_off()

    asyncio.run(main())


def test_closed_by_the_client(contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None) -> None:
    async def main() -> None:
        async with running(tls=contexts) as system:
            client = await system.connect()
            await client.ask(bytes([ECHO]))
            client.socket.close()
            await system.until(lambda: not system.listener.connections)

    asyncio.run(main())
