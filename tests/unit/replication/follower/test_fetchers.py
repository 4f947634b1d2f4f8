from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kaa.broker.duties import persist
from kaa.replication.follower.fetcher import Fetcher
from kaa.replication.follower.machine import Cut, Target
from kaa.replication.partition import Partition
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.replication.brokers import Brokers, until


def test_a_fetcher_for_each_leader_ends_with_its_last_partition() -> None:
    async def story() -> None:
        brokers = Brokers(3)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1, 2], [1, 0, 2], [1, 2, 0]])
            fetchers = brokers[2].fetchers.fetchers
            assert sorted(fetchers) == [(0, 0), (1, 0)]
            assert len(fetchers[1, 0].partitions) == 2
            leaving = fetchers[0, 0]
            topic_id = brokers.controller.image.topics["t"].id
            # No leader at all, and then another one.
            change = PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1)
            brokers[2].publish([change])
            await until(lambda: sorted(fetchers) == [(1, 0)])
            assert not leaving.partitions
            change = PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1)
            brokers[2].publish([change])
            assert len(fetchers[1, 0].partitions) == 3
            # This broker itself.
            change = PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2)
            brokers[2].publish([change])
            assert len(fetchers[1, 0].partitions) == 2

    asyncio.run(story())


def test_the_same_metadata_again_changes_nothing() -> None:
    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1]])
            partition = brokers[1].partition()
            (fetcher,) = brokers[1].fetchers.fetchers.values()
            (followed,) = fetcher.machine.partitions.values()
            brokers[1].fetchers.update(partition)
            assert list(fetcher.machine.partitions.values()) == [followed]
            partition.update(partition.image._replace(leader_epoch=1, partition_epoch=1))
            brokers[1].fetchers.update(partition)
            (again,) = fetcher.machine.partitions.values()
            assert again is not followed
            assert again.leader_epoch == 1

    asyncio.run(story())


def test_partition_that_gets_another_fetcher_is_copied_by_that_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """num.replica.fetchers was changed, and then its metadata, while an answer with very many
    batches was appended.
    """
    append = Partition.append_as_follower
    changed: list[Partition] = []

    async def story() -> None:
        brokers = Brokers(2)

        async def change(partition: Partition, *records: Any, **named: Any) -> Any:
            info = await append(partition, *records, **named)
            if not changed:
                changed.append(partition)
                brokers[1].fetchers._fetcher_count = lambda: 1000
                partition.update(partition.image)
                brokers[1].fetchers.update(partition)
            return info

        async with brokers.running():
            # The second one keeps the fetcher at work that both have first.
            brokers.controller.create("t", replicas=[[0, 1], [0, 1]])
            monkeypatch.setattr(Partition, "append_as_follower", change)
            for _ in range(3_000):
                leader, end = brokers.produce()
            await until(lambda: leader.online_log().high_watermark == end, 5)
            assert changed
            assert not [each for each in brokers[1].reports if "stopped" in each]

    asyncio.run(story())


def test_a_fetcher_goes_on_after_what_nobody_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of an answer was performed, perhaps: what is in the logs counts."""
    perform, failures = Fetcher.perform, 2

    async def fail(self: Fetcher, effects: Any) -> None:
        nonlocal failures
        if effects and failures:
            failures -= 1
            raise ZeroDivisionError
        await perform(self, effects)

    monkeypatch.setattr(Fetcher, "perform", fail)

    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1], [0, 1]])
            for number in (0, 1):
                brokers.produce(5, number)
            for number in (0, 1):
                copy = brokers[1].partition("t", number)
                await until(lambda copy=copy: copy.log is not None and copy.log.log_end_offset == 5)  # type: ignore[misc]
            reports = [line for line in brokers[1].reports if "is started again" in line]
            assert len(reports) == 2
            assert not failures

    asyncio.run(story())


def test_copying_that_failed_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all its fetchers, also those that did not fail themselves."""
    perform, failures = Fetcher.perform, 1
    reports: list[str] = []

    async def fail(self: Fetcher, effects: Any) -> None:
        nonlocal failures
        if effects and failures:
            failures -= 1
            # Of a task of the fetcher, as repairs are.
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(raise_fault())
        await perform(self, effects)

    async def raise_fault() -> None:
        raise ZeroDivisionError

    async def escape(_self: Fetcher, error: Exception) -> None:
        raise error

    monkeypatch.setattr("kaa.broker.duties.DUTY_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(Fetcher, "perform", fail)
    monkeypatch.setattr(Fetcher, "_start_over", escape)

    async def story() -> None:
        brokers = Brokers(3)
        follower = brokers[2]
        async with brokers.running() as tasks:
            # In place of the duty of the test's broker, which is begun once.
            follower._duties.pop().cancel()
            duty = persist("following leaders", follower.fetchers.run, reports.append)
            follower._duties.append(tasks.create_task(duty))
            brokers.controller.create("t", replicas=[[0, 2], [1, 2]])
            for number in (0, 1):
                brokers.produce(5, number)
            for number in (0, 1):
                copy = follower.partition("t", number)
                await until(lambda copy=copy: copy.log is not None and copy.log.log_end_offset == 5)  # type: ignore[misc]
            assert not failures
            assert len(reports) == 1

    asyncio.run(story())


def test_a_log_that_is_lost_while_it_is_cut_costs_no_other_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        brokers = Brokers(2)
        async with brokers.running():
            brokers.controller.create("t", replicas=[[0, 1], [0, 1]])
            follower = brokers[1]
            (fetcher,) = follower.fetchers.fetchers.values()
            lost, copy = follower.partition("t", 0), follower.partition("t", 1)
            brokers.produce(5, 1)
            await until(lambda: copy.log is not None and copy.log.log_end_offset == 5)
            key = (lost.topic_id, 0)
            stamp = fetcher.machine.partitions[key].stamp

            async def lose(*_: Any, **__: Any) -> None:
                await asyncio.sleep(0)
                follower.fetchers.unfollow(lost)
                lost.log = None

            monkeypatch.setattr(Partition, "cut_to", lose)
            fetcher._repairs.append(Cut(Target(key, stamp, lost.leader_epoch), 0))
            fetcher._has_repairs.set()
            await until(lambda: lost.log is None)
            brokers.produce(5, 1)
            await until(lambda: copy.log is not None and copy.log.log_end_offset == 10)

    asyncio.run(story())
