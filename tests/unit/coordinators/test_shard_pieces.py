"""Commands that are done in pieces: what comes meanwhile, and what happens when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.coordinators.shard import TransactionalWriter
from kaa.limits import COORDINATOR_CHANGES_COMMITTED_PER_TURN_MAX
from kaa.log.log import FetchIsolation
from kaa.model.pieces import Pieces, begun
from kaa.records.batch import iter_batches
from kaa.wire.errors import Errors
from tests.unit.coordinators.support import Cluster, CounterMachine, counter_record, error_of, turns
from tests.unit.coordinators.test_shard import TWO, run
from tests.unit.coordinators.test_shard_transactions import write, writer

MANY = 1_000


def slow(
    machine: CounterMachine, count: int = 3, error: Errors = Errors.NONE
) -> Generator[None, None, CoordinatorResult]:
    """Adds to a counter, whose value it reads at the end."""
    for _ in range(count):
        yield
    if error is not Errors.NONE:
        raise CoordinatorError(error)
    return machine.add("a", 10)


def batches(cluster: Cluster) -> list[int]:
    """How many records each batch of the log has."""
    log = cluster.partition.online_log()
    found = cluster.partition.read(0, 1 << 24, FetchIsolation.LOG_END, min_one=True)
    assert found.region is not None
    try:
        counts = [batch.record_count for batch in iter_batches(found.region.read())]
    finally:
        found.region.release()
    assert sum(counts) == log.log_end_offset
    return counts


@run
async def test_what_comes_meanwhile_waits_and_questions_do_not() -> None:
    cluster = Cluster()
    await cluster.load()
    assert await cluster.write(lambda machine: machine.add("a", 1)) == 1
    long = cluster.run(lambda machine, _: slow(machine))
    after = [cluster.write(lambda machine: machine.add("a", 100)) for _ in range(2)]
    await turns(1)
    assert not long.done()
    assert (cluster.machine.counters["a"], cluster.committed("a")) == (1, 1)
    assert [await long, *[await one for one in after]] == [11, 111, 211]
    assert cluster.committed("a") == 211


@run
async def test_what_waited_is_done_one_by_one_and_not_overtaken() -> None:
    cluster = Cluster()
    await cluster.load()
    order: list[int] = []
    seen: list[int] = []

    def note(number: int) -> Callable[[CounterMachine], CoordinatorResult]:
        def command(machine: CounterMachine) -> CoordinatorResult:
            order.append(number)
            return machine.add("a", 1)

        return command

    long = cluster.run(lambda machine, _: slow(machine))
    waiting = [cluster.write(note(number)) for number in range(MANY)]
    while not long.done() or len(order) < MANY:
        await turns(1)
        seen.append(len(order))
        if len(order) == MANY // 2:
            # This one comes when some of those that waited are done.
            waiting.append(cluster.write(note(MANY)))
    for one in waiting:
        await one
    assert order == list(range(MANY + 1))
    assert max(after - before for before, after in pairwise(seen)) == 1


@run
async def test_its_records_stay_together_in_one_batch() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    before = cluster.write(lambda machine: machine.add("b"))
    long = cluster.write(lambda machine: machine.add("a", copies=MANY))
    after = cluster.write(lambda machine: machine.add("b"))
    await turns(3)
    assert cluster.partition.online_log().log_end_offset == 0
    await turns(MANY)
    # What was gathered before it goes with it.
    assert batches(cluster) == [1 + MANY, 1]
    assert not long.done()
    cluster.replicate()
    assert (await before, await long, await after) == (1, 1, 2)


def replay_slowly(machine: CounterMachine) -> None:
    """Lets every record take several turns."""
    replay = machine.replay

    def in_pieces(*arguments: Any) -> Pieces[None] | None:
        def rest() -> Pieces[None]:
            for _ in range(3):
                yield
            replay(*arguments)

        return begun(rest())

    machine.replay = in_pieces  # type: ignore[assignment, method-assign]


@run
async def test_a_record_that_is_replayed_in_pieces() -> None:
    cluster = Cluster()
    await cluster.load()
    replay_slowly(cluster.machine)
    first = cluster.write(lambda machine: machine.add("a"))
    second = cluster.write(lambda machine: machine.add("a"))
    await turns(1)
    assert "a" not in cluster.machine.counters
    assert (await first, await second) == (1, 2)
    assert batches(cluster) == [1, 1]
    again = Cluster(old=cluster.replicas)
    replay_slowly(again.machine)
    await again.load()
    assert again.committed("a") == 2


@run
async def test_a_refusal_in_the_middle_leaves_nothing() -> None:
    cluster = Cluster()
    await cluster.load()
    refused = cluster.run(lambda machine, _: slow(machine, error=Errors.INVALID_REQUEST))
    after = cluster.write(lambda machine: machine.add("a"))
    assert await error_of(refused) is Errors.INVALID_REQUEST
    assert await after == 1
    assert batches(cluster) == [1]


@run
async def test_a_fault_of_ours_ends_it_and_others_go_on() -> None:
    cluster = Cluster()
    await cluster.load()
    faults: list[object] = []
    cluster.host.loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def faulty(_: CounterMachine) -> Generator[None, None, CoordinatorResult]:
        yield
        raise ZeroDivisionError

    broken = cluster.run(lambda machine, _: faulty(machine))
    after = cluster.write(lambda machine: machine.add("a"))
    assert await error_of(broken) is Errors.UNKNOWN_SERVER_ERROR
    assert await after == 1
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


@run
async def test_a_fault_of_what_waited_costs_itself_alone() -> None:
    cluster = Cluster()
    await cluster.load()
    faults: list[object] = []
    cluster.host.loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def faulty(_: CounterMachine) -> CoordinatorResult:
        raise ZeroDivisionError

    long = cluster.run(lambda machine, _: slow(machine))
    broken = cluster.write(faulty)
    after = cluster.write(lambda machine: machine.add("a"))
    assert await error_of(broken) is Errors.UNKNOWN_SERVER_ERROR
    assert (await long, await after) == (10, 11)
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


@run
async def test_a_short_one_does_not_end_the_linger() -> None:
    cluster = Cluster()
    await cluster.load()
    cluster.host.linger_ms = 20
    first = cluster.write(lambda machine: machine.add("a"))
    cluster.run(lambda machine, _: slow(machine, 0))
    second = cluster.write(lambda machine: machine.add("a"))
    assert cluster.partition.online_log().log_end_offset == 0
    assert (await first, await second) == (1, 12)
    assert batches(cluster) == [3]


@run
async def test_an_append_that_is_refused_takes_all_of_it_back() -> None:
    cluster = Cluster()
    await cluster.load()
    long = cluster.write(lambda machine: machine.add("a", copies=MANY))
    cluster.set_enough_replicas(is_enough=False)
    assert await error_of(long) is Errors.NOT_ENOUGH_REPLICAS
    assert cluster.machine.counters.get("a") is None
    cluster.set_enough_replicas(is_enough=True)
    assert await cluster.write(lambda machine: machine.add("a", 7)) == 7


@run
async def test_leadership_that_goes_refuses_it_and_all_that_waits() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    long = cluster.write(lambda machine: machine.add("a", copies=MANY))
    waiting = cluster.write(lambda machine: machine.add("a"))
    producer = TransactionalWriter(7, 0)
    transactional = cluster.run(lambda machine, _: machine.add("a"), producer)
    await turns(2)
    cluster.lead(2)
    answers = (long, waiting, transactional)
    assert {await error_of(one) for one in answers} == {Errors.NOT_COORDINATOR}


@run
async def test_one_within_a_transaction() -> None:
    cluster = Cluster()
    await cluster.load()
    before = cluster.write(lambda machine: machine.add("b"))
    producer = writer(cluster)
    long = [write(cluster, lambda machine: machine.add("a", copies=MANY), producer) for _ in "12"]
    after = cluster.write(lambda machine: machine.add("b"))
    assert [await one for one in (before, *long, after)] == [1, 1, 2, 2]
    assert batches(cluster) == [1, MANY, MANY, 1]


@run
async def test_deadlines_wait_for_its_end() -> None:
    cluster = Cluster()
    await cluster.load()
    long = cluster.run(lambda machine, _: slow(machine, 50))
    cluster.machine.timers.schedule("key", 0, "a")
    cluster.shard._arm_machine_timer()
    await asyncio.sleep(0.01)
    assert await long == 10
    while cluster.machine.counters["a"] != 11:  # noqa: ASYNC110  A timer brings it.
        await asyncio.sleep(0.001)


@run
async def test_a_question_in_pieces_ends_with_leadership() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()

    def ask(_: CounterMachine) -> Generator[None, None, int]:
        yield
        yield
        return 5

    assert await cluster.read(ask) == 5
    answer = cluster.read(ask)
    cluster.lead(2)
    assert await error_of(answer) is Errors.NOT_COORDINATOR


@run
async def test_thousands_of_changes_are_committed_in_turns() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    count = 2 * COORDINATOR_CHANGES_COMMITTED_PER_TURN_MAX + 1

    def many(_: CounterMachine) -> CoordinatorResult:
        return CoordinatorResult([counter_record(f"{n}", n) for n in range(count)], "done")

    answer = cluster.write(many)
    while cluster.partition.online_log().log_end_offset < count:  # noqa: ASYNC110  In pieces.
        await asyncio.sleep(0)
    cluster.replicate()
    seen = set()
    while not answer.done():
        seen.add(cluster.machine.timeline.committed_offset)
        await asyncio.sleep(0)
    assert {0, count // 2, count - 1} <= seen
    assert (await answer, cluster.committed(f"{count - 1}")) == ("done", count - 1)


@run
async def test_a_large_record_has_a_turn_of_its_own() -> None:
    cluster = Cluster()
    await cluster.load()
    replays = [0]
    replay = cluster.machine.replay

    def counted(*arguments: Any) -> None:
        replays[-1] += 1
        replay(*arguments)

    def add(machine: CounterMachine) -> Pieces[CoordinatorResult]:
        yield
        return machine.add("a", copies=5)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster.machine, "replay", counted)
        patch.setattr("kaa.coordinators.shard.RECORDS_PER_PIECE", 10)
        patch.setattr("kaa.coordinators.shard.SMALL_RECORD_BYTES", 1)
        answer = cluster.run(lambda machine, _: add(machine))
        while not answer.done():
            replays.append(0)
            await turns(1)
    assert [count for count in replays if count] == [1] * 5
