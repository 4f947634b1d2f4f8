from __future__ import annotations

import re

from kaa.broker.coordinators import CoordinatorHost, group_shards
from kaa.coordinators.machine import Moment
from kaa.records.batch import CompressionType
from tests.unit.handlers.group_requests import join_request
from tests.unit.handlers.support import NOW_MS, Node


def test_settings_of_the_node() -> None:
    with Node("group.coordinator.append.linger.ms=7", "offsets.topic.compression.codec=4") as node:
        host = CoordinatorHost(node.services, None, lambda _: None, group_shards)
        settings = host.settings()
        assert (settings.linger_ms, settings.commit_timeout_ms) == (7, 5_000)
        assert settings.compression_type is CompressionType.ZSTD
        assert host.now() == Moment(NOW_MS, 0)
        node.load_coordinators()
        assert host.has_enough_replicas(node.partition("__consumer_offsets"))
        with Node("group.coordinator.append.linger.ms=9") as other:
            node.services.config = other.services.config
            assert host.settings().linger_ms == 9


def test_member_ids_end_with_a_random_uuid() -> None:
    with Node() as node:
        node.load_coordinators()
        member_id = node.ask(join_request()).member_id
        assert re.fullmatch(r"client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f-]{17}", member_id)
