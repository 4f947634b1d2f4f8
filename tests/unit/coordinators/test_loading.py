"""A partition that is replayed into its machine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.shard import ShardState
from kaa.limits import SMALL_RECORD_BYTES
from kaa.log.append import append_as_follower
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from kaa.wire.errors import Errors
from tests.unit.coordinators.support import Cluster, error_of, turns
from tests.unit.coordinators.test_shard import TWO, run
from tests.unit.log.logs import new_disk, new_log, stored_batches


@run
async def test_a_partition_is_replayed_in_slices() -> None:
    cluster = Cluster()
    await cluster.load()
    for _ in range(3):
        cluster.write(lambda machine: machine.add("a", copies=700))
        cluster.write(lambda machine: machine.add("b"))
        await turns()
    await cluster.write(lambda machine: machine.remove("b"))
    again = Cluster(old=cluster.replicas)
    answer = again.write(lambda machine: machine.newest("a"))
    assert await error_of(answer) is Errors.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(CoordinatorError):
        again.committed("a")
    await again.load()
    assert again.machine.is_loaded
    assert dict(again.machine.counters.items()) == {"a": 3}
    assert again.machine.timeline.committed_offset == 2_104
    assert len(again.machine.timeline) == 0
    assert await again.write(lambda machine: machine.add("a")) == 4


async def replays_per_turn(again: Cluster, small_bytes: int) -> list[int]:
    """Records that are replayed in each turn that has some, if it may have ten small ones."""
    replays = [0]
    replay = again.machine.replay

    def counted(*arguments: Any) -> None:
        replays[-1] += 1
        replay(*arguments)

    async def look() -> None:
        while again.shard.state is ShardState.LOADING:
            replays.append(0)
            await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(again.machine, "replay", counted)
        patch.setattr("kaa.coordinators.loading.RECORDS_PER_PIECE", 10)
        patch.setattr("kaa.coordinators.loading.SMALL_RECORD_BYTES", small_bytes)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(look())
            tasks.create_task(again.load())
    return sorted(count for count in replays if count)


@run
async def test_slices_do_not_end_with_batches() -> None:
    cluster = Cluster()
    await cluster.load()
    for _ in range(35):
        # A batch for each.
        await cluster.write(lambda machine: machine.add("a"))
    again = Cluster(old=cluster.replicas)
    assert await replays_per_turn(again, SMALL_RECORD_BYTES) == [5, 10, 10, 10]
    assert again.committed("a") == 35
    large = Cluster(old=cluster.replicas)
    assert await replays_per_turn(large, 1) == [1] * 35, "each counts as more than ten"
    assert large.committed("a") == 35


@run
async def test_what_is_loaded_above_the_high_watermark_is_not_committed() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    cluster.write(lambda machine: machine.add("a"))
    await turns()
    again = Cluster(old=cluster.replicas)
    await again.load()
    assert (again.machine.counters["a"], again.committed("a")) == (1, None)
    again.replicate()
    await turns()
    assert again.committed("a") == 1


@run
async def test_markers_are_replayed() -> None:
    cluster = Cluster()
    for kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
        marker = EndTransactionMarker(kind, coordinator_epoch=0)
        batch = build_end_transaction_batch(marker, producer_id=7, producer_epoch=0, timestamp=0)
        cluster.partition.append(batch, now_ms=0)
    await cluster.load()
    assert cluster.machine.ended_transactions == [(7, True), (7, False)]


@run
async def test_partition_that_moves_to_another_directory_meanwhile_is_replayed_to_its_end() -> None:
    cluster = Cluster()
    await cluster.load()
    for _ in range(20):
        await cluster.write(lambda machine: machine.add("a"))
    again = Cluster(old=cluster.replicas)
    source, moved = again.partition.online_log(), new_log(new_disk())

    batches = [bytes(each.view) for each in stored_batches(source)]
    for each in batches:
        append_as_follower(moved, each, leader_epoch=99, now_ms=0)
    moved.update_high_watermark(moved.log_end_offset)

    replay = again.machine.replay

    def move_and_replay(*arguments: Any) -> None:
        if again.partition.log is source:
            # From now on the source stays as it is.
            again.partition.log = moved
            again.partition.append(bytearray(batches[0]), now_ms=0)
        replay(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(again.machine, "replay", move_and_replay)
        await again.load()
    assert moved.log_end_offset > source.log_end_offset
    assert dict(again.machine.counters.items()) == {"a": 1}, "as the last record says"
    assert again.machine.timeline.committed_offset == moved.log_end_offset
