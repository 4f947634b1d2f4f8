from __future__ import annotations

import asyncio
import re
from random import Random

import pytest

from kaa.broker.assembly import make_fetch_sessions, make_quorum_node
from kaa.broker.node import running
from kaa.config.broker import BROKER
from kaa.config.unsupported import INEFFECTIVE, is_missing
from kaa.model.nodes import Endpoint
from kaa.wire.registry import ApiKey
from tests.support.ids import uuid
from tests.unit.broker.support import config, node

CONTROLLER = Endpoint("CONTROLLER", "127.0.0.1", 9093)


def test_every_listener_says_what_its_router_serves() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            said = broker.services.api_versions
            assert set(said) == {"PLAINTEXT", "CONTROLLER"}
            broker_keys = {entry.api_key for entry in said["PLAINTEXT"]}
            controller_keys = {entry.api_key for entry in said["CONTROLLER"]}
            assert ApiKey.PRODUCE in broker_keys
            assert ApiKey.PRODUCE not in controller_keys
            assert ApiKey.VOTE in controller_keys
            assert ApiKey.VOTE not in broker_keys

    asyncio.run(main())


def test_port_zero_is_told_as_the_port_that_was_bound() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            for endpoint in broker.config.listeners.all:
                assert endpoint.port == 0
                assert broker.listeners.bound(endpoint).port > 0

    asyncio.run(main())


@pytest.mark.parametrize(("bound", "host"), [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1")])
def test_what_was_bound_is_registered(bound: str, host: str) -> None:
    """Neither the port 0 of the settings nor a piece of an IPv6 address."""

    async def main() -> None:
        listeners = f"listeners=PLAINTEXT://{bound}:0,CONTROLLER://{bound}:0"
        async with running(node(config(listeners))) as broker:
            image, node_id = broker.services.image, broker.config.node_id
            for told in (image.brokers[node_id].endpoints, image.controllers[node_id].endpoints):
                (endpoint,) = told
                port = broker.listeners.by_name[endpoint.listener].port
                assert (endpoint.host, endpoint.port) == (host, port)

    asyncio.run(main())


def test_voters_come_from_the_settings_or_from_the_log() -> None:
    from_log = make_quorum_node(config(), "c", uuid(1), (CONTROLLER,))
    assert not from_log.static_voters.voters
    voters = "controller.quorum.voters=1@127.0.0.1:9093"
    settings = config(voters, "controller.quorum.fetch.timeout.ms=77")
    static = make_quorum_node(settings, "c", uuid(1), (CONTROLLER,))
    assert [voter.key.id for voter in static.static_voters.voters] == [1]
    assert static.config.fetch_timeout_ms == 77


def test_every_setting_of_the_quorum_counts() -> None:
    names = [name for name in BROKER.keys if re.match(r"controller\.quorum\..+\.(ms|bytes)$", name)]
    given = {name: 100 + place for place, name in enumerate(names)}
    lines = [f"{name}={value}" for name, value in given.items()]
    made = make_quorum_node(config(*lines), "c", uuid(1), (CONTROLLER,)).config
    for name, value in given.items():
        field = name.removeprefix("controller.quorum.").replace(".", "_")
        assert getattr(made, field) == value, name
        assert not is_missing(name)
        assert name not in INEFFECTIVE


def test_fetch_sessions_are_as_many_as_the_settings_allow() -> None:

    sessions = make_fetch_sessions(config("max.incremental.fetch.session.cache.slots=3"), Random(1))
    assert sessions._sessions_max == 3


def test_buffers_of_sockets() -> None:
    async def sizes(*settings: str) -> tuple[int | None, int | None]:
        async with running(node(config(*settings))) as broker:
            found = broker.listeners.by_name["PLAINTEXT"].settings
            return found.send_buffer_bytes, found.receive_buffer_bytes

    async def main() -> None:
        assert await sizes() == (102_400, None), "Kafka's size to send; the system's to receive"
        chosen = ("socket.send.buffer.bytes=5000", "socket.receive.buffer.bytes=6000")
        assert await sizes(*chosen) == (5000, 6000)
        assert await sizes("socket.send.buffer.bytes=-1") == (None, None)

    asyncio.run(main())
