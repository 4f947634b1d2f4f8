"""Records that a share group has in hand: their states, and the batches that hold them.

The legal transitions:

    Available ---> Acquired       handed to a member, which holds a lock on it for a while
    Acquired ----> Available      released, or the lock ran out
    Acquired ----> Acknowledged   accepted
    Acquired ----> Archived       rejected, a gap, or delivered as often as is allowed
    any ---------> Archived       the log does not have it any more

A transition that a member asked for is *ongoing* until its state is written: nothing else may
happen to the record, and a failed write takes it back.

A batch has one state for all its offsets until a part of it is treated differently; from then on
every offset has its own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    """How long a member holds offsets."""

    __slots__ = ("deadline_ms", "first_offset", "has_expired", "is_cancelled", "last_offset")

    def __init__(self, first_offset: int, last_offset: int, deadline_ms: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.deadline_ms = deadline_ms
        self.is_cancelled = False
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
        self.lock = lock
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

    def unlock(self) -> None:
        if self.lock is not None:
            self.lock.is_cancelled = True
            self.lock = None


class InFlightBatch:
    """Offsets from first to last; `whole` is their state, or None if each has its own."""

    __slots__ = ("first_offset", "last_offset", "offsets", "whole")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: InFlightState | None = state
        # In the order of offsets.
        self.offsets: dict[int, InFlightState] = {}

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    def split(self, new_lock: Callable[[int, int, int], Lock]) -> None:
        """Gives every offset a state of its own, with the same lock."""
        whole = self.whole
        if whole is None:
            return
        for offset in range(self.first_offset, self.last_offset + 1):
            lock = None
            if whole.lock is not None and whole.state is RecordState.ACQUIRED:
                lock = new_lock(offset, offset, whole.lock.deadline_ms)
            self.offsets[offset] = InFlightState(
                whole.state, whole.delivery_count, whole.member_id, lock
            )
        whole.unlock()
        self.whole = None

    def split_at(
        self, last_offset: int, deadline_ms: int, new_lock: Callable[[int, int, int], Lock]
    ) -> None:
        """As `split`, for a new batch of which only offsets up to `last_offset` are acquired."""
        whole = self.whole
        assert whole is not None
        for offset in range(self.first_offset, self.last_offset + 1):
            self.offsets[offset] = (
                InFlightState(
                    whole.state,
                    whole.delivery_count,
                    whole.member_id,
                    new_lock(offset, offset, deadline_ms),
                )
                if offset <= last_offset
                else InFlightState(RecordState.AVAILABLE, whole.delivery_count - 1, NO_MEMBER)
            )
        self.whole = None

    def is_within(self, first_offset: int, last_offset: int) -> bool:
        return self.first_offset >= first_offset and self.last_offset <= last_offset

    def states(self) -> Iterator[tuple[int, int, InFlightState]]:
        """First and last offset of each state, in order."""
        if self.whole is not None:
            yield self.first_offset, self.last_offset, self.whole
        else:
            for offset, state in self.offsets.items():
                yield offset, offset, state
