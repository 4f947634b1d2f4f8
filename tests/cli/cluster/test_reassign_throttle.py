from __future__ import annotations

import asyncio

from kaa.cli.cluster.reassign_throttle import set_throttle, unthrottle
from kaa.client.admin.admin import Admin, NewTopic, ResourceType
from kaa.model.topics import TopicPartition
from tests.unit.client.waiting import until


async def throttles(admin: Admin, kind: ResourceType, name: str) -> dict[str, str]:
    entries = await admin.describe_configs(kind, name)
    return {
        entry.name: entry.value
        for entry in entries
        if "replication.throttled" in entry.name and entry.value and entry.value.isascii()
    }


def test_throttles_are_set_and_taken_away(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await admin.create_topics([NewTopic(topic_name, 1, 1)])
            (broker,) = (await admin.describe_cluster()).brokers
            name = TopicPartition(topic_name, 0)
            broker_id = broker.node_id
            without = await throttles(admin, ResourceType.BROKER, str(broker_id))
            await set_throttle(admin, {name: [broker_id]}, {name: [broker_id, 77]}, 5_000)
            lists = {
                "leader.replication.throttled.replicas": f"0:{broker_id}",
                "follower.replication.throttled.replicas": "0:77",
            }

            async def are(lists: dict[str, str], rates: dict[str, str]) -> bool:
                return (
                    await throttles(admin, ResourceType.TOPIC, topic_name) == lists
                    and await throttles(admin, ResourceType.BROKER, str(broker_id)) == rates
                )

            rates = {
                "leader.replication.throttled.rate": "5000",
                "follower.replication.throttled.rate": "5000",
            }
            await until(lambda: are(lists, rates))
            await unthrottle(admin)
            await until(lambda: are({}, without))

    asyncio.run(run())
