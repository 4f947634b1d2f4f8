from __future__ import annotations

import asyncio

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.errors import KafkaError
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors


def error_of(found: KafkaError | None) -> Errors:
    return Errors.NONE if found is None else found.error


def test_reassignments_and_elections(bootstrap: str, topic_name: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await admin.create_topics([NewTopic(topic_name, 2, 1)])
            (broker,) = (await admin.describe_cluster()).brokers
            first, second = (TopicPartition(topic_name, number) for number in range(2))
            absent = TopicPartition(f"{topic_name}-absent", 0)
            found = await admin.alter_partition_reassignments(
                {first: [broker.node_id], second: None, absent: [broker.node_id]}
            )
            assert {name: error_of(error) for name, error in found.items()} == {
                first: Errors.NONE,
                second: Errors.NO_REASSIGNMENT_IN_PROGRESS,
                absent: Errors.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert not [
                name
                for name in await admin.list_partition_reassignments()
                if name.topic == topic_name
            ]
            elected = await admin.elect_leaders([first, absent])
            assert {name: error_of(error) for name, error in elected.items()} == {
                first: Errors.ELECTION_NOT_NEEDED,
                absent: Errors.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert first not in await admin.elect_leaders()

    asyncio.run(run())
