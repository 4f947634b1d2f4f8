"""Throttles of replication: which replicas they are about, their rate, and what they do."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kaa.replication.throttle import ReplicationThrottle, throttled_partitions
from tests.unit.replication.brokers import LAG_MS, Brokers, is_replicated, until


@pytest.mark.parametrize(
    ("entries", "partitions"),
    [
        ((), frozenset()),
        (("*",), None),
        (("0:1", "1:2", "4:1"), frozenset({0, 4})),
    ],
)
def test_replicas_are_named_by_partition_and_broker(
    entries: tuple[str, ...], partitions: frozenset[int] | None
) -> None:
    assert throttled_partitions(entries, 1) == partitions


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_without_a_rate_nothing_is_too_much() -> None:
    throttle = ReplicationThrottle(Clock())
    throttle.record(1 << 40)
    assert not throttle.is_exceeded()


def test_a_start_is_measured_over_all_but_one_window() -> None:
    throttle = ReplicationThrottle(Clock(), lambda: 100)
    throttle.record(1_000)
    assert not throttle.is_exceeded()
    throttle.record(1)
    assert throttle.is_exceeded()


def test_the_rate_falls_with_time_and_bursts_are_forgotten() -> None:
    clock = Clock()
    throttle = ReplicationThrottle(clock, lambda: 100)
    throttle.record(1_050)
    assert throttle.is_exceeded()
    clock.now_ms = 10_000
    # Ten windows have passed, and half of another one lets it go.
    assert throttle.is_exceeded()
    clock.now_ms = 10_500
    assert not throttle.is_exceeded()
    throttle.record(1_000_000)
    clock.now_ms = 10_500 + 11_000
    assert not throttle.is_exceeded()


def test_the_rate_may_change_at_any_time() -> None:
    rates: list[int | None] = [10]
    throttle = ReplicationThrottle(Clock(), lambda: rates[0])
    throttle.record(1_000)
    assert throttle.is_exceeded()
    rates[0] = None
    assert not throttle.is_exceeded()


# --- at work


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_catches_up_waits_and_one_in_sync_does_not(side: str) -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running() as tasks:
            name = f"{side}.replication.throttled.replicas"
            brokers.controller.create("t", replicas=[[0, 1, 2]], configs={name: "*"})
            partition, end = brokers.produce(5)
            await until(lambda: is_replicated(partition, end))
            brokers.fail(2)
            rates: list[int | None] = [1]
            # More than one fetch takes.
            for _ in range(30):
                partition, end = brokers.produce([(None, b"x" * 100_000)])
            await until(lambda: is_replicated(partition, end))
            # Else it counts as caught up, and is waited for.
            brokers.clock.skipped_ms += LAG_MS + 1
            brokers.restart(2, tasks)
            throttle = ReplicationThrottle(brokers.clock.monotonic_ms, lambda: rates[0])
            throttle.record(1_000)
            if side == "leader":
                brokers[0].manager.leader_throttle = throttle
            else:
                brokers[2].manager.follower_throttle = throttle
            for _ in range(20):
                partition, end = brokers.produce(1)
                # Broker 1 is in sync, and keeps up.
                await until(partial(is_replicated, partition, end))
            assert partition.isr == (0, 1)
            assert brokers[2].partition("t", 0).online_log().log_end_offset < end
            rates[0] = None
            await until(lambda: partition.isr == (0, 1, 2))

    asyncio.run(story())
