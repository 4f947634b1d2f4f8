from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from kaa.limits import FETCH_PARTITIONS_PER_TURN_MAX, REPLICATION_LOOKS_PER_TURN_MAX
from kaa.replication.partition import Awaited
from kaa.serving.delayed import (
    Appended,
    LongPolls,
    Wait,
    WatchedPartitions,
    until_replicated,
)
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.replication.partition import Partition


class FakePartition:
    """The two methods that a wait uses of a partition."""

    def __init__(self) -> None:
        self.waiters: set[Callable[[], None]] = set()

    def wait(self, waiter: Callable[[], None], _: Awaited) -> None:
        self.waiters.add(waiter)

    def forget(self, waiter: Callable[[], None]) -> None:
        self.waiters.discard(waiter)

    def progress(self) -> None:
        for waiter in tuple(self.waiters):
            waiter()


def start(partition: FakePartition, timeout_ms: int, satisfied: Callable[[], bool]) -> Wait[bool]:
    """A wait that answers whether it was satisfied."""
    loop = asyncio.get_running_loop()

    def answer(is_late: bool) -> bool | None:
        return satisfied() or (False if is_late else None)

    return Wait(loop, [cast("Partition", partition)], timeout_ms, answer)


def test_progress_is_looked_at_once_per_turn() -> None:
    looks: list[int] = []

    def is_satisfied() -> bool:
        looks.append(len(looks))
        return len(looks) == 3

    async def main() -> None:
        partition = FakePartition()
        wait = start(partition, 10_000, is_satisfied)
        assert len(looks) == 1
        for _ in range(5):
            partition.progress()
        await asyncio.sleep(0)
        assert len(looks) == 2
        assert not wait.done.done()
        partition.progress()
        assert await wait.done
        assert len(looks) == 3
        await asyncio.sleep(0)
        assert not partition.waiters

    asyncio.run(main())


def test_what_is_so_already_is_not_waited_for() -> None:
    async def main() -> None:
        partition = FakePartition()
        wait = start(partition, 10_000, lambda: True)
        assert wait.done.done()
        assert await wait.done
        assert not partition.waiters

    asyncio.run(main())


def test_time_is_up() -> None:
    async def main() -> None:
        partition = FakePartition()
        wait = start(partition, 5, lambda: False)
        assert not await wait.done
        await asyncio.sleep(0)
        assert not partition.waiters

    asyncio.run(main())


def test_wait_that_is_not_wanted_any_more_leaves_nothing() -> None:
    async def main() -> None:
        partition = FakePartition()
        wait = start(partition, 10_000, lambda: True)
        wait.done.cancel()
        partition.progress()
        await asyncio.sleep(0)
        assert not partition.waiters

    asyncio.run(main())


def never(is_late: bool) -> bool | None:
    return False if is_late else None


def test_a_wait_whose_look_fails_fails() -> None:
    async def main() -> None:
        partition = FakePartition()

        def answer(_: bool) -> None:
            raise ZeroDivisionError

        wait: Wait[None] = Wait(
            asyncio.get_running_loop(), [cast("Partition", partition)], 10_000, answer
        )
        with pytest.raises(ZeroDivisionError):
            await wait.done
        assert not partition.waiters

    asyncio.run(main())


class Replicated:
    """A partition whose records come to an end that the test decides."""

    def __init__(self) -> None:
        self.waiters: dict[Callable[[], None], None] = {}
        self.outcome: Errors | None = None

    def wait(self, waiter: Callable[[], None], _: Awaited) -> None:
        self.waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        self.waiters.pop(waiter, None)

    def replication_outcome(self, offset: int, leader_epoch: int) -> Errors | None:
        assert (offset, leader_epoch) == (7, 3)
        return self.outcome

    def decide(self, outcome: Errors) -> None:
        self.outcome = outcome
        for waiter in tuple(self.waiters):
            waiter()


def appended(partition: Replicated) -> Appended:
    return Appended(cast("Partition", partition), 7, 3)


def test_what_is_replicated_already_is_known_at_once() -> None:
    async def main() -> None:
        partition = Replicated()
        partition.outcome = Errors.NONE
        loop = asyncio.get_running_loop()
        known = until_replicated(loop, [appended(partition)], 10_000, list)
        assert known == [Errors.NONE]
        assert not partition.waiters

    asyncio.run(main())


