from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.coordinators.runtime import partition_for
from kaa.coordinators.shard import ShardState
from kaa.model.pieces import Pieces
from kaa.wire.errors import Errors
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.coordinators.support import Cluster, CounterMachine, error_of, turns


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that a timer brings."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - nothing tells of it.
            await asyncio.sleep(0.005)


def fail_first(function: Callable[..., Any], times: int, error: Exception) -> Callable[..., Any]:
    """The function, which fails so many times before it works."""
    failures = iter(range(times))

    def called(*arguments: Any, **fields: Any) -> Any:
        if next(failures, None) is not None:
            raise error
        return function(*arguments, **fields)

    return called


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


def test_a_question_to_every_shard() -> None:
    async def main() -> None:
        cluster = Cluster()

        def ask(query: Callable[[list[CounterMachine]], Any]) -> Any:
            answer = Promise(cluster.host.loop, lambda refusal: refusal.error)
            return cluster.runtime.read_all(query, answer).result()

        assert ask(len) is Errors.COORDINATOR_LOAD_IN_PROGRESS
        await cluster.load()
        assert ask(len) == 1

        def refuse(_: list[CounterMachine]) -> None:
            raise CoordinatorError(Errors.INVALID_REGULAR_EXPRESSION)

        assert ask(refuse) is Errors.INVALID_REGULAR_EXPRESSION

        def slowly(machines: list[CounterMachine]) -> Pieces[int]:
            yield
            return len(machines)

        answer: Promise[int] = Promise(cluster.host.loop)
        cluster.runtime.read_all(slowly, answer)
        assert not answer.done(), "others have a turn"
        assert await answer == 1
        cluster.runtime.stop()
        assert ask(len) == 0

    asyncio.run(main())


def test_a_topic_of_another_coordinator_does_not_matter() -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.runtime.topic = "__transaction_state"
        cluster.lead(1)
        assert cluster.shard.leader_epoch == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), KeyError("a fault of the machine")]
)
def test_a_load_that_fails_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("kaa.coordinators.runtime.COORDINATOR_LOAD_RETRY_SECONDS_MIN", 0.01)

    async def main() -> None:
        cluster = Cluster()
        await cluster.load()
        assert await cluster.write(lambda machine: machine.add("a", 5)) == 5
        again = Cluster(old=cluster.replicas)
        log = again.partition.online_log()
        monkeypatch.setattr(log, "read", fail_first(log.read, 3, error))
        async with asyncio.TaskGroup() as tasks:
            duty = tasks.create_task(again.runtime.run())
            await until(lambda: again.shard.state is ShardState.FAILED)
            answer = again.write(lambda machine: machine.newest("a"))
            assert await error_of(answer) is Errors.NOT_COORDINATOR
            await until(lambda: again.shard.state is ShardState.ACTIVE)
            duty.cancel()
        assert again.committed("a") == 5
        assert len(again.host.reports) == 3
        told = f"{again.partition.topic}-0 could not be loaded"
        assert all(told in text and type(error).__name__ in text for text in again.host.reports)
        # The next failure is a first one.
        assert again.runtime._pauses == {}

    asyncio.run(main())


def test_the_pause_between_attempts_grows_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.coordinators.runtime.COORDINATOR_LOAD_RETRY_SECONDS_MAX", 5.0)

    async def main() -> None:
        cluster = Cluster()
        await cluster.load()
        await cluster.write(lambda machine: machine.add("a"))
        again = Cluster(old=cluster.replicas)
        log = again.partition.online_log()
        monkeypatch.setattr(log, "read", fail_first(log.read, 5, OSError()))
        pauses: list[float] = []

        def later(seconds: float, callback: Callable[..., None], *arguments: Any) -> None:
            pauses.append(seconds)
            callback(*arguments)

        monkeypatch.setattr(again.host, "loop", _Loop(again.host.loop, later))
        for _ in range(6):
            await again.load()
        assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]
        assert again.shard.state is ShardState.ACTIVE

    asyncio.run(main())


class _Loop:
    """The loop of the test, whose timers are the test's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, later: Callable[..., None]) -> None:
        self._loop = loop
        self.call_later = later

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_a_failed_shard_that_was_replaced_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        cluster = Cluster(replicas=(1, 2))
        await cluster.load()
        cluster.write(lambda machine: machine.add("a"))
        await turns()
        again = Cluster(old=cluster.replicas)
        log = again.partition.online_log()
        monkeypatch.setattr(log, "read", fail_first(log.read, 1, OSError()))
        retries: list[Callable[[], None]] = []

        def later(_: float, callback: Callable[..., None], *arguments: Any) -> None:
            retries.append(partial(callback, *arguments))

        monkeypatch.setattr(again.host, "loop", _Loop(again.host.loop, later))
        await again.load()
        failed = again.shard
        again.lead(2)
        (retry,) = retries
        retry()
        assert list(again.runtime) == []
        again.lead(1)
        newest = again.shard
        retry()
        assert again.shard is newest
        await again.load()
        assert (failed.state, newest.state) == (ShardState.CLOSED, ShardState.ACTIVE)
        assert again.shard is newest

    asyncio.run(main())


def test_a_shard_that_fails_as_it_begins_does_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        cluster = Cluster()
        shard = cluster.shard

        def broken(_: object) -> None:
            shard.machine.timers.schedule("key", 0, "a")
            raise RuntimeError("broken")

        monkeypatch.setattr(shard.machine, "loaded", broken)
        await cluster.load()
        await asyncio.sleep(0.01)
        assert shard.state is ShardState.FAILED
        assert cluster.partition.online_log().log_end_offset == 0

    asyncio.run(main())
