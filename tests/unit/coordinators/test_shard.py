"""The driver of a machine: answers, appends, failures, loading."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from kaa.coordinators.machine import CoordinatorResult, Moment
from kaa.coordinators.promise import Promise
from kaa.coordinators.shard import ShardState
from kaa.limits import COORDINATOR_LATE_MS_MAX, COORDINATOR_PATIENCE_MS
from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from tests.unit.coordinators.support import Cluster, CounterMachine, counter_record, error_of, turns

TWO = (1, 2)


def run(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A coroutine as a test."""

    def wrapped() -> None:
        async def main() -> None:
            await test()

        asyncio.run(main())

    wrapped.__name__ = test.__name__
    return wrapped


@run
async def test_an_answer_leaves_when_its_records_are_committed() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    answer = cluster.write(lambda machine: machine.add("a", 5))
    await turns()
    assert not answer.done()
    assert (cluster.machine.counters["a"], cluster.committed("a")) == (5, None)
    cluster.replicate()
    assert await answer == 5
    assert cluster.committed("a") == 5
    assert cluster.machine.outcomes == [("a", Errors.NONE)]


@run
async def test_commands_see_what_is_not_committed_and_wait_for_it() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    first = cluster.write(lambda machine: machine.add("a", 5))
    second = cluster.write(lambda machine: machine.newest("a"))
    await turns()
    assert not second.done()
    cluster.replicate()
    assert (await first, await second) == (5, 5)
    # Nothing is under way: the answer comes at once.
    third = cluster.write(lambda machine: machine.newest("a"))
    assert third.done()


@run
async def test_commands_of_one_turn_share_a_batch() -> None:
    cluster = Cluster()
    await cluster.load()
    answers = [cluster.write(lambda machine: machine.add("a")) for _ in range(10)]
    assert cluster.partition.online_log().log_end_offset == 0
    assert [await answer for answer in answers] == list(range(1, 11))
    (segment,) = [cluster.partition.online_log().segments.active]
    assert cluster.partition.online_log().log_end_offset == 10
    assert segment.size < 10 * 61


@run
async def test_a_linger_gathers_longer() -> None:
    cluster = Cluster()
    cluster.host.linger_ms = 20
    await cluster.load()
    first = cluster.write(lambda machine: machine.add("a"))
    await turns()
    assert cluster.partition.online_log().log_end_offset == 0
    second = cluster.write(lambda machine: machine.add("a"))
    assert (await first, await second) == (1, 2)


@run
async def test_a_refused_command_changes_nothing() -> None:
    cluster = Cluster()
    await cluster.load()
    assert await error_of(cluster.write(lambda machine: machine.add("a", 0))) is (
        Errors.INVALID_REQUEST
    )
    assert cluster.partition.online_log().log_end_offset == 0


@run
async def test_a_failed_append_takes_its_batch_back() -> None:
    cluster = Cluster()
    await cluster.load()
    assert await cluster.write(lambda machine: machine.add("a", 5)) == 5
    cluster.set_enough_replicas(is_enough=False)
    first = cluster.write(lambda machine: machine.add("a", 1))
    second = cluster.write(lambda machine: machine.newest("a"))
    assert await error_of(first) is Errors.NOT_ENOUGH_REPLICAS
    assert await error_of(second) is Errors.NOT_ENOUGH_REPLICAS
    assert cluster.machine.counters["a"] == 5
    assert cluster.machine.outcomes == [("a", Errors.NONE), ("a", Errors.NOT_ENOUGH_REPLICAS)]
    cluster.set_enough_replicas(is_enough=True)
    assert await cluster.write(lambda machine: machine.add("a", 1)) == 6


@run
async def test_a_fault_after_an_append_costs_nobody_an_answer() -> None:
    cluster = Cluster()
    await cluster.load()
    faults: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(type(context["exception"])))

    def fail(then: Any, error: Errors, now: Moment) -> CoordinatorResult:
        raise ZeroDivisionError

    cluster.machine.appended = fail  # type: ignore[method-assign]
    kept = [cluster.write(lambda machine: machine.add("a")) for _ in range(3)]
    assert await asyncio.wait_for(asyncio.gather(*kept), 60) == [1, 2, 3]
    cluster.set_enough_replicas(is_enough=False)
    refused = [cluster.write(lambda machine: machine.add("a")) for _ in range(3)]
    for answer in refused:
        assert await asyncio.wait_for(error_of(answer), 60) is Errors.NOT_ENOUGH_REPLICAS
    assert faults == [ZeroDivisionError] * 6


@run
async def test_what_waits_for_replicas_survives_a_failed_append_behind_it() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    first = cluster.write(lambda machine: machine.add("a", 5))
    await turns()
    cluster.set_enough_replicas(is_enough=False)
    second = cluster.write(lambda machine: machine.add("a", 1))
    assert await error_of(second) is Errors.NOT_ENOUGH_REPLICAS
    cluster.replicate()
    assert await first == 5
    assert cluster.committed("a") == 5


