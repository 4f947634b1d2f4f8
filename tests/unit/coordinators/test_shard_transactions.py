"""Records within transactions, and the markers that end them, through a shard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from kaa.coordinators.machine import CoordinatorResult
from kaa.coordinators.shard import TransactionalWriter
from kaa.records.batch import iter_batches
from kaa.records.control import ControlRecordType, EndTransactionMarker
from kaa.wire.errors import Errors
from tests.unit.coordinators.support import Cluster, CounterMachine, error_of, turns
from tests.unit.replication.support import NODE

TWO = (NODE, 2)
COMMIT = EndTransactionMarker(ControlRecordType.COMMIT, 0)
ABORT = EndTransactionMarker(ControlRecordType.ABORT, 0)


def on_loop(story: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(story)
    def run() -> None:
        asyncio.run(asyncio.wait_for(story(), 60))

    return run


def writer(cluster: Cluster, producer_id: int = 7, epoch: int = 0) -> TransactionalWriter:
    state = cluster.partition.online_log().producer_state
    guard = state.start_verification(producer_id, -1, epoch, True, 0)
    return TransactionalWriter(producer_id, epoch, guard)


def write(
    cluster: Cluster,
    command: Callable[[CounterMachine], CoordinatorResult],
    producer: TransactionalWriter,
) -> asyncio.Future[Any]:
    return cluster.run(lambda machine, _: command(machine), producer)


def batches(cluster: Cluster) -> list[tuple[int, bool, bool]]:
    """Producer id, whether it is transactional, and whether it is a marker, of each batch."""
    log = cluster.partition.online_log()
    found = log.read(0, bytes_max=1 << 20)
    assert found.region is not None
    data = found.region.read()
    found.region.release()
    return [
        (batch.producer_id, batch.is_transactional, batch.is_control)
        for batch in iter_batches(data)
    ]


@on_loop
async def test_transactional_records_have_batches_of_their_own() -> None:
    cluster = Cluster()
    await cluster.load()
    plain = cluster.write(lambda machine: machine.add("a"))
    within = write(cluster, lambda machine: machine.add("b"), writer(cluster))
    after = cluster.write(lambda machine: machine.add("a"))
    assert [await plain, await within, await after] == [1, 1, 2]
    producer = TransactionalWriter(7, 0)
    assert await cluster.runtime.end_transaction(0, producer, COMMIT, 0) is Errors.NONE
    assert batches(cluster) == [
        (-1, False, False),
        (7, True, False),
        (-1, False, False),
        (7, True, True),
    ]
    assert cluster.machine.ended_transactions == [(7, True)]


@on_loop
async def test_a_restart_finds_the_same() -> None:
    cluster = Cluster()
    await cluster.load()
    await write(cluster, lambda machine: machine.add("a"), writer(cluster))
    await cluster.runtime.end_transaction(0, TransactionalWriter(7, 0), ABORT, 0)
    again = Cluster(old=cluster.replicas)
    await again.load()
    assert again.machine.ended_transactions == [(7, False)]


@on_loop
async def test_answers_wait_for_replicas() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    within = write(cluster, lambda machine: machine.add("a"), writer(cluster))
    ended = cluster.runtime.end_transaction(0, TransactionalWriter(7, 0), COMMIT, 0)
    await turns()
    assert not within.done()
    assert not ended.done()
    cluster.replicate()
    assert (await within, await ended) == (1, Errors.NONE)


@on_loop
async def test_a_transaction_that_nobody_verified_is_refused() -> None:
    cluster = Cluster()
    await cluster.load()
    unknown = TransactionalWriter(7, 0)
    within = write(cluster, lambda machine: machine.add("a"), unknown)
    assert await error_of(within) is Errors.INVALID_TXN_STATE
    assert cluster.machine.counters.get("a") is None
    assert await cluster.write(lambda machine: machine.add("a")) == 1


@on_loop
async def test_a_marker_that_the_log_refuses_changes_nothing() -> None:
    cluster = Cluster()
    await cluster.load()
    await write(cluster, lambda machine: machine.add("a"), writer(cluster, epoch=5))
    old = cluster.runtime.end_transaction(0, TransactionalWriter(7, 4), COMMIT, 0)
    assert await error_of(old) is Errors.INVALID_PRODUCER_EPOCH
    assert cluster.machine.ended_transactions == []
    same = cluster.runtime.end_transaction(0, TransactionalWriter(7, 5), COMMIT, 2)
    assert await error_of(same) is Errors.INVALID_PRODUCER_EPOCH
    newer = cluster.runtime.end_transaction(0, TransactionalWriter(7, 6), COMMIT, 2)
    assert await error_of(newer) is Errors.NONE


@on_loop
async def test_what_was_gathered_before_fails_alone() -> None:
    cluster = Cluster()
    await cluster.load()
    producer = writer(cluster)
    cluster.set_enough_replicas(is_enough=False)
    plain = cluster.write(lambda machine: machine.add("a"))
    within = write(cluster, lambda machine: machine.add("b"), producer)
    ended = cluster.runtime.end_transaction(0, producer, COMMIT, 0)
    assert [await error_of(one) for one in (plain, within, ended)] == [
        Errors.NOT_ENOUGH_REPLICAS
    ] * 3
    assert len(cluster.machine.counters) == 0


@on_loop
async def test_shards_that_do_not_serve() -> None:
    cluster = Cluster()
    loading = write(cluster, lambda machine: machine.add("a"), TransactionalWriter(7, 0))
    assert await error_of(loading) is Errors.COORDINATOR_LOAD_IN_PROGRESS
    producer = TransactionalWriter(7, 0)
    ended = cluster.runtime.end_transaction(0, producer, COMMIT, 0)
    assert await error_of(ended) is Errors.COORDINATOR_LOAD_IN_PROGRESS
    elsewhere = cluster.runtime.end_transaction(5, producer, COMMIT, 0)
    assert await error_of(elsewhere) is Errors.NOT_COORDINATOR
    absent = cluster.run(lambda *_: CoordinatorResult(), producer, number=5)
    assert await error_of(absent) is Errors.NOT_COORDINATOR
    assert cluster.runtime.shard(5) is None
