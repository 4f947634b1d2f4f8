from __future__ import annotations

import asyncio

import pytest

from kaa.serving.topic_creation import creatable_topic
from kaa.wire.errors import Errors
from tests.unit.handlers.support import Node


def test_a_client_is_told_unknown_and_finds_the_topic_later(node: Node) -> None:
    async def main() -> None:
        told = await node.services.topic_creation.create(["t", "no such name"])
        assert told == {
            "t": Errors.UNKNOWN_TOPIC_OR_PARTITION,
            "no such name": Errors.INVALID_TOPIC_EXCEPTION,
        }
        assert "t" not in node.services.image.topics
        async with asyncio.timeout(60):
            while "t" not in node.services.image.topics:  # noqa: ASYNC110
                await asyncio.sleep(0)

    node.run(main())
    assert list(node.services.image.topics) == ["t"]


def test_a_burst_of_requests_creates_once(node: Node) -> None:
    async def main() -> None:
        creation = node.services.topic_creation
        before = node.services.image_offset
        told = [await creation.create(["t"]) for _ in range(100)]
        assert told == [{"t": Errors.UNKNOWN_TOPIC_OR_PARTITION}] * 100
        async with asyncio.timeout(60):
            while creation._under_way:  # noqa: ASYNC110
                await asyncio.sleep(0)
        # A topic and its partition: one operation of two records.
        assert node.services.image_offset == before + 2

    node.run(main())


def test_what_the_controller_refuses_can_be_asked_for_again(node: Node) -> None:
    async def main() -> None:
        creation = node.services.topic_creation
        for _ in range(2):
            await creation.create(["__cluster_metadata"])
            async with asyncio.timeout(60):
                while creation._under_way:  # noqa: ASYNC110
                    await asyncio.sleep(0)

    node.run(main())
    assert node.services.image.topics == {}


@pytest.mark.parametrize(
    ("name", "partitions", "settings"),
    [
        ("t", 5, {}),
        (
            "__consumer_offsets",
            3,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            },
        ),
        (
            "__transaction_state",
            50,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
        (
            "__share_group_state",
            50,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "2",
                "retention.ms": "-1",
                "segment.bytes": "104857600",
            },
        ),
    ],
)
def test_settings(name: str, partitions: int, settings: dict[str, str]) -> None:
    topic = creatable_topic(Node("num.partitions=5").config, name)
    assert topic.num_partitions == partitions
    assert {config.name: config.value for config in topic.configs} == settings