@run
async def test_lost_leadership_fails_what_is_not_committed() -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    waiting: Promise[Any] = Promise(asyncio.get_running_loop())
    cluster.runtime.write(0, lambda machine, _: machine.wait(waiting), waiting)
    appended = cluster.write(lambda machine: machine.add("a", 5))
    await turns()
    gathered = cluster.write(lambda machine: machine.add("a", 5))
    cluster.lead(2)
    assert await error_of(appended) is Errors.NOT_COORDINATOR
    assert await error_of(gathered) is Errors.NOT_COORDINATOR
    assert await waiting == "gone"
    assert await error_of(cluster.write(lambda machine: machine.newest("a"))) is (
        Errors.NOT_COORDINATOR
    )


@run
async def test_slow_replicas_are_an_error_but_the_records_stay() -> None:
    cluster = Cluster(replicas=TWO)
    cluster.host.commit_timeout_ms = 10
    await cluster.load()
    answer = cluster.write(lambda machine: machine.add("a", 5))
    cluster.host.moment = Moment(1_000_000, 10)
    assert await error_of(answer) is Errors.REQUEST_TIMED_OUT
    assert cluster.machine.outcomes == [("a", Errors.REQUEST_TIMED_OUT)]
    cluster.replicate()
    await turns()
    assert cluster.committed("a") == 5


@run
async def test_a_result_too_large_for_a_batch_is_refused_whole() -> None:
    cluster = Cluster()
    await cluster.load()
    name = "a" * 1_000
    answer = cluster.write(lambda machine: machine.add(name, copies=1_200))
    assert await error_of(answer) is Errors.RECORD_LIST_TOO_LARGE
    await turns()
    # Others may wait for what it was to write.
    assert cluster.machine.outcomes == [(name, Errors.RECORD_LIST_TOO_LARGE)]
    assert len(cluster.machine.counters) == 0
    assert await cluster.write(lambda machine: machine.add("a")) == 1


@run
async def test_a_result_that_need_not_be_whole_is_split() -> None:
    cluster = Cluster()
    await cluster.load()

    def many(_: Any) -> CoordinatorResult:
        records = [counter_record("a" * 1_000, number) for number in range(2_000)]
        return CoordinatorResult(records, response=True, is_atomic=False)

    assert await cluster.write(many)
    assert cluster.partition.online_log().log_end_offset == 2_000
    assert cluster.committed("a" * 1_000) == 1_999


@run
async def test_waiting_clients_are_answered_by_another_command() -> None:
    cluster = Cluster()
    await cluster.load()
    waiting: Promise[Any] = Promise(asyncio.get_running_loop())
    cluster.runtime.write(0, lambda machine, _: machine.wait(waiting), waiting)
    await turns()
    assert not waiting.done()
    assert await cluster.write(lambda machine: machine.wake()) == 1
    assert await waiting == "woken"


@run
async def test_deadlines_of_the_machine_run_as_commands() -> None:
    cluster = Cluster()
    await cluster.load()

    def later(machine: Any) -> CoordinatorResult:
        machine.timers.schedule("key", 10, "a")
        return CoordinatorResult(response=True)

    assert await cluster.write(later)
    cluster.host.moment = Moment(1_000_000, 10)
    await asyncio.sleep(0.05)
    # On a busy machine the deadline comes up in the same turn.
    await turns()
    assert cluster.committed("a") == 1


@run
async def test_what_becomes_due_meanwhile_has_another_turn() -> None:
    cluster = Cluster()
    await cluster.load()
    machine = cluster.machine
    seen: list[int] = []

    def expire(now: Moment) -> CoordinatorResult | None:
        """A slice that takes longer than the pause before the next one."""
        if machine.timers.take_due(now.monotonic_ms) is None:
            return None
        seen.append(now.monotonic_ms)
        machine.timers.schedule("a", now.monotonic_ms + 1, "a")
        cluster.host.moment = Moment(now.wall_ms, now.monotonic_ms + 5)
        return CoordinatorResult()

    machine.expire = expire  # type: ignore[method-assign]
    machine.timers.schedule("a", 0, "a")
    cluster.shard._expire()
    assert len(seen) == 1
    cluster.shard._expire()
    assert len(seen) == 2


