from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from kaa.broker.node import running
from kaa.client.connection import ConnectionSettings
from kaa.client.errors import UnsupportedApiError
from kaa.client.peer import Peer, Peers, peer_settings
from kaa.model.nodes import HostPort, SecurityProtocol
from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k52_vote import VoteRequest
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import LOOPBACK, free_port
from tests.unit.broker.support import config, node

SETTINGS = peer_settings(SecurityProtocol.PLAINTEXT, client_id="peer", request_timeout_ms=2_000)


def is_closed(peer: Peer) -> bool:
    return peer.is_closed


def test_callers_who_come_first_together_share_a_connection() -> None:
    async def scenario() -> None:
        async with running(node(config())) as broker:
            host, _, port = broker.bootstrap_servers.rpartition(":")
            peer = Peer(HostPort(host, int(port)), SETTINGS, Random(1))
            listener = broker.listeners.by_name["PLAINTEXT"]
            answers = await asyncio.gather(
                *(peer.request(MetadataRequest(topics=None)) for _ in range(5))
            )
            assert {answer.cluster_id for answer in answers} == {broker.cluster_id}
            assert len(listener.connections) == 1
            with pytest.raises(UnsupportedApiError):
                await peer.request(VoteRequest())
            # A connection that broke is opened again.
            for connection in tuple(listener.connections):
                connection.close("for the test")
            await asyncio.sleep(0.05)
            await peer.request(MetadataRequest(topics=None))
            peer.close()
            with pytest.raises(ConnectionError, match="closed"):
                await peer.request(MetadataRequest(topics=None))

    asyncio.run(scenario())


def test_a_node_that_is_not_there_is_left_alone_for_a_moment() -> None:
    async def scenario() -> None:
        peer = Peer(HostPort(LOOPBACK, free_port()), SETTINGS, Random(1))
        with pytest.raises(ConnectionError, match=r"refused|connect"):
            await peer.request(MetadataRequest())
        with pytest.raises(ConnectionError, match="a moment ago"):
            await peer.request(MetadataRequest())
        await asyncio.sleep(0.07)
        with pytest.raises(ConnectionError, match=r"refused|connect"):
            await peer.request(MetadataRequest())

    asyncio.run(scenario())


def test_a_deadline_covers_connecting_and_the_answer() -> None:
    async def scenario() -> None:
        ended = asyncio.Event()

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            ended.set()

        server = await asyncio.start_server(mute, LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        peer = Peer(HostPort(LOOPBACK, port), SETTINGS, Random(1))
        begun = asyncio.get_running_loop().time()
        with pytest.raises(ConnectionError, match="50 ms"):
            await peer.request(MetadataRequest(), timeout_ms=50)
        assert asyncio.get_running_loop().time() - begun < 0.8
        peer.close()
        await ended.wait()
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())


def test_a_name_is_resolved_at_every_dial() -> None:
    """A node that comes back has another address under the same name, as in a container."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        resolve, address = loop.getaddrinfo, LOOPBACK

        async def resolved(host: Any, port: Any, **facts: Any) -> Any:
            return await resolve(address if host == "moving.example" else host, port, **facts)

        loop.getaddrinfo = resolved  # type: ignore[method-assign]
        async with running(node(config())) as first:
            port = int(first.bootstrap_servers.rpartition(":")[2])
            peer = Peer(HostPort("moving.example", port), SETTINGS, Random(1))
            answer = await peer.request(MetadataRequest(topics=None))
            assert answer.cluster_id == first.cluster_id
            elsewhere = config(f"listeners=PLAINTEXT://127.0.0.2:{port}", "node.id=2")
            async with running(node(elsewhere)) as second:
                address = "127.0.0.2"
                # A connection that holds is kept; the next one leads to the new place.
                answer = await peer.request(MetadataRequest(topics=None))
                assert [broker.node_id for broker in answer.brokers] == [first.config.node_id]
                for connection in tuple(first.listeners.by_name["PLAINTEXT"].connections):
                    connection.close("for the test")
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while answer.brokers[0].node_id != second.config.node_id:
                        with suppress(ConnectionError):
                            answer = await peer.request(MetadataRequest(topics=None))
            peer.close()

    asyncio.run(scenario())


def test_an_address_that_changed_gets_a_new_peer() -> None:
    async def scenario() -> None:
        peers = Peers(ConnectionSettings(), Random(1))
        first = peers.at(1, "a", 1)
        assert peers.at(1, "a", 1) is first
        assert peers.at(1, "b", 1) is not first
        assert peers.at(2, "a", 1) is not first
        peers.close()

    asyncio.run(scenario())


def test_nodes_that_are_not_kept_are_let_go_of_when_they_have_answered() -> None:
    async def scenario() -> None:
        async with running(node(config())) as broker:
            host, _, port = broker.bootstrap_servers.rpartition(":")
            listener = broker.listeners.by_name["PLAINTEXT"]
            peers = Peers(SETTINGS, Random(1))
            ids = (-2, 1, 2, 3)
            for node_id in ids:
                await peers.at(node_id, host, int(port)).request(MetadataRequest())
            assert len(listener.connections) == len(ids)
            asked = peers.at(3, host, int(port))
            answer = asyncio.get_running_loop().create_task(
                asked.request(MetadataRequest(topics=None))
            )
            await asyncio.sleep(0)
            peers.keep({1})
            # One that has no id yet may be any of them.
            assert peers.node_ids == {-2, 1}
            assert not is_closed(asked)
            assert (await answer).cluster_id == broker.cluster_id
            assert is_closed(asked)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(listener.connections) > 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            # Who is asked again is connected to again.
            await peers.at(2, host, int(port)).request(MetadataRequest())
            assert len(listener.connections) == 3
            peers.close()

    asyncio.run(scenario())


def test_one_that_is_let_go_of_ends_with_the_others() -> None:
    async def scenario() -> None:
        ended = asyncio.Event()

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            ended.set()

        server = await asyncio.start_server(mute, LOOPBACK, 0)
        peers = Peers(SETTINGS, Random(1))
        peer = peers.at(1, LOOPBACK, server.sockets[0].getsockname()[1])
        answer = asyncio.get_running_loop().create_task(peer.request(MetadataRequest()))
        await asyncio.sleep(0.05)
        peers.keep(())
        assert not is_closed(peer)
        peers.close()
        assert is_closed(peer)
        answer.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await answer
        await ended.wait()
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())


def test_only_plain_text_is_there_so_far() -> None:
    with pytest.raises(ValueError, match="PLAINTEXT"):
        peer_settings(SecurityProtocol.SSL, client_id="peer", request_timeout_ms=1)
