"""Answers that wait for partitions: until it is enough, or until their time is up.

A wait looks first: what it waits for may have happened before it began. Then it is registered with
the partitions it depends on, and each of them wakes it at the kind of progress it waits for. It
looks once per turn of the loop, however many appends that turn saw, and gives its answer at the
first look that satisfies it or at its deadline. Nothing polls.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kaa.limits import FETCH_PARTITIONS_PER_TURN_MAX, REPLICATION_LOOKS_PER_TURN_MAX
from kaa.replication.partition import Awaited
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kaa.replication.partition import Partition

R = TypeVar("R")


class ProgressSource(Protocol):
    """What makes progress that is waited for: a partition, or the partitions of a session."""

    def wait(self, waiter: Callable[[], None], awaited: Awaited) -> None: ...

    def forget(self, waiter: Callable[[], None]) -> None: ...


class WatchedPartitions:
    """Very many partitions, of which the progress of any is that of all: those who wait for them
    are registered once, and they are added and left in many turns.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, awaited: Awaited) -> None:
        self._loop = loop
        self._awaited = awaited
        self._partitions: dict[Partition, None] = {}
        self._waiters: dict[Callable[[], None], None] = {}

    def add(self, partition: Partition) -> None:
        if partition not in self._partitions:
            self._partitions[partition] = None
            partition.wait(self._wake, self._awaited)

    def close(self) -> None:
        """Leaves some of them at once and the others in later turns."""
        for _ in range(min(len(self._partitions), FETCH_PARTITIONS_PER_TURN_MAX)):
            partition, _ = self._partitions.popitem()
            partition.forget(self._wake)
        if self._partitions:
            self._loop.call_soon(self.close)

    def _wake(self) -> None:
        for waiter in tuple(self._waiters):
            waiter()

    # --- for those who wait

    def wait(self, waiter: Callable[[], None], awaited: Awaited) -> None:
        assert awaited is self._awaited
        self._waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        self._waiters.pop(waiter, None)


class Wait(Generic[R]):
    """One wait; `done` gives its answer."""

    __slots__ = ("_answer", "_is_looking", "_loop", "_partitions", "_timer", "done")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        partitions: Iterable[ProgressSource],
        timeout_ms: float,
        answer: Callable[[bool], R | None],
        awaited: Awaited = Awaited.HIGH_WATERMARK,
        *,
        has_looked: bool = False,
    ) -> None:
        """`answer` gives the answer, or None for as long as it is not enough; with True the time is
        up, and there must be one. `has_looked`: the caller has looked in this very turn, and it was
        not enough.
        """
        self._loop = loop
        self._partitions = tuple(partitions)
        self._answer = answer
        self._is_looking = False
        self.done: asyncio.Future[R] = loop.create_future()
        self.done.add_done_callback(self._end)
        self._timer = loop.call_later(timeout_ms / 1000, self.expire)
        for partition in self._partitions:
            partition.wait(self._progress, awaited)
        if not has_looked:
            self._look()
            if self.done.done():
                self._end(self.done)

    def _progress(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _look(self, *, is_late: bool = False) -> None:
        self._is_looking = False
        if self.done.done():
            return
        try:
            answer = self._answer(is_late)
        except Exception as error:  # noqa: BLE001 - it is the answer of the one who waits.
            self.done.set_exception(error)
        else:
            if answer is not None:
                self.done.set_result(answer)

    def expire(self) -> None:
        """Time is up, or nobody should wait any longer."""
        self._look(is_late=True)

    def _end(self, _: asyncio.Future[R]) -> None:
        """Also when the one who waited has given up. A client that is gone while its fetch waits
        is noticed when the answer is sent, as in Kafka: its connection is not read until then.
        """
        self._timer.cancel()
        for partition in self._partitions:
            partition.forget(self._progress)


class Appended(NamedTuple):
    """What was appended to a partition."""

    partition: Partition
    # The offset after it.
    end_offset: int
    leader_epoch: int


def until_replicated(
    loop: asyncio.AbstractEventLoop,
    appended: Sequence[Appended],
    timeout_ms: float,
    respond: Callable[[list[Errors]], R],
) -> R | Awaitable[R]:
    """What `respond` makes of the outcomes: at once if all of a few are decided, or else when they
    are or time is up. Of very many some are waited for after the others.
    """
    if len(appended) > REPLICATION_LOOKS_PER_TURN_MAX:
        return _many_replicated(loop, appended, timeout_ms, respond)
    outcomes = [
        partition.replication_outcome(end_offset, leader_epoch)
        for partition, end_offset, leader_epoch in appended
    ]

    def answer(is_late: bool) -> R | None:
        for place, known in enumerate(outcomes):
            if known is None:
                partition, end_offset, leader_epoch = appended[place]
                outcomes[place] = partition.replication_outcome(end_offset, leader_epoch)
        if None in outcomes and not is_late:
            return None
        return respond([Errors.REQUEST_TIMED_OUT if one is None else one for one in outcomes])

    if None not in outcomes:
        return respond([one for one in outcomes if one is not None])
    undecided = [
        batch.partition for batch, one in zip(appended, outcomes, strict=True) if one is None
    ]
    return Wait(loop, undecided, timeout_ms, answer, has_looked=True).done


async def _many_replicated(
    loop: asyncio.AbstractEventLoop,
    appended: Sequence[Appended],
    timeout_ms: float,
    respond: Callable[[list[Errors]], R],
) -> R:
    deadline = loop.time() + timeout_ms / 1000
    outcomes: list[Errors] = []
    for start in range(0, len(appended), REPLICATION_LOOKS_PER_TURN_MAX):
        if start:
            await asyncio.sleep(0)
        some = appended[start : start + REPLICATION_LOOKS_PER_TURN_MAX]
        left_ms = max(0.0, (deadline - loop.time()) * 1000)
        found = until_replicated(loop, some, left_ms, list)
        outcomes += found if isinstance(found, list) else await found
    await asyncio.sleep(0)
    response = respond(outcomes)
    # To forget all that the request brought takes its time too.
    await asyncio.sleep(0)
    return response


class LongPolls:
    """Waits of readers for more, which a node that stops answers at once with what there is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # In the order in which they began, so that a replayed run ends them in the same order.
        self._open: dict[Wait[object], None] = {}
        self.are_ended = False

    def __len__(self) -> int:
        return len(self._open)

    def wait(
        self,
        partitions: Iterable[ProgressSource],
        timeout_ms: float,
        answer: Callable[[bool], R | None],
        awaited: Awaited = Awaited.HIGH_WATERMARK,
    ) -> asyncio.Future[R]:
        """The caller has looked in this turn, or looks after this call."""
        timeout_ms = max(0.0, timeout_ms)
        wait: Wait[object]
        wait = Wait(self._loop, partitions, timeout_ms, answer, awaited, has_looked=True)
        if self.are_ended:
            wait.expire()
        else:
            self._open[wait] = None
            wait.done.add_done_callback(lambda _: self._open.pop(wait, None))
        return wait.done  # type: ignore[return-value]  # It holds waits of every kind.

    def end(self) -> None:
        """Ends those that wait, and every later one at its beginning."""
        self.are_ended = True
        for wait in tuple(self._open):
            wait.expire()
