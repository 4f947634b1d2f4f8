"""Progress as the offsets of a group, with a running node and a checkpoint by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kaa.client import TopicPartition
from kaa.client.sync import Admin
from kaa.spark.brokers import brokers_of
from kaa.spark.offsets import StreamOffset
from kaa.spark.options import ClientSettings
from kaa.spark.progress import publish, publish_batch, refuse_active_group
from tests.support.both_clusters import bootstrap, kaa_node, topic_name
from tests.unit.spark.nodes import Topic

__all__ = ["bootstrap", "kaa_node", "topic_name"]


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> Topic:
    return Topic(bootstrap, topic_name)


def committed(topic: Topic, group: str) -> int | None:
    with Admin(topic.settings) as admin:
        found = admin.run(lambda one: one.list_group_offsets(group))
    offset = found.get(TopicPartition(topic.name, 0))
    return None if offset is None else offset.offset


def test_offsets_are_published(topic: Topic) -> None:
    settings = ClientSettings(topic.settings)
    refuse_active_group(settings, topic.name)
    publish(settings, topic.name, {TopicPartition(topic.name, 0): 4})
    assert committed(topic, topic.name) == 4
    refuse_active_group(settings, topic.name)


def test_a_failure_is_told_and_raises_nothing(topic: Topic) -> None:
    unreachable = ClientSettings(
        {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "200"}
    )
    with pytest.warns(UserWarning, match="progress was not published"):
        publish(unreachable, "group", {TopicPartition(topic.name, 0): 4})


def test_the_offsets_of_a_batch_come_from_the_checkpoint(topic: Topic, tmp_path: Path) -> None:
    partition = TopicPartition(topic.name, 0)
    settings = ClientSettings(topic.settings)
    here = brokers_of(settings).cluster_id()
    ours = StreamOffset({partition: 9}, group=topic.name, cluster_id=here)
    log = tmp_path / "offsets" / "3"
    log.parent.mkdir()
    lines = ["v1", "{}", json.dumps(ours.write()), "-", '{"logOffset":1}']
    log.write_text("\n".join(lines))
    publish_batch(settings, None, 3)
    publish_batch(settings, str(tmp_path), 4)
    publish_batch(settings, "hdfs://somewhere/else", 3)
    assert committed(topic, topic.name) is None
    # The group of a source in another cluster is not the sink's.
    elsewhere = StreamOffset({partition: 7}, group=topic.name, cluster_id="another")
    (tmp_path / "offsets" / "2").write_text("\n".join(["v1", "{}", json.dumps(elsewhere.write())]))
    publish_batch(settings, str(tmp_path), 2)
    assert committed(topic, topic.name) is None
    publish_batch(settings, f"file://{tmp_path}", 3)
    assert committed(topic, topic.name) == 9
