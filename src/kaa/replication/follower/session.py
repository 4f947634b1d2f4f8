"""A fetch session as the follower sees it (KIP-227): the leader hears of a partition once.

The session keeps for each partition what the next fetch should ask for, and what the leader knows.
A fetch names the partitions for which these differ, and those to forget. Every answer that goes
well raises the epoch of the session; any doubt begins a new one with a full fetch:

| the leader's session | the next fetch |
|---|---|
| none | id 0, epoch 0, all partitions |
| id n after k fetches | id n, epoch k, what changed |

A position says everything that the leader checks, so that a new leader epoch, or an end that went
down, is sent like any other change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid

    PartitionId = tuple[Uuid, int]

NO_SESSION: Final = 0
_EPOCH_MAX: Final = 2**31 - 1


class FetchPosition(NamedTuple):
    """What a fetch asks of one partition."""

    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int
    bytes_max: int


class FetchPlan(NamedTuple):
    """One fetch: the session it belongs to, and what it says."""

    session_id: int
    session_epoch: int
    partitions: dict[PartitionId, FetchPosition]
    forgotten: list[PartitionId]


class FetchSession:
    """The follower's half of a fetch session with one leader: `plan` a fetch, then `answered` or
    `reset`.
    """

    __slots__ = ("_changed", "_epoch", "_forgotten", "_id", "_wanted")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = 0
        # What the partitions that are to be fetched should ask for.
        self._wanted: dict[PartitionId, FetchPosition] = {}
        # Those of them that the leader does not know like that, and those it should forget.
        self._changed: dict[PartitionId, None] = {}
        self._forgotten: dict[PartitionId, None] = {}

    def want(self, partition: PartitionId, position: FetchPosition) -> None:
        self._forgotten.pop(partition, None)
        if self._wanted.get(partition) != position:
            # Changed ones go to the end, so that partitions take turns in a full fetch.
            self._wanted.pop(partition, None)
            self._wanted[partition] = position
            self._changed[partition] = None

    def drop(self, partition: PartitionId) -> None:
        if self._wanted.pop(partition, None) is not None:
            self._changed.pop(partition, None)
            self._forgotten[partition] = None

    def plan(self) -> FetchPlan | None:
        """The next fetch; None if no partition is wanted."""
        if not self._wanted:
            return None
        if self._epoch == 0:
            plan = FetchPlan(self._id, 0, dict(self._wanted), [])
        else:
            changed = {partition: self._wanted[partition] for partition in self._changed}
            plan = FetchPlan(self._id, self._epoch, changed, list(self._forgotten))
        self._changed.clear()
        self._forgotten.clear()
        return plan

    def answered(self, error_code: int, session_id: int) -> bool:
        """Whether the answer holds; if not, the next fetch begins a new session."""
        if error_code != Errors.NONE or (self._epoch and session_id not in {NO_SESSION, self._id}):
            self.reset()
            return False
        if session_id == NO_SESSION:
            # The leader has no room for a session, or has closed it.
            self.reset()
        elif self._epoch == _EPOCH_MAX:
            self._epoch = 1
        else:
            self._id = session_id
            self._epoch += 1
        return True

    def reset(self) -> None:
        """Forgets what the leader knows. A session that it still has is named, and so ended."""
        self._epoch = 0
        self._changed.clear()
        self._forgotten.clear()
