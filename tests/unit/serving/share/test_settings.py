from __future__ import annotations

from kaa.log.log import FetchIsolation
from kaa.serving.share.machine import ShareSettings
from kaa.serving.share.settings import GroupShareSettings, ShareGroupSettings
from kaa.wire.messages.metadata_settings import ConfigRecord
from tests.unit.handlers.share_requests import share_node
from tests.unit.handlers.support import Node


def alter(node: Node, name: str, value: str | None) -> None:
    node.replay(ConfigRecord(resource_type=32, resource_name="g", name=name, value=value))


def test_defaults_are_those_of_kafka() -> None:
    with share_node() as node:
        assert ShareGroupSettings(node.services.view, "g")() == GroupShareSettings()


def test_changes_count_at_once() -> None:
    with share_node("group.share.record.lock.duration.ms=20000") as node:
        settings = ShareGroupSettings(node.services.view, "g")
        assert settings.partitions() == ShareSettings(lock_duration_ms=20_000)
        alter(node, "share.delivery.count.limit", "7")
        alter(node, "share.partition.max.record.locks", "300")
        alter(node, "share.renew.acknowledge.enable", "false")
        assert settings.partitions() == ShareSettings(20_000, 7, 300, is_renew_enabled=False)
        alter(node, "share.delivery.count.limit", "3")
        assert settings.partitions().delivery_count_max == 3
        alter(node, "share.isolation.level", "read_committed")
        alter(node, "share.auto.offset.reset", "earliest")
        assert settings().isolation is FetchIsolation.TXN_COMMITTED
        assert settings().offset_reset == "earliest"
        # A stored value that lies outside of the broker's bounds counts as the nearest.
        alter(node, "share.record.lock.duration.ms", "1000")
        assert settings.partitions().lock_duration_ms == 15_000
        alter(node, "share.delivery.count.limit", None)
        assert settings.partitions().delivery_count_max == 5
        # Of another group nothing is known.
        assert ShareGroupSettings(node.services.view, "h").partitions().record_locks_max == 2_000
