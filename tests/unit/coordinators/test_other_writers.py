"""Somebody else appends to the partition of a coordinator, as a tool does that aborts a transaction
there: what is in memory then has other offsets than the log, and the log is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from kaa.coordinators.promise import Promise
from kaa.coordinators.shard import ShardState, TransactionalWriter
from kaa.log.append import BY_COORDINATOR
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from kaa.wire.errors import Errors
from tests.unit.coordinators.support import Cluster, error_of, turns
from tests.unit.replication.support import NODE

ABORT = EndTransactionMarker(ControlRecordType.ABORT, 0)


def on_loop(story: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(story)
    def run() -> None:
        asyncio.run(asyncio.wait_for(story(), 60))

    return run


def append_a_marker(cluster: Cluster) -> None:
    now_ms = cluster.host.now().wall_ms
    batch = build_end_transaction_batch(ABORT, producer_id=9, producer_epoch=0, timestamp=now_ms)
    cluster.partition.append(batch, now_ms=now_ms, source=BY_COORDINATOR)


async def loaded(replicas: tuple[int, ...] = (NODE,)) -> Cluster:
    cluster = Cluster(replicas=replicas)
    await cluster.load()
    return cluster


async def is_loaded_again(cluster: Cluster) -> None:
    await cluster.load()
    assert cluster.shard.state is ShardState.ACTIVE
    assert len(cluster.host.reports) == 1
    assert "another writer" in cluster.host.reports[0]


@on_loop
async def test_the_partition_is_loaded_again() -> None:
    cluster = await loaded()
    assert await cluster.write(lambda machine: machine.add("a", 5)) == 5
    first = cluster.shard
    append_a_marker(cluster)
    assert await error_of(cluster.write(lambda machine: machine.add("a"))) is Errors.NOT_COORDINATOR
    await is_loaded_again(cluster)
    assert cluster.shard is not first
    # What was appended is in the log, and counts, as the answer to a time-out says.
    assert cluster.committed("a") == 6
    assert await cluster.write(lambda machine: machine.add("a")) == 7


@on_loop
async def test_nobody_is_answered_before_it_is_replicated() -> None:
    cluster = await loaded((NODE, 2))
    waiting = cluster.write(lambda machine: machine.add("a"))
    await turns()
    append_a_marker(cluster)
    behind = cluster.write(lambda machine: machine.add("b"))
    await turns()
    assert await error_of(waiting) is Errors.NOT_COORDINATOR
    assert await error_of(behind) is Errors.NOT_COORDINATOR
    cluster.replicate()
    await is_loaded_again(cluster)
    cluster.replicate()
    await turns()
    assert (cluster.committed("a"), cluster.committed("b")) == (1, 1)


@on_loop
async def test_the_end_of_a_transaction_meets_it_too() -> None:
    cluster = await loaded()
    append_a_marker(cluster)
    answer: Promise[Errors] = cluster.runtime.end_transaction(
        0, TransactionalWriter(7, 0), ABORT, 0
    )
    assert await error_of(answer) is Errors.NOT_COORDINATOR
    await is_loaded_again(cluster)
    assert cluster.machine.ended_transactions == [(9, False), (7, False)]


@on_loop
async def test_waiting_clients_are_told_to_look_again() -> None:
    cluster = await loaded()
    waiter: Promise[Any] = Promise(cluster.host.loop)
    await cluster.write(lambda machine: machine.add("a"))
    cluster.write(lambda machine: machine.wait(waiter))
    append_a_marker(cluster)
    await error_of(cluster.write(lambda machine: machine.add("a")))
    assert await waiter == "gone"
    await is_loaded_again(cluster)
