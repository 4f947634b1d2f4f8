"""The clocks of a node, and a node under which somebody sets the date."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from kaa.broker.node import Broker, running
from kaa.client import Admin, Consumer, NewTopic, Producer
from kaa.clock import SystemClock
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.broker.support import config, formatted

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SETTINGS = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=20",
    "group.consumer.heartbeat.interval.ms=50",
    "group.consumer.min.heartbeat.interval.ms=50",
    "group.initial.rebalance.delay.ms=0",
)


class SetClock(SystemClock):
    """A clock whose date is set by a test; what waits goes on by the machine's."""

    __slots__ = ("shift_ms",)

    def __init__(self) -> None:
        self.shift_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.shift_ms


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():
            pass


def test_clocks_tell_the_time_of_the_machine() -> None:
    clock = SystemClock()
    assert abs(clock.wall_ms() - time.time() * 1000) < 5_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()


def test_transactions_have_their_time_whatever_becomes_of_the_date() -> None:
    """Set ahead, it ends none that has time left; set back, it keeps none for longer."""

    async def run() -> None:
        clock, settings = SetClock(), config(*SETTINGS)
        async with running(Broker(settings, files=formatted(settings), clock=clock)) as broker:
            servers = {"bootstrap.servers": broker.bootstrap_servers}
            async with Admin(servers) as admin, Producer(servers, transactional_id="long") as long:

                async def ends(name: str) -> None:
                    """Begins a short transaction, and waits for its end."""
                    given = {"transactional.id": name, "transaction.timeout.ms": 200}
                    async with Producer({**servers, **given}) as short:
                        await short.init_transactions()
                        short.begin_transaction()
                        await (await short.send("t", b"short"))
                        clock.shift_ms = shift_ms

                        async def is_over() -> bool:
                            return (await admin.describe_transaction(name)).state != "Ongoing"

                        await until(is_over)

                await long.init_transactions()
                for shift_ms in (DAY_MS, -HOUR_MS, 0):
                    long.begin_transaction()
                    await (await long.send("t", b"long"))
                    await ends(f"short{shift_ms}")
                    assert (await admin.describe_transaction("long")).state == "Ongoing"
                    await long.commit_transaction()

    asyncio.run(run())


def test_groups_are_assigned_whatever_becomes_of_the_date() -> None:
    async def run() -> None:
        clock, settings = SetClock(), config(*SETTINGS)
        async with running(Broker(settings, files=formatted(settings), clock=clock)) as broker:
            servers = {"bootstrap.servers": broker.bootstrap_servers}
            async with Admin(servers) as admin:
                await admin.create_topics([NewTopic("t", 6, 1)])
            for protocol in ("consumer", "classic"):
                group = {**servers, "group.id": protocol, "group.protocol": protocol}
                if protocol == "classic":
                    group["heartbeat.interval.ms"] = "50"
                members: list[Consumer] = []

                async def is_shared(members: list[Consumer] = members) -> bool:
                    for one in members:
                        await one.poll(timeout_ms=5)
                    counts = [len(one.assignment) for one in members]
                    return counts == [6 // len(members)] * len(members)

                for shift_ms in (0, -HOUR_MS, DAY_MS):
                    clock.shift_ms = shift_ms
                    members.append(await Consumer(group).start())
                    members[-1].subscribe("t")
                    await until(is_shared)
                for one in members:
                    await one.close()

    asyncio.run(run())


def test_metadata_waits_by_the_clock_that_nobody_sets() -> None:
    """Also in a directory of its own."""

    async def run() -> None:
        clock, settings = SetClock(), config("metadata.log.dir=/metadata")
        async with running(Broker(settings, files=formatted(settings), clock=clock)) as broker:
            quorum = broker.quorum
            assert quorum is not None
            assert abs(quorum.log.steady_ms(0) - clock.monotonic_ms()) < HOUR_MS

    asyncio.run(run())
