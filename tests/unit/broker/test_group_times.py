from __future__ import annotations

from kaa.broker.group_times import GroupTimes
from kaa.coordinators.group.settings import ConsumerTimes, consumer_times
from tests.unit.handlers.support import Node


def test_settings_of_broker_and_group() -> None:
    with Node("group.consumer.heartbeat.interval.ms=6000") as node:
        times = GroupTimes(node.services.view, consumer_times)
        assert times("g") == ConsumerTimes(45_000, 6_000, 1_000)
        node.services.image.configs[32, "g"] = {
            "consumer.session.timeout.ms": "50000",
            # Below what the broker allows: the nearest bound counts.
            "consumer.heartbeat.interval.ms": "1",
        }
        assert times("g") == ConsumerTimes(50_000, 5_000, 1_000)
        assert times("h") == ConsumerTimes(45_000, 6_000, 1_000)
