"""Tiered storage from settings; a node with it is in tests/clients/test_tiered_storage.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaa.broker.directories import StartError
from kaa.broker.tiering import (
    _copy_window,
    _fetch_window,
    _pace,
    _read_bounds,
    open_remote_store,
    topic_settings,
)
from kaa.model.nodes import Endpoint
from kaa.serving.remote_logs import ReadBounds
from kaa.tier.manager import Pace
from kaa.tier.metadata.topic import TopicSettings
from kaa.tier.quota import QuotaWindow
from kaa.tier.store.objects import MemoryStore
from tests.unit.broker.support import config

HERE = [Endpoint("PLAINTEXT", "me", 9092)]
LOCAL = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


def test_the_store() -> None:
    enabled = "remote.log.storage.system.enable=true"
    assert isinstance(open_remote_store(config(enabled, "rsm.config.url=memory:")), MemoryStore)
    with pytest.raises(StartError, match=r"set rsm\.config\.url to"):
        open_remote_store(config(enabled))
    with pytest.raises(StartError, match="not the address of a store"):
        open_remote_store(config(enabled, "rsm.config.url=ftp://host"))
    other = "remote.log.storage.manager.impl.prefix=tier."
    assert isinstance(open_remote_store(config(other, "tier.url=memory:")), MemoryStore)


def test_the_directory_that_a_jvm_broker_can_share(tmp_path: Path) -> None:
    name = f"remote.log.storage.manager.class.name={LOCAL}"
    with pytest.raises(StartError, match=r"set rsm\.config\.dir"):
        open_remote_store(config(name))
    open_remote_store(config(name, f"rsm.config.dir={tmp_path}"))
    assert (tmp_path / "kafka-tiered-storage").is_dir()


def test_the_topic_of_the_metadata() -> None:
    found = topic_settings(config(), HERE)
    client = {"bootstrap.servers": "me:9092", "client.id": "remote-log-metadata-1"}
    assert found == TopicSettings(client)
    prefix = "rlmm.config.remote.log.metadata"
    settings = config(
        f"{prefix}.topic.replication.factor=1",
        f"{prefix}.topic.num.partitions=7",
        f"{prefix}.topic.min.isr=1",
        f"{prefix}.topic.retention.ms=5",
        f"{prefix}.consume.wait.ms=6",
        f"{prefix}.initialization.retry.interval.ms=8",
        f"{prefix}.common.client.request.timeout.ms=9",
    )
    client["request.timeout.ms"] = "9"
    assert topic_settings(settings, HERE) == TopicSettings(client, 7, 1, 5, 1, 6, 8)
    with pytest.raises(StartError, match=r"num\.partitions=many is not a number"):
        topic_settings(config(f"{prefix}.topic.num.partitions=many"), HERE)
    with pytest.raises(StartError, match="is not a listener for brokers"):
        topic_settings(config("remote.log.metadata.manager.listener.name=OTHER"), HERE)


def test_defaults_are_kafkas() -> None:
    assert _pace(config()) == Pace()
    assert _read_bounds(config()) == ReadBounds()
    assert _copy_window(config()) == _fetch_window(config()) == QuotaWindow()
