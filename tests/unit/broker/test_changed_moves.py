"""Moves that get another target, and replicas that come back to a directory that they just left:
what checkpoints still have is written off the loop, by the duty for that.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kaa.broker.node import running
from kaa.client import Admin, NewTopic
from kaa.log.dirs import LogDirectory
from kaa.model.topics import TopicPartition
from kaa.replication.partition import Partition
from tests.unit.broker.support import config, node
from tests.unit.log.batches import batch

PATHS = ("/a", "/b", "/c")
SETTINGS = config(
    f"log.dirs={','.join(PATHS)}",
    f"metadata.log.dir={PATHS[0]}",
    # No move ends while the test looks.
    "replica.alter.log.dirs.io.max.bytes.per.second=1",
)
PARTITIONS = 8


def test_checkpoints_are_not_written_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: list[str] = []
    write = LogDirectory.checkpoint_recovery_points

    def noted(directory: LogDirectory, *arguments: Any, **named: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            on_loop.append(directory.path)
        write(directory, *arguments, **named)

    async def story() -> None:
        broker = node(SETTINGS)
        async with running(broker), Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic("t", PARTITIONS, 1)])
            logs = broker.services.logs
            for log in logs.logs.values():
                partition = broker.services.replicas.find(*log.partition)
                assert isinstance(partition, Partition)
                partition.append(batch(5), now_ms=0)
            monkeypatch.setattr(LogDirectory, "checkpoint_recovery_points", noted)
            for path in (*PATHS, *PATHS):
                wanted = {
                    (SETTINGS.node_id, TopicPartition("t", number)): path
                    for number in range(PARTITIONS)
                }
                outcome = await admin.alter_replica_log_dirs(wanted)
                assert not any(outcome.values()), outcome
                moving = [each.directory.path for each in logs.futures.logs.values()]
                assert moving
                assert set(moving) == {path}
            monkeypatch.undo()

    asyncio.run(asyncio.wait_for(story(), 60))
    assert on_loop == []
