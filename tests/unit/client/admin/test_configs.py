from __future__ import annotations

import asyncio

import pytest

from kaa.client.admin.admin import Admin, ConfigChange, ConfigOperation, ConfigSource, NewTopic
from kaa.client.errors import KafkaError
from kaa.model.kinds import ResourceType
from tests.unit.client.waiting import is_listed, until


async def is_default(admin: Admin, topic: str, name: str) -> bool:
    (entry,) = await admin.describe_configs(ResourceType.TOPIC, topic, [name])
    return entry.source is ConfigSource.DEFAULT_CONFIG


def test_settings(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await admin.create_topics([NewTopic(topic_name, 1, 1)])
            await until(lambda: is_listed(admin, topic_name))
            topic = (ResourceType.TOPIC, topic_name)
            await admin.alter_configs(
                *topic,
                [
                    ConfigChange("retention.ms", "5000"),
                    ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND),
                ],
            )
            await until(lambda: is_default(admin, topic_name, "retention.ms"), expected=False)
            names = ["retention.ms", "cleanup.policy"]
            entries = {one.name: one for one in await admin.describe_configs(*topic, names)}
            assert entries["retention.ms"].value == "5000"
            assert entries["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
            assert entries["cleanup.policy"].value == "delete,compact"
            change = ConfigChange("retention.ms", None, ConfigOperation.DELETE)
            await admin.alter_configs(*topic, [change])
            await until(lambda: is_default(admin, topic_name, "retention.ms"))
            (entry,) = await admin.describe_configs(*topic, ["retention.ms"], documentation=True)
            assert entry.source is ConfigSource.DEFAULT_CONFIG
            assert entry.documentation
            with pytest.raises(KafkaError, match="INVALID_CONFIG"):
                await admin.alter_configs(*topic, [ConfigChange("retention.ms", "soon")])
            cluster = await admin.describe_cluster()
            broker = str(cluster.brokers[0].node_id)
            settings = await admin.describe_configs(ResourceType.BROKER, broker)
            assert "log.dirs" in {one.name for one in settings}

    asyncio.run(run())
