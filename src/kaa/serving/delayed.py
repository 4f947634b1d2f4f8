"""Answers that wait for partitions: until it is enough, or until their time is up.

A wait is registered with the partitions it depends on and is told when one of them makes progress.
It then looks once per turn of the loop, however many appends that turn saw, and gives its answer at
the first look that satisfies it or at its deadline. Nothing polls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from kaa.replication.partition import Partition


class Wait:
    """One wait; `done` becomes True when it was satisfied, False when its time was up."""

    __slots__ = ("_is_looking", "_is_satisfied", "_loop", "_partitions", "_timer", "done")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        partitions: Iterable[Partition],
        timeout_ms: float,
        is_satisfied: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._partitions = tuple(partitions)
        self._is_satisfied = is_satisfied
        self._is_looking = False
        self.done: asyncio.Future[bool] = loop.create_future()
        self.done.add_done_callback(self._end)
        self._timer = loop.call_later(timeout_ms / 1000, self.expire)
        for partition in self._partitions:
            partition.wait(self._progress)

    def _progress(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_looking = False
        if not self.done.done() and self._is_satisfied():
            self.done.set_result(True)

    def expire(self) -> None:
        """Time is up, or nobody should wait any longer."""
        if not self.done.done():
            self.done.set_result(False)

    def _end(self, _: asyncio.Future[bool]) -> None:
        """Also when the answer is not wanted any more, because the client is gone."""
        self._timer.cancel()
        for partition in self._partitions:
            partition.forget(self._progress)


class LongPolls:
    """Waits of readers for more, which a node that stops answers at once with what there is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[Wait] = set()
        self.are_ended = False

    def __len__(self) -> int:
        return len(self._open)

    def wait(
        self,
        partitions: Iterable[Partition],
        timeout_ms: float,
        is_satisfied: Callable[[], bool],
    ) -> Wait:
        wait = Wait(self._loop, partitions, max(0.0, timeout_ms), is_satisfied)
        if self.are_ended:
            wait.expire()
        else:
            self._open.add(wait)
            wait.done.add_done_callback(lambda _: self._open.discard(wait))
        return wait

    def end(self) -> None:
        """Ends those that wait, and every later one at its beginning."""
        self.are_ended = True
        for wait in tuple(self._open):
            wait.expire()