def test_deadlines_on_the_loop_that_nodes_run_on() -> None:
    async def main() -> None:
        cluster = Cluster()
        await cluster.load()

        def at(deadline_ms: int) -> Callable[[Any], CoordinatorResult]:
            def command(machine: Any) -> CoordinatorResult:
                machine.timers.schedule(deadline_ms, deadline_ms, "a")
                return CoordinatorResult(response=True)

            return command

        # A timer for later, one for now in its place, and one for later beside it.
        for deadline_ms in (60_000, 0, 10):
            assert await cluster.write(at(deadline_ms))
        cluster.host.moment = Moment(1_000_000, 10)
        await asyncio.sleep(0.05)
        assert cluster.committed("a") == 2

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_a_node_that_comes_late_hears_its_clients_first() -> None:
    """On the loop of nodes timers come before input, however long both were ready."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.load()
        loop = asyncio.get_running_loop()

        def at(deadline_ms: int) -> Callable[[Any], CoordinatorResult]:
            def command(machine: Any) -> CoordinatorResult:
                machine.timers.schedule("session", deadline_ms, "expired")
                return CoordinatorResult(response=True)

            return command

        node, client = socket.socketpair()
        renewed: list[asyncio.Future[Any]] = []

        def read() -> None:
            node.recv(1)
            renewed.append(cluster.run(lambda machine, _: at(500)(machine)))

        with node, client:
            loop.add_reader(node, read)
            assert await cluster.write(at(10))
            client.send(b"h")
            # The node gets no processor for a while: the deadline has passed, the heartbeat waits.
            threading.Event().wait(0.02)
            cluster.host.moment = Moment(1_000_000, 10 + COORDINATOR_LATE_MS_MAX + 1)
            await asyncio.sleep(3 * COORDINATOR_PATIENCE_MS / 1000)
            loop.remove_reader(node)
        assert [await one for one in renewed] == [True]
        assert cluster.committed("expired") is None

        # Nobody writes: patience ends.
        cluster.host.moment = Moment(1_000_000, 500 + COORDINATOR_LATE_MS_MAX + 1)
        await asyncio.sleep(0.5 + 3 * COORDINATOR_PATIENCE_MS / 1000)
        await turns()
        assert cluster.committed("expired") == 1

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@run
async def test_a_partition_that_makes_no_sense_is_not_served_until_the_next_epoch() -> None:
    cluster = Cluster()
    builder = BatchBuilder()
    builder.append(0, b"\0\1", b"\0\0")
    cluster.partition.append(builder.build(), now_ms=0)
    await cluster.load()
    assert cluster.shard.state is ShardState.FAILED
    assert "could not be loaded" in cluster.host.reports[0]
    answer = cluster.write(lambda machine: machine.newest("a"))
    assert await error_of(answer) is Errors.NOT_COORDINATOR
    failed = cluster.shard
    cluster.lead(1)
    again = cluster.shard
    assert again is not failed
    assert again.state is ShardState.LOADING


@run
async def test_an_append_that_the_log_refuses() -> None:
    cluster = Cluster()
    await cluster.load()

    # Before anybody has heard of it.
    cluster.partition.online_log().directory.offline_reason = "broken"
    answer = cluster.write(lambda machine: machine.add("a"))
    assert await error_of(answer) is Errors.KAFKA_STORAGE_ERROR
    assert len(cluster.machine.counters) == 0


STEPS = st.lists(
    st.sampled_from(["add", "add many", "remove", "turn", "replicate", "fail", "heal", "resign"]),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=80, deadline=None)
def test_answered_is_kept_and_refused_is_not(steps: list[str]) -> None:
    """Whatever fails in between: what was acknowledged is in the log and in committed memory, and
    memory equals a replay of the log.
    """
    asyncio.run(_any_order(steps))


async def _any_order(steps: list[str]) -> None:
    cluster = Cluster(replicas=TWO)
    await cluster.load()
    answers: list[asyncio.Future[Any]] = []
    is_resigned = False
    for step in steps:
        match step:
            case "add" | "add many":
                add = partial(CounterMachine.add, name="a", copies=3 if " " in step else 1)
                answers.append(cluster.write(add))
            case "remove":
                answers.append(cluster.write(lambda machine: machine.remove("a")))
            case "turn":
                await turns()
            case "replicate" if not is_resigned:
                cluster.replicate()
            case "fail" | "heal":
                cluster.set_enough_replicas(is_enough=step == "heal")
            case "resign":
                is_resigned = not is_resigned
                cluster.lead(2 if is_resigned else 1)
                if not is_resigned:
                    await cluster.load()
    if is_resigned:
        cluster.lead(1)
        await cluster.load()
    await turns()
    cluster.replicate()
    await turns()
    assert all(answer.done() for answer in answers)
    for answer in answers:
        answer.exception()
    newest = dict(cluster.machine.counters.items())
    assert newest == dict(cluster.machine.counters.committed_items())
    again = Cluster(old=cluster.replicas)
    await again.load()
    assert dict(again.machine.counters.items()) == newest
    last = [answer.result() for answer in answers if answer.exception() is None]
    if last and last[-1] is not True and "resign" not in steps and "fail" not in steps:
        assert newest["a"] == last[-1]
