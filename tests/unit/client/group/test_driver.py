from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kaa.client.cluster import Cluster
from kaa.client.errors import KafkaError
from kaa.client.group.assignors import assignors_of
from kaa.client.group.classic_machine import ClassicMember, ClassicSettings
from kaa.client.group.driver import GroupDriver
from kaa.client.group.events import Assign, Done, Effect, Fail, Poll, Revoke
from kaa.config.client import consumer_values
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from kaa.wire.errors import Errors
from tests.support.pace import PATIENCE_SECONDS


class Application:
    """Does at once what the group wants of it."""

    def __init__(self, driver: GroupDriver, woken: asyncio.Event) -> None:
        self.driver = driver
        self.woken = woken

    async def next(self) -> Effect:
        async with asyncio.timeout(60):
            while not self.driver.for_user:
                self.driver.handle(Poll())
                self.woken.clear()
                if not self.driver.for_user:
                    await self.woken.wait()
        effect = self.driver.for_user.popleft()
        if not isinstance(effect, Fail):
            self.driver.handle(Done())
        return effect


@asynccontextmanager
async def member_of(broker: Broker) -> AsyncIterator[Application]:
    values = consumer_values(
        {"bootstrap.servers": broker.bootstrap_servers, "metadata.max.age.ms": "200"}
    )
    woken = asyncio.Event()
    settings = ClassicSettings("g", None, assignors_of(["range"]), 10_000, 100, 60_000, 50)
    async with Cluster(values) as cluster, asyncio.TaskGroup() as tasks:
        driver = GroupDriver(ClassicMember(settings), "g", cluster, woken.set)
        task = tasks.create_task(driver.run())
        try:
            yield Application(driver, woken)
        finally:
            await driver.leave(PATIENCE_SECONDS)
            task.cancel()


def sizes(effect: Effect) -> dict[str, int]:
    assert isinstance(effect, Assign)
    names = [one.topic for one in effect.partitions]
    return {name: names.count(name) for name in names}


def test_topic_that_is_made_later_and_one_that_grows() -> None:
    async def run(broker: Broker) -> None:
        async with member_of(broker) as application:
            application.driver.subscribe(frozenset({"t"}))
            assert sizes(await application.next()) == {}
            await asyncio.to_thread(broker.topic, "t", partitions=2)
            assert sizes(await application.next()) == {"t": 2}
        broker.wait_for(lambda: broker.group("g").member_count() == 0)

    with Broker() as broker:
        asyncio.run(run(broker))


def test_topics_by_a_test_of_names() -> None:
    async def run(broker: Broker) -> None:
        async with member_of(broker) as application:
            application.driver.subscribe(frozenset(), lambda name: name.startswith("a"))
            assert sizes(await application.next()) == {"a1": 1}

    with Broker() as broker:
        broker.topic("a1")
        broker.topic("b")
        asyncio.run(run(broker))


def test_trouble_on_the_way_and_refusals() -> None:
    async def run(broker: Broker) -> None:
        broker.on("JoinGroup").drop(times=1)
        broker.on("SyncGroup").fail(Errors.NOT_COORDINATOR, times=1)
        broker.on("FindCoordinator").fail(Errors.COORDINATOR_NOT_AVAILABLE, times=1)
        async with member_of(broker) as application:
            application.driver.subscribe(frozenset({"t"}))
            assert sizes(await application.next()) == {"t": 1}
            with broker.on("Heartbeat").fail(Errors.GROUP_AUTHORIZATION_FAILED):
                assert isinstance(await application.next(), Fail)
            assert await application.next() == Revoke((TopicPartition("t", 0),), is_lost=True)
            assert sizes(await application.next()) == {"t": 1}


def test_a_failure_is_told_once_until_the_application_polls() -> None:
    async def run(broker: Broker) -> None:
        async with member_of(broker) as application:
            driver = application.driver
            for _ in range(3):
                driver._tell_failure(KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED, "topics"))
            driver._tell_failure(KafkaError(Errors.NOT_COORDINATOR, "passes by itself"))
            assert len(driver.for_user) == 1

    with Broker() as broker:
        broker.topic("t")
        asyncio.run(run(broker))
