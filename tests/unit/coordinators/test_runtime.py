from __future__ import annotations

import asyncio

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.runtime import partition_for
from kaa.coordinators.shard import ShardState
from kaa.wire.errors import Errors
from tests.unit.coordinators.support import Cluster, error_of, turns


def test_the_hash_without_a_positive_twin_is_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("console-consumer", 50) == 648_006_740 % 50


def test_shards_follow_leadership() -> None:
    async def main() -> None:
        cluster = Cluster(replicas=(1, 2))
        await cluster.load()
        first = cluster.shard
        cluster.lead(1)
        assert cluster.shard is first, "a new epoch alone does not reload"
        assert first.leader_epoch == 1
        cluster.lead(2)
        assert list(cluster.runtime) == []
        assert first.state is ShardState.CLOSED
        assert await error_of(cluster.write(lambda machine: machine.newest("a"))) is (
            Errors.NOT_COORDINATOR
        )
        with pytest.raises(CoordinatorError):
            cluster.committed("a")
        cluster.lead(1)
        await cluster.load()
        assert cluster.shard is not first
        assert cluster.shard.state is ShardState.ACTIVE

    asyncio.run(main())


def test_the_duty_loads_what_comes_and_stop_closes_all() -> None:
    async def main() -> None:
        cluster = Cluster()
        async with asyncio.TaskGroup() as tasks:
            duty = tasks.create_task(cluster.runtime.run())
            await turns()
            assert cluster.shard.state is ShardState.ACTIVE
            shard = cluster.shard
            cluster.runtime.stop()
            assert shard.state is ShardState.CLOSED
            duty.cancel()

    asyncio.run(main())


def test_a_shard_closed_before_its_turn_is_not_loaded() -> None:
    async def main() -> None:
        cluster = Cluster(replicas=(1, 2))
        shard = cluster.shard
        cluster.lead(2)
        await cluster.load()
        assert shard.state is ShardState.CLOSED
        assert not shard.machine.is_loaded

    asyncio.run(main())


def test_a_command_for_every_shard() -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.runtime.write_all(lambda machine, _: machine.add("a"))
        assert len(cluster.machine.counters) == 0, "not while loading"
        await cluster.load()
        cluster.runtime.write_all(lambda machine, _: machine.add("a"))
        await turns()
        assert cluster.committed("a") == 1

    asyncio.run(main())


def test_a_topic_of_another_coordinator_does_not_matter() -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.runtime.topic = "__transaction_state"
        cluster.lead(1)
        assert cluster.shard.leader_epoch == 0

    asyncio.run(main())
