"""Work of consumer groups that takes too long to be done in a request.

Assignments of big groups and the resolution of regular expressions are generators. A slice of their
steps runs when a deadline passes, which is set a moment ahead so that others are served in between;
the result becomes records, if the group still wants it. At most one of each kind is under way in a
group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.coordinators.group.consumer.timers import WorkDue
from kaa.limits import CONSUMER_GROUP_ASSIGNOR_PAUSE_MS, CONSUMER_GROUP_ASSIGNOR_SLICE_STEPS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kaa.coordinators.group.consumer.timers import ConsumerTimers
    from kaa.coordinators.machine import Moment, NewRecord
    from kaa.model.pieces import Pieces


class ConsumerWork:
    """The long computations of the consumer groups of one shard, run in slices. Nothing of it
    survives a change of coordinator.
    """

    def __init__(self, timers: ConsumerTimers) -> None:
        self._timers = timers
        self._under_way: dict[
            tuple[str, str],
            tuple[Generator[None, None, Any], Callable[[Any, Moment], Pieces[list[NewRecord]]]],
        ] = {}

    def is_under_way(self, group_id: str, kind: str) -> bool:
        return (group_id, kind) in self._under_way

    def start(
        self,
        group_id: str,
        kind: str,
        steps: Generator[None, None, Any],
        finish: Callable[[Any, Moment], Pieces[list[NewRecord]]],
        now: Moment,
    ) -> None:
        """`finish` makes records of the result, when there is one."""
        self._under_way[group_id, kind] = (steps, finish)
        self._timers.schedule_work(WorkDue(group_id, kind), 0, now)

    def go_on(self, event: WorkDue, now: Moment) -> Pieces[list[NewRecord]]:
        """The next slice; the records when it is done, which are made in pieces."""
        key = (event.group_id, event.kind)
        found = self._under_way.get(key)
        if found is None:
            return []
        steps, finish = found
        try:
            for _ in range(CONSUMER_GROUP_ASSIGNOR_SLICE_STEPS_MAX):
                next(steps)
        except StopIteration as end:
            del self._under_way[key]
            yield
            return (yield from finish(end.value, now))
        self._timers.schedule_work(event, CONSUMER_GROUP_ASSIGNOR_PAUSE_MS, now)
        return []
