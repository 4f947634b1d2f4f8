from __future__ import annotations

import asyncio
from collections import deque

from kaa.controller.loader import MetadataLoader
from kaa.controller.snapshotter import Snapshotter
from kaa.model.pieces import finish
from kaa.quorum.snapshots import load_snapshot
from tests.unit.controller.replica_node import Node, image_of
from tests.unit.controller.test_image_records import rebuilt
from tests.unit.quorum.disk_replica import FOLDER, new_disk


def snapshotter(node: Node, *, bytes_max: int, interval_ms: int) -> Snapshotter:
    return Snapshotter(
        node.replica.driver,
        node.replica._loader,
        node.clock,
        node.replica._executor,
        lambda _: None,
        bytes_max=bytes_max,
        interval_ms=interval_ms,
    )


async def with_topics() -> Node:
    node = Node(new_disk())
    await node.start()
    await node.register()
    await node.create("a", partitions=3)
    return node


def test_a_snapshot_holds_the_image() -> None:
    async def scenario() -> None:
        node = await with_topics()
        made = snapshotter(node, bytes_max=1, interval_ms=0)
        assert await made.take()
        latest = node.replica.driver.log.latest_snapshot_id()
        assert latest is not None
        assert latest.offset == node.replica.committed_offset + 1
        path = node.replica.driver.log.snapshot_path(latest)
        loader = MetadataLoader()
        finish(loader.load(latest, load_snapshot(node.files, path)))
        assert image_of(loader.image) == image_of(rebuilt(node.replica.image))
        assert not await made.take()

    asyncio.run(scenario())


def test_voters_that_a_snapshot_covers_are_forgotten() -> None:
    async def scenario() -> None:
        node = await with_topics()
        history = node.replica.driver._control.voters
        for offset in (1, 2):
            history.append(offset, history.last())
        assert history.before_last() is not None
        assert await snapshotter(node, bytes_max=1, interval_ms=0).take()
        assert history.before_last() is None
        assert history.last_offset() == 2

    asyncio.run(scenario())


def test_when_one_is_due() -> None:
    async def scenario() -> None:
        node = await with_topics()
        size = node.replica._loader.bytes_since_snapshot
        for bytes_max, interval_ms, is_due in (
            (size, 0, True),
            (size + 1, 0, False),
            (size + 1, 1, True),
            (size + 1, 3_600_000, False),
        ):
            made = snapshotter(node, bytes_max=bytes_max, interval_ms=interval_ms)
            await asyncio.sleep(0.005)
            made.committed()
            assert made._is_due.is_set() is is_due

    asyncio.run(scenario())


def test_none_is_taken_inside_a_transaction() -> None:
    async def scenario() -> None:
        node = await with_topics()
        node.replica._loader._transaction = deque()
        assert not await snapshotter(node, bytes_max=1, interval_ms=0).take()
        assert not any(
            "checkpoint" in name
            for name in node.files.list_directory(FOLDER)
            if name != "leader-epoch-checkpoint"
        )

    asyncio.run(scenario())
