from __future__ import annotations

import asyncio

import pytest

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.errors import KafkaError
from kaa.model.topics import TopicPartition
from kaa.wire.registry import ApiKey
from tests.unit.client.waiting import until


async def is_held(admin: Admin, partition: TopicPartition) -> bool:
    dirs = await admin.describe_log_dirs()
    return partition in {replica.partition for one in dirs for replica in one.replicas}


def test_cluster(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            cluster = await admin.describe_cluster()
            assert [broker.address for broker in cluster.brokers] == [bootstrap]
            await admin.create_topics([NewTopic(topic_name, 1, 1)])
            await until(lambda: is_held(admin, TopicPartition(topic_name, 0)))
            versions = await admin.api_versions()
            assert versions[cluster.brokers[0].node_id][ApiKey.FETCH][1] >= 17

    asyncio.run(run())


def test_features(bootstrap: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            features = {one.name: one for one in await admin.describe_features()}
            version = features["metadata.version"]
            assert version.supported_low <= version.finalized <= version.supported_high
            with pytest.raises(KafkaError, match="absent"):
                await admin.update_features({"absent": 1}, validate_only=True)

    asyncio.run(run())
