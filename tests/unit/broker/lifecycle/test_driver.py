from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kaa.broker.directories import StartError
from kaa.broker.lifecycle.driver import BrokerIdentity, BrokerLifecycle
from kaa.broker.node import Broker, running
from kaa.model.nodes import Endpoint
from kaa.wire.primitives import Uuid
from tests.unit.broker.support import config, node

ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092)


def lifecycle(
    broker: Broker,
    incarnation: bytes,
    cluster_id: str,
    *settings: str,
    trouble: str | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> BrokerLifecycle:
    return BrokerLifecycle(
        config(*settings),
        broker.services.controller,
        BrokerIdentity(cluster_id, Uuid(incarnation * 16), [ENDPOINT], [], -1),
        Random(1),
        published_offset=lambda: 0,
        offline_directories=list,
        trouble=lambda: trouble,
        report=report,
    )


async def refusal(other: BrokerLifecycle) -> str:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(other.run())
        with pytest.raises(StartError) as failure:
            await other.registered()
    assert other.epoch == -1
    return str(failure.value)


def test_broker_of_a_running_node_is_alive_and_leaves_when_it_may() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            image = broker.services.image.brokers[broker.config.node_id]
            assert not image.is_fenced
            assert image.epoch > 0
            assert [point.listener for point in image.endpoints] == ["PLAINTEXT"]
            assert broker._lifecycle is not None
            assert await broker._lifecycle.leave(5)

    asyncio.run(main())


def test_second_broker_with_the_same_id_is_refused() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            short = "initial.broker.registration.timeout.ms=300"
            reports: list[str] = []
            other = lifecycle(broker, b"o", broker.cluster_id, short, report=reports.append)
            said = await refusal(other)
            assert "no controller registered this broker" in said
            assert "node.id" in said
            # Once, however often it is tried.
            (waits,) = reports
            assert "waits until the session of its last run has ended" in waits

    asyncio.run(main())


def test_a_broker_that_was_abandoned_says_nothing_more() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            short = "initial.broker.registration.timeout.ms=300"
            other = lifecycle(broker, b"o", broker.cluster_id, short)
            # It ends at once, not at its next deadline.
            async with asyncio.timeout(0.2), asyncio.TaskGroup() as tasks:
                tasks.create_task(other.run())
                await asyncio.sleep(0)
                other.abandon()

    asyncio.run(main())


def test_a_broker_that_nobody_took_says_what_keeps_it_from_the_quorum() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            short = "initial.broker.registration.timeout.ms=300"
            other = lifecycle(broker, b"o", broker.cluster_id, short, trouble="it is lost; find it")
            assert (await refusal(other)).endswith("it is lost; find it")

    asyncio.run(main())


def test_broker_of_another_cluster_is_refused_at_once() -> None:
    async def main() -> None:
        async with running(node(config())) as broker:
            assert "cluster" in await refusal(lifecycle(broker, b"o", "another-cluster-AAAAAA"))

    asyncio.run(main())


def test_heartbeats_that_fail_unexpectedly_do_not_end_the_broker() -> None:
    async def main() -> None:
        async with running(node(config("broker.heartbeat.interval.ms=10"))) as broker:
            assert broker._metadata is not None
            assert broker._lifecycle is not None
            channel: Any = broker._metadata.heartbeats
            submit, failures = channel.submit, iter([ValueError("odd")] * 2)
            was_sent = asyncio.Event()

            async def fail(*arguments: Any) -> Any:
                for failure in failures:
                    raise failure
                was_sent.set()
                return await submit(*arguments)

            channel.submit = fail
            await asyncio.wait_for(was_sent.wait(), 10)

    asyncio.run(main())
