"""How fast replicas move to directories, from looks at what has arrived.

Copies come in steps: under a throttle one in a second or more, and less often if a batch is larger
than that. A rate between two looks would be nothing, or twice what is true. So it is taken from one
step to another, and looks go on until there were some, or for as long as anyone would wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.limits import MOVE_RATE_SECONDS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.admin.cluster import LogDir

# As many steps of each directory are enough.
_STEPS: Final = 3


class MoveRates:
    """Fed with looks at the directories, in order."""

    def __init__(self) -> None:
        self._began = self._now = 0.0
        # By directory: the bytes at the last look, and when more had come, with all that came.
        self._moved: dict[tuple[int, str], int] = {}
        self._steps: dict[tuple[int, str], list[tuple[float, int]]] = {}

    def look(self, found: Iterable[LogDir], now: float) -> bool:
        """Notes what has arrived; whether another look would tell more."""
        self._began, self._now = (self._began if self._moved else now), now
        is_wanted = False
        for one in found:
            key = (one.broker_id, one.path)
            moved = moved_bytes(one)
            steps = self._steps.setdefault(key, [])
            more = moved - self._moved.get(key, moved)
            if more > 0:
                steps.append((now, more + (steps[-1][1] if steps else 0)))
            self._moved[key] = moved
            is_coming = any(replica.is_future for replica in one.replicas)
            is_wanted = is_wanted or (is_coming and len(steps) < _STEPS)
        return is_wanted and now - self._began < MOVE_RATE_SECONDS_MAX

    def bytes_per_second(self, one: LogDir) -> int:
        steps = self._steps.get((one.broker_id, one.path), [])
        if len(steps) == 1:
            steps = [(self._began, 0), (self._now, steps[0][1])]
        if not steps:
            return 0
        (first_at, first), (last_at, last) = steps[0], steps[-1]
        return int((last - first) / max(last_at - first_at, 0.001))


def moved_bytes(one: LogDir) -> int:
    """What has arrived of the replicas that are on their way to a directory."""
    return sum(replica.size_bytes for replica in one.replicas if replica.is_future)
