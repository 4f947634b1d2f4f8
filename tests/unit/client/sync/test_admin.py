from __future__ import annotations

import pytest

from kaa.client.admin.admin import NewTopic
from kaa.client.consumer.offsets import LATEST
from kaa.client.errors import ClosedError, KafkaError
from kaa.client.sync import Admin
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors


def test_each_method_waits_and_gives_what_its_twin_gives(bootstrap: str, topic_name: str) -> None:
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        created = admin.create_topics([NewTopic(topic_name, 1, 1)], validate_only=False)
        assert created == {topic_name: None}
        # Kafka answers before its broker has the topic.
        while isinstance(found := admin.describe_topics([topic_name])[topic_name], KafkaError):
            assert found.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert admin.describe_topic(topic_name) == found
        assert len(found.partitions) == 1
        partition = TopicPartition(topic_name, 0)
        assert admin.list_offsets({partition: LATEST})[partition].offset == 0
        names = {entry.name for entry in admin.describe_configs(ResourceType.TOPIC, topic_name)}
        assert "cleanup.policy" in names
        assert admin.describe_cluster().cluster_id
        assert topic_name in admin.run(_topic_names)
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.describe_topic(f"{topic_name}-absent")
        assert admin.delete_topics([topic_name]) == {topic_name: None}


async def _topic_names(admin: object) -> list[str]:
    from kaa.client.admin.admin import Admin as Twin

    assert isinstance(admin, Twin)
    return [topic.name for topic in await admin.list_topics()]


def test_outside_of_its_block_it_says_so() -> None:
    with pytest.raises(ClosedError, match="inside 'with'"):
        Admin({"bootstrap.servers": "127.0.0.1:1"}).list_topics()


def test_methods_keep_their_text() -> None:
    assert Admin.describe_topic.__doc__ == "One topic; raises KafkaError if there is no such topic."
