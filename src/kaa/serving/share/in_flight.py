"""Records that a share group has in hand: their states, and the batches that hold them.

The legal transitions:

| from | to | when |
|---|---|---|
| Available | Acquired | handed to a member, which holds a lock on it for a while |
| Acquired | Available | released, or the lock ran out |
| Acquired | Acknowledged | accepted |
| Acquired | Archived | rejected, a gap, or delivered as often as is allowed |
| any | Archived | the log does not have it any more |

A transition that a member asked for is *ongoing* until its state is written: nothing else may
happen to the record, and a failed write takes it back.

A batch has one state for all its offsets until a part of it is treated differently; from then on
every offset has its own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_MEMBER: Final = ""


class RecordState(IntEnum):
    """The numbers are those of the records of share state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
_NEXT: Final = {
    RecordState.AVAILABLE: (RecordState.ACQUIRED,),
    RecordState.ACQUIRED: (
        RecordState.AVAILABLE,
        RecordState.ACKNOWLEDGED,
        RecordState.ARCHIVED,
    ),
    RecordState.ACKNOWLEDGED: (),
    RecordState.ARCHIVED: (),
}


class Lock:
    """How long a member holds offsets. The states that have it are those of offsets between the
    first and the last, not of all of them; it counts while it is held by any.
    """

    __slots__ = ("deadline_ms", "first_offset", "has_expired", "holders", "last_offset")

    def __init__(self, first_offset: int, last_offset: int, deadline_ms: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.deadline_ms = deadline_ms
        # How many states have it.
        self.holders = 0
        # It ran out, maybe while a transition was ongoing.
        self.has_expired = False


class InFlightState:
    """The state of one offset, or of a whole batch."""

    __slots__ = ("_before", "_is_gone", "delivery_count", "lock", "member_id", "state")

    def __init__(
        self, state: RecordState, delivery_count: int, member_id: str, lock: Lock | None = None
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock: Lock | None = None
        if lock is not None:
            self.hold(lock)
        # State, member, and whether the count is at the limit, before an ongoing transition.
        self._before: tuple[RecordState, str, bool] | None = None
        # The log lost it meanwhile: nothing takes that back.
        self._is_gone = False

    @property
    def is_ongoing(self) -> bool:
        return self._before is not None

    @property
    def is_free(self) -> bool:
        """Whether it can be handed to a member now."""
        return self.state is RecordState.AVAILABLE and self._before is None

    def acquire(self, member_id: str) -> None:
        assert self.is_free
        self.state, self.member_id = RecordState.ACQUIRED, member_id
        self.delivery_count += 1

    def change(self, state: RecordState, count_max: int) -> bool:
        """Gives it back or ends it at once; False if that is not allowed now."""
        if state is RecordState.AVAILABLE and self.delivery_count >= count_max:
            state = RecordState.ARCHIVED
        if self._before is not None or state not in _NEXT[self.state]:
            return False
        self.state, self.member_id = state, NO_MEMBER
        return True

    def begin(self, state: RecordState, count_max: int) -> bool:
        """As `change`, until `finish` says whether it was written."""
        before = (self.state, self.member_id, self.delivery_count >= count_max)
        if not self.change(state, count_max):
            return False
        self._before = before
        return True

    def finish(self, *, is_written: bool) -> None:
        assert self._before is not None
        before, self._before = self._before, None
        if is_written or self._is_gone:
            self.unlock()
            return
        self.state, self.member_id, is_at_limit = before
        if self.lock is not None and self.lock.has_expired:
            self.state = RecordState.ARCHIVED if is_at_limit else RecordState.AVAILABLE
            self.member_id = NO_MEMBER
            self.unlock()

    def archive(self) -> None:
        """The log does not have it any more, or nobody is to see it."""
        self._is_gone = True
        self.state, self.member_id = RecordState.ARCHIVED, NO_MEMBER
        self.unlock()

    def hold(self, lock: Lock) -> None:
        lock.holders += 1
        self.lock = lock

    def unlock(self) -> None:
        if self.lock is not None:
            self.lock.holders -= 1
            self.lock = None


class InFlightBatch:
    """Offsets from first to last; `whole` is their state, or None if each has its own."""

    __slots__ = ("_each", "delivery_count_max", "first_offset", "last_offset", "whole")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: InFlightState | None = state
        # The states of a batch without a whole one, in the order of offsets.
        self._each: list[InFlightState] = []
        # No offset of such a batch was delivered more often.
        self.delivery_count_max = 0

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    def split(self) -> None:
        """Gives every offset a state of its own, with the same lock."""
        whole = self.whole
        if whole is None:
            return
        lock = whole.lock if whole.state is RecordState.ACQUIRED else None
        self._each = [
            InFlightState(whole.state, whole.delivery_count, whole.member_id, lock)
            for _ in range(len(self))
        ]
        whole.unlock()
        self.delivery_count_max = whole.delivery_count
        self.whole = None

    def split_at(self, last_offset: int) -> None:
        """As `split`, for a new batch of which only offsets up to `last_offset` are acquired."""
        whole = self.whole
        assert whole is not None
        self.split()
        for place in range(last_offset + 1 - self.first_offset, len(self)):
            self._each[place].unlock()
            self._each[place] = InFlightState(
                RecordState.AVAILABLE, whole.delivery_count - 1, NO_MEMBER
            )

    def is_within(self, first_offset: int, last_offset: int) -> bool:
        return self.first_offset >= first_offset and self.last_offset <= last_offset

    def states(
        self, first_offset: int | None = None, last_offset: int | None = None
    ) -> Iterator[tuple[int, int, InFlightState]]:
        """First and last offset of each state, in order; of single offsets those between two."""
        if self.whole is not None:
            yield self.first_offset, self.last_offset, self.whole
            return
        base = self.first_offset
        first = base if first_offset is None else max(base, first_offset)
        last = self.last_offset if last_offset is None else min(self.last_offset, last_offset)
        each = self._each
        for offset in range(first, last + 1):
            yield offset, offset, each[offset - base]

    def state_at(self, offset: int) -> InFlightState | None:
        """That of an offset of the batch."""
        if self.whole is not None:
            return self.whole
        is_inside = self.first_offset <= offset <= self.last_offset
        return self._each[offset - self.first_offset] if is_inside else None
