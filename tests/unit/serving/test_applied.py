from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kaa.replication.partition import Partition
from kaa.serving.applied import until_applied
from kaa.wire.messages.metadata_topics import RemoveTopicRecord, TopicRecord
from kaa.wire.primitives import Uuid
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.log.logs import run_jobs
from tests.unit.replication.support import TOPIC_ID, Replicas, partition

COUNT = 20
NAMES = [("t", number) for number in range(COUNT)]
NEXT_ID = Uuid(b"id-of-successor!")


class Case:
    """A node whose own turns never come, so that only requests have partitions made."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.replicas = Replicas(call_soon=lambda _: None, forget_deleted=self.asked.set)
        self.create(TOPIC_ID)

    def create(self, topic_id: Uuid) -> None:
        records = [partition(number=number, topic_id=topic_id) for number in range(COUNT)]
        self.replicas.replay(TopicRecord(name="t", topic_id=topic_id), *records)

    async def counts(self, work: Coroutine[Any, Any, None]) -> list[int]:
        """How many logs there are in each turn of the loop while work is done."""
        counts = []
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(work)
            while not task.done():
                counts.append(len(self.replicas.logs.logs))
                await asyncio.sleep(0)
        return [*counts, len(self.replicas.logs.logs)]


def test_partitions_are_made_one_by_one() -> None:
    async def main() -> None:
        case = Case()
        counts = await case.counts(until_applied(case.replicas.manager, [*NAMES, ("other", 0)]))
        assert sorted(set(counts)) == list(range(COUNT + 1))
        assert not case.replicas.manager.has_unapplied
        assert len(await case.counts(until_applied(case.replicas.manager, NAMES))) == 2

    asyncio.run(main())


def test_names_of_deleted_logs_are_waited_for() -> None:
    async def main() -> None:
        case = Case()
        manager = case.replicas.manager
        await until_applied(manager, NAMES)
        case.replicas.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
        case.create(NEXT_ID)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(until_applied(manager, NAMES[:1]))
            await asyncio.wait_for(case.asked.wait(), PATIENCE_SECONDS)
            assert not task.done()
            assert manager.is_unapplied("t", 0)
            run_jobs(case.replicas.logs.forget_deleted(), 0)
            manager.names_freed()
        found = manager.find("t", 0)
        assert isinstance(found, Partition)
        assert found.topic_id == NEXT_ID

    asyncio.run(main())
