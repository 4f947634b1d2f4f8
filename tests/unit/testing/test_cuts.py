from __future__ import annotations

import asyncio

import pytest

from kaa.testing.cuts import CutLoop


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def scenario() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CutLoop)
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, peer = await loop.create_connection(Peer, "127.0.0.1", port)
    loop.cut([port + 1])
    await asyncio.sleep(0)
    assert not peer.lost.done()
    loop.cut([port])
    await peer.lost
    with pytest.raises(ConnectionRefusedError, match="cut off by the test"):
        await loop.create_connection(Peer, "127.0.0.1", port)
    loop.cut([])
    transport, again = await loop.create_connection(Peer, "127.0.0.1", port)
    transport.close()
    await again.lost
    server.close()


def test_a_port_is_out_of_reach_until_it_is_healed() -> None:
    with asyncio.Runner(loop_factory=CutLoop) as runner:
        runner.run(scenario())
