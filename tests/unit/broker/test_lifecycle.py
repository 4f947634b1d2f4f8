from __future__ import annotations

import asyncio

import pytest

from kaa.broker.directories import StartError
from kaa.broker.lifecycle import BrokerLifecycle
from kaa.broker.node import running
from kaa.controller.local import LocalController
from kaa.quorum.voters import Endpoint
from kaa.wire.primitives import Uuid
from tests.unit.broker.support import config, node

ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092)


def lifecycle(controller: LocalController, incarnation: bytes) -> BrokerLifecycle:
    return BrokerLifecycle(config(), controller, Uuid(incarnation * 16), list)


def test_broker_of_a_running_node_is_alive_and_leaves_when_it_may() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            image = broker.services.image.brokers[broker.config.node_id]
            assert not image.is_fenced
            assert image.epoch > 0
            assert [point.name for point in image.endpoints] == ["PLAINTEXT"]
            assert broker._lifecycle is not None
            assert await broker._lifecycle.leave(5)

    asyncio.run(main())


def test_second_broker_with_the_same_id_is_refused() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            controller = broker.services.controller
            assert isinstance(controller, LocalController)
            other = lifecycle(controller, b"o")
            with pytest.raises(StartError, match="broker"):
                await other.register(broker.cluster_id, [ENDPOINT], [], -1)
            assert other.epoch == -1

    asyncio.run(main())
