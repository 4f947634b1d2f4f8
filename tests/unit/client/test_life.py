from __future__ import annotations

import asyncio

import pytest

from kaa.client import Consumer, Producer, ShareConsumer
from kaa.client.errors import ClosedError
from kaa.client.life import ClientLife

ADDRESS = {"bootstrap.servers": "127.0.0.1:1"}


def clients() -> list[ClientLife]:
    return [Producer(ADDRESS), Consumer(ADDRESS), ShareConsumer({**ADDRESS, "group.id": "g"})]


def test_a_client_begins_and_ends_once() -> None:
    async def live(client: ClientLife) -> None:
        with pytest.raises(ClosedError, match="is not running; use it inside 'async with'"):
            client._running()
        await client.close()
        assert await client.start() is client
        client._running()
        with pytest.raises(ClosedError, match="was started already; make a new one"):
            await client.start()
        await client.close()
        await client.close()
        with pytest.raises(ClosedError, match="is not running"):
            client._running()
        with pytest.raises(ClosedError, match="was started already; make a new one"):
            await client.start()

    for client in clients():
        asyncio.run(live(client))


def test_what_fails_at_the_end_still_stops_the_client() -> None:
    class Failing(ClientLife):
        _noun = "client"
        stopped = False

        async def _finish(self, kind: type[BaseException] | None) -> None:
            raise OSError("lost")

        def _stop(self) -> None:
            self.stopped = True

    async def live(client: Failing) -> None:
        with pytest.raises(OSError, match="lost"):
            async with client:
                pass
        assert client.stopped
        with pytest.raises(ClosedError):
            client._running()

    asyncio.run(live(Failing(Producer(ADDRESS).cluster)))
