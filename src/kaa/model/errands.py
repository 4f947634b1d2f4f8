"""Work that is begun and that nobody waits for: each piece a task with an owner.

A task that nobody holds may vanish before it is done, and its failure is seen by nobody. Errands
belong to the node that runs them: they are in its task group, one that fails is reported and ends
alone, and what is under way when the node stops is given up.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Coroutine

    Begin = Callable[[Coroutine[Any, Any, None]], Task[None]]


class Errands:
    """Begins errands and holds them until they are done; `begin_task` is that of a task group."""

    def __init__(self, begin_task: Begin, report: Callable[[str], None]) -> None:
        self._begin_task = begin_task
        self._report = report
        self._under_way: dict[Task[None], None] = {}

    def begin(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Has it done soon; `what` names it in a report."""
        run = self._run(what, work)
        try:
            task = self._begin_task(run)
        except RuntimeError:
            # The group is ending after a failure, and takes nothing any more.
            run.close()
            work.close()
            return
        self._under_way[task] = None
        task.add_done_callback(partial(self._ended, work))

    def _ended(self, work: Coroutine[Any, Any, None], task: Task[None]) -> None:
        del self._under_way[task]
        # Perhaps it was given up before its first step, and nobody has awaited the work.
        work.close()

    async def _run(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  Whatever it is, the node goes on.
            self._report(f"{what} failed: {error!r}")

    def cancel(self) -> None:
        """Gives up what is under way."""
        for task in tuple(self._under_way):
            task.cancel()
