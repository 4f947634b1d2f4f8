from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from kaa import limits
from tests.unit.net.support import ECHO, running, sized


def test_client_without_tls_is_cut_off(
    tls_contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def main() -> None:
        async with running(tls=tls_contexts) as system:
            system.client_tls = None
            client = await system.connect()
            await client.send(sized(bytes([ECHO]) * 100))
            # An alert may come first; then the end.
            await asyncio.to_thread(_read_to_end, client.socket)
            assert system.node.frames == []
            await system.until(lambda: not system.listener.connections)

    asyncio.run(main())


def _read_to_end(sock: socket.socket) -> None:
    try:
        while sock.recv(1000):
            pass
    except ConnectionResetError:
        pass


def test_client_that_does_not_trust_the_node_is_forgotten(
    tls_contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def main() -> None:
        async with running(tls=tls_contexts) as system:
            system.client_tls = ssl.create_default_context()
            with pytest.raises(ssl.SSLCertVerificationError):
                await system.connect()
            await system.until(lambda: not system.listener.connections)

    asyncio.run(main())


def test_silent_client_is_late_during_the_handshake(
    tls_contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def main() -> None:
        async with running(tls=tls_contexts) as system:
            sock = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", system.port), 10)
            await system.until(lambda: bool(system.listener.connections))
            now = asyncio.get_running_loop().time()
            system.listener.sweep(now + limits.NET_FIRST_REQUEST_SECONDS_MAX + 1)
            assert not system.listener.connections
            sock.close()

    asyncio.run(main())