def test_each_batch_has_its_own_outcome_and_an_early_one_stays() -> None:
    async def main() -> None:
        first, second = Replicated(), Replicated()
        loop = asyncio.get_running_loop()
        done = until_replicated(loop, [appended(first), appended(second)], 10_000, list)
        assert isinstance(done, asyncio.Future)
        first.decide(Errors.NONE)
        await asyncio.sleep(0)
        first.outcome = Errors.NOT_LEADER_OR_FOLLOWER
        assert not done.done()
        second.decide(Errors.NOT_LEADER_OR_FOLLOWER)
        assert await done == [Errors.NONE, Errors.NOT_LEADER_OR_FOLLOWER]

    asyncio.run(main())


def test_what_is_not_decided_in_time_is_timed_out() -> None:
    async def main() -> None:
        known, unknown = Replicated(), Replicated()
        known.outcome = Errors.NONE
        loop = asyncio.get_running_loop()
        done = until_replicated(loop, [appended(known), appended(unknown)], 5, list)
        assert isinstance(done, asyncio.Future)
        assert await done == [Errors.NONE, Errors.REQUEST_TIMED_OUT]

    asyncio.run(main())


def test_very_many_are_waited_for_some_after_the_others() -> None:
    async def main() -> None:
        partitions = [Replicated() for _ in range(2 * REPLICATION_LOOKS_PER_TURN_MAX + 1)]
        loop = asyncio.get_running_loop()
        first, middle, last = partitions[0], partitions[len(partitions) // 2], partitions[-1]
        for partition in partitions:
            if partition not in (first, middle, last):
                partition.outcome = Errors.NONE

        def decide() -> None:
            """One after the other, when it is waited for."""
            for partition in (first, middle, last):
                if partition.waiters:
                    partition.decide(Errors.NOT_LEADER_OR_FOLLOWER)
            if last.outcome is None:
                loop.call_soon(decide)

        loop.call_soon(decide)
        asked = [appended(one) for one in partitions]
        waited = until_replicated(loop, asked, 60_000, list)
        assert not isinstance(waited, list)
        outcomes = await waited
        assert len(outcomes) == len(partitions)
        failed = [place for place, error in enumerate(outcomes) if error is not Errors.NONE]
        assert failed == [0, len(partitions) // 2, len(partitions) - 1]

    asyncio.run(main())


def test_very_many_share_one_deadline() -> None:
    async def main() -> None:
        partitions = [Replicated() for _ in range(REPLICATION_LOOKS_PER_TURN_MAX + 1)]
        loop = asyncio.get_running_loop()
        asked = [appended(one) for one in partitions]
        waited = until_replicated(loop, asked, 5, set)
        assert not isinstance(waited, set)
        assert await waited == {Errors.REQUEST_TIMED_OUT}
        assert not any(one.waiters for one in partitions)

    asyncio.run(main())


def test_long_polls_end_together_and_later_ones_at_once() -> None:
    async def main() -> None:
        partition = cast("Partition", FakePartition())
        polls = LongPolls(asyncio.get_running_loop())
        waits = [polls.wait([partition], 60_000, never) for _ in range(3)]
        assert len(polls) == 3
        polls.end()
        assert [await wait for wait in waits] == [False] * 3
        late = polls.wait([partition], 60_000, never)
        assert late.done()
        assert not late.result()
        await asyncio.sleep(0)
        assert len(polls) == 0
        assert not cast("FakePartition", partition).waiters

    asyncio.run(main())


def test_a_long_poll_that_was_satisfied_is_forgotten() -> None:
    async def main() -> None:
        partition = FakePartition()
        polls = LongPolls(asyncio.get_running_loop())
        wait = polls.wait([cast("Partition", partition)], 60_000, lambda _: True)
        partition.progress()
        assert await wait
        await asyncio.sleep(0)
        assert len(polls) == 0

    asyncio.run(main())


def test_very_many_partitions_are_waited_for_as_one() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watched = WatchedPartitions(loop, Awaited.HIGH_WATERMARK)
        wait = LongPolls(loop).wait([watched], 60_000, lambda _: True)
        partitions = [FakePartition() for _ in range(2 * FETCH_PARTITIONS_PER_TURN_MAX + 1)]
        for partition in (*partitions, *partitions):
            watched.add(cast("Partition", partition))
        assert {len(partition.waiters) for partition in partitions} == {1}
        partitions[3].progress()
        assert await wait
        # Nobody waits any longer.
        partitions[3].progress()
        left = []
        watched.close()
        for _ in range(3):
            left.append(sum(len(partition.waiters) for partition in partitions))
            await asyncio.sleep(0)
        assert left == [FETCH_PARTITIONS_PER_TURN_MAX + 1, 1, 0]

    asyncio.run(main())
