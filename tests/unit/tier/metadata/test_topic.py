"""The metadata topic on a real node of this process, through real connections."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.producer.producer import Producer
from kaa.log.files import RealFiles
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from kaa.tier.metadata.machine import BrokenMetadataError, NotAssignedError, NotReadyError
from kaa.tier.metadata.model import SegmentState
from kaa.tier.metadata.records import metadata_partition
from kaa.tier.metadata.topic import SNAPSHOT_FILE, TOPIC, TopicMetadata, TopicSettings
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.tier.metadata.samples import PARTITION, segment, update

PARTITIONS = 5


class Node:
    """One node's view of the topic, and what it reported."""

    def __init__(self, servers: str, folder: Path, **changes: int) -> None:
        self.reports: list[str] = []
        settings = TopicSettings(
            {"bootstrap.servers": servers}, PARTITIONS, 1, consume_wait_ms=10_000
        )
        self.metadata = TopicMetadata(
            settings._replace(**changes),  # type: ignore[arg-type]  # Numbers alone.
            str(folder),
            RealFiles(),
            ThreadPoolExecutor(1),
            Random(1),
            self.reports.append,
        )

    async def ready(self) -> None:
        await until(lambda: self.metadata.is_ready(PARTITION))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110  Other tasks decide.
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(node: Node) -> AsyncIterator[TopicMetadata]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(node.metadata.run())
        try:
            yield node.metadata
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def on_a_broker(story: Callable[[str, Path], Awaitable[None]]) -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:

        async def run() -> None:
            await story(broker.bootstrap_servers, Path(folder))

        asyncio.run(run())


def test_a_change_counts_when_publish_returns() -> None:
    async def story(servers: str, folder: Path) -> None:
        node = Node(servers, folder)
        with pytest.raises(NotReadyError, match="not known yet"):
            node.metadata.user(PARTITION)
        async with running(node) as metadata:
            metadata.assign([PARTITION])
            await node.ready()
            await metadata.publish(segment(1, 0, 9))
            await metadata.publish(update(1, SegmentState.COPY_SEGMENT_FINISHED))
            assert metadata.user(PARTITION).cache.find(0, 5) is not None
            async with Admin({"bootstrap.servers": servers}) as admin:
                made = await admin.describe_topic(TOPIC)
            assert len(made.partitions) == PARTITIONS
            metadata.unassign([PARTITION])
            with pytest.raises(NotAssignedError):
                await metadata.publish(segment(2, 10, 19))
            # Taken again at once it is read again.
            for _ in range(3):
                metadata.assign([PARTITION])
                await node.ready()
                assert metadata.user(PARTITION).cache.find(0, 5) is not None
                metadata.unassign([PARTITION])

    on_a_broker(story)


def test_the_partitions_are_those_of_the_topic_not_of_the_setting() -> None:
    async def story(servers: str, folder: Path) -> None:
        async with Admin({"bootstrap.servers": servers}) as admin:
            assert (await admin.create_topics([NewTopic(TOPIC, 3, 1)]))[TOPIC] is None
        node = Node(servers, folder, partitions=50)
        async with running(node) as metadata:
            metadata.assign([PARTITION])
            await node.ready()
            await metadata.publish(segment(1, 0, 9))
            # Another node, with another setting, finds it.
            other = Node(servers, folder, partitions=7)
            async with running(other):
                other.metadata.assign([PARTITION])
                await other.ready()
                assert len(other.metadata.user(PARTITION).cache) == 1

    on_a_broker(story)


def test_a_start_goes_on_from_the_snapshot() -> None:
    async def story(servers: str, folder: Path) -> None:
        number = metadata_partition(PARTITION, PARTITIONS)
        node = Node(servers, folder)
        async with running(node) as metadata:
            metadata.assign([PARTITION])
            await node.ready()
            await metadata.publish(segment(1, 0, 9))
            await metadata.save_snapshot()
        file = folder / SNAPSHOT_FILE
        assert file.stat().st_size > 0
        # What the snapshot has is gone from the topic, and still known.
        async with Admin({"bootstrap.servers": servers}) as admin:
            await admin.delete_records({TopicPartition(TOPIC, number): 1})
        again = Node(servers, folder)
        async with running(again):
            again.metadata.assign([PARTITION])
            await again.ready()
            assert len(again.metadata.user(PARTITION).cache) == 1
        # Damaged it counts as none, and that is said.
        file.write_bytes(b"x" + file.read_bytes()[1:])
        last = Node(servers, folder)
        async with running(last):
            last.metadata.assign([PARTITION])
            await last.ready()
            assert len(last.metadata.user(PARTITION).cache) == 0
        assert any("is not used" in text for text in last.reports)

    on_a_broker(story)


def test_a_record_that_cannot_be_read_stops_its_partition_alone() -> None:
    async def story(servers: str, folder: Path) -> None:
        number = metadata_partition(PARTITION, PARTITIONS)
        other = next(
            one
            for count in range(100)
            if metadata_partition(one := PARTITION._replace(partition=count), PARTITIONS) != number
        )
        node = Node(servers, folder)
        async with running(node) as metadata:
            metadata.assign([PARTITION, other])
            await node.ready()
            async with Producer({"bootstrap.servers": servers}) as producer:
                await (await producer.send(TOPIC, b"nonsense", partition=number))
            await until(lambda: bool(node.reports))
            assert f"record 0 of partition {number}" in node.reports[0]
            with pytest.raises(BrokenMetadataError):
                metadata.user(PARTITION)
            await until(lambda: metadata.is_ready(other))
            await metadata.publish(segment(1, 0, 9)._replace(partition=other))

    on_a_broker(story)


def test_too_few_brokers_are_waited_for_and_said_once() -> None:
    async def story(servers: str, folder: Path) -> None:
        node = Node(servers, folder, replication_factor=3, retry_interval_ms=10)
        async with running(node) as metadata:
            metadata.assign([PARTITION])
            await until(lambda: bool(node.reports))
            await asyncio.sleep(0.2)
            assert len(node.reports) == 1
            assert "start more brokers, or lower rlmm.config" in node.reports[0]
            with pytest.raises(NotReadyError, match="start more brokers"):
                metadata.user(PARTITION)
            # As soon as it can be had, it is used.
            async with Admin({"bootstrap.servers": servers}) as admin:
                await admin.create_topics([NewTopic(TOPIC, 2, 1)])
            await node.ready()

    on_a_broker(story)
