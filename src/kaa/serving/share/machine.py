"""One share partition at its leader: which records are available, in whose hands, or done with.

The window reaches from `start_offset` to `end_offset`. Before it everything is done with; after it
nothing was handed out yet. It is never larger than the group's limit of held records, except that
what was handed out before can be handed out again.

    done with   | acknowledged | acquired by m1 | available | archived | not yet read
                ^ start_offset                                         ^ end_offset

When the first records of the window are done with, the start moves over them. What was read from
the share coordinator may have gaps between its batches: offsets that the leader before handed out
and did not write about. They count as never handed out (`gap_start`), until the window has passed
them.

Nothing a member asked for counts before it is written: `acknowledge` and `release` give a
`DeliveryChange` whose batches the driver writes, and `finish` tells how that ended.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.coordinators.share.batches import StateBatch
from kaa.serving.share.in_flight import (
    NO_MEMBER,
    InFlightBatch,
    InFlightState,
    Lock,
    RecordState,
)
from kaa.serving.share.window import Window
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
_OUTCOMES: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


class ShareSettings(NamedTuple):
    """The settings of a share group that its partitions follow. Defaults are those of Kafka."""

    lock_duration_ms: int = 30_000
    delivery_count_max: int = 5
    record_locks_max: int = 2_000
    is_renew_enabled: bool = True


class Acknowledgement(NamedTuple):
    """What a member says of offsets: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class DeliveryChange(NamedTuple):
    """What is to be written, and the states that wait for it."""

    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    states: tuple[InFlightState, ...] = ()


class AcknowledgementError(Exception):
    """An acknowledgement that makes no sense; nothing of its request counts."""

    def __init__(self, error: Errors, message: str) -> None:
        super().__init__(message)
        self.error = error


class _Transitions:
    """The transitions of one request, which are all taken back if one is refused."""

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []
        self.states: list[InFlightState] = []

    def add(self, first: int, last: int, state: InFlightState) -> None:
        self.batches.append(StateBatch(first, last, state.delivery_count, state.state))
        self.states.append(state)


class SharePartition:
    """The state of one share partition. Records are acquired at once (`acquisition`); what a member
    acknowledges counts when `finish` says that it is written.
    """

    def __init__(self, settings: Callable[[], ShareSettings]) -> None:
        self.settings = settings
        self.window = Window()
        self.start_offset = 0
        self.end_offset = 0
        # Records in the window that are done with.
        self.delivery_complete_count = 0
        # The first offset of the window that may be available; None if nothing is.
        self._search_from: int | None = None
        # So far the window is known to be done with, which nothing takes back.
        self._done_to = -1
        # Where a gap may begin, and the end of what was read when the state was loaded.
        self._gap_start = 0
        self._gap_end: int | None = None
        # Deadline, number and lock; those that nobody holds are dropped when they come up.
        self._locks: list[tuple[int, int, Lock]] = []
        self._lock_count = 0

    def load(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """Takes over what was written. ValueError if that makes no sense."""
        self.start_offset = start_offset
        gap_start = None
        previous = start_offset - 1
        for batch in batches:
            if batch.first_offset <= previous or batch.last_offset < batch.first_offset:
                raise ValueError(f"stored batches overlap or are out of order at {batch}")
            if gap_start is None and batch.first_offset > previous + 1:
                gap_start = previous + 1
            previous = batch.last_offset
            state = RecordState(batch.delivery_state)
            self.window.put(
                InFlightBatch(
                    batch.first_offset,
                    batch.last_offset,
                    InFlightState(state, batch.delivery_count, NO_MEMBER),
                )
            )
            if state.is_terminal:
                self.delivery_complete_count += batch.last_offset - batch.first_offset + 1
        if not self.window:
            self.end_offset = start_offset
            return
        self.search_from(start_offset)
        self.end_offset = previous
        if gap_start is not None:
            self._gap_start, self._gap_end = gap_start, self.end_offset
        self.advance()

    # --- offsets

    @property
    def gap_start(self) -> int | None:
        """Where a gap of the loaded state may begin; None once the window has passed them."""
        return self._gap_start if self._gap_end == self.end_offset else None

    def pass_gap(self, offset: int) -> None:
        """Everything before the offset was handed out."""
        if self._gap_end is None:
            return
        if self._gap_end == self.end_offset and offset <= self._gap_end:
            self._gap_start = offset
        else:
            self._gap_end = None

    @property
    def in_flight_count(self) -> int:
        return self.end_offset - self.start_offset + 1 if self.window else 0

    @property
    def can_acquire(self) -> bool:
        """Whether a fetch may find something: something is available, or the window may grow."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_count < self.settings().record_locks_max

    def make_room(self) -> bool:
        """As `can_acquire`, after a full window was moved over records that are done with.

        Archived records of aborted transactions end without a write. Where they fill the window
        nothing else would move it, and Kafka's share partition stands still.
        """
        return self.can_acquire or (self.advance() and self.can_acquire)

    def next_fetch_offset(self) -> int:
        """Where to read: the first offset that can be handed out, or the one after the window."""
        if not self.window or self.start_offset > self.window.last.last_offset:
            self._search_from = None
            return self.end_offset
        if self._search_from is None:
            return self.end_offset + 1
        gap = self.gap_start
        begin = self._search_from if gap is None else self.window.first.first_offset
        for batch in self.window.since(begin):
            if gap is not None:
                if batch.first_offset > gap:
                    return gap
                gap = max(batch.last_offset + 1, gap)
            for first, _, state in batch.states(begin):
                if state.is_free:
                    self._search_from = first
                    return first
        self._search_from = None
        return self.end_offset + 1

    @property
    def available_from(self) -> int:
        """Nothing before this offset can be handed out."""
        return self.end_offset + 1 if self._search_from is None else self._search_from

    def search_from(self, offset: int) -> None:
        """An offset may be available again."""
        before = self._search_from
        self._search_from = offset if before is None else min(before, offset)

    def advance(self) -> bool:
        """Moves the start over records that are done with; True if it moved."""
        if not self._can_advance():
            return False
        done, count = self._last_done()
        if done is None:
            return False
        last = self.window.last.last_offset
        if done == last:
            self.start_offset = self.end_offset = last + 1
            self.window.clear()
            self.delivery_complete_count = 0
            return True
        batch = self.window.floor(done)
        assert batch is not None
        if done == batch.last_offset:
            following = self.window.after(done)
            assert following is not None
            self.start_offset = max(self.start_offset, following.first_offset)
            if self.gap_start is not None:
                self.start_offset = min(self.gap_start, self.start_offset)
            self.window.remove_before(done + 1)
        else:
            self.start_offset = max(self.start_offset, done + 1)
            self.window.remove_before(batch.first_offset)
        self.delivery_complete_count -= count
        return True

    def _can_advance(self) -> bool:
        batch = self.window.floor(self.start_offset) if self.window else None
        if batch is None:
            return False
        state = batch.state_at(self.start_offset)
        return state is not None and not state.is_ongoing and state.state.is_terminal

    def _last_done(self) -> tuple[int | None, int]:
        """The last offset before which all is done with, and how many of the window that are."""
        done, count = None, 0
        begin = min(self._done_to + 1, self.start_offset)
        for batch in self.window:
            if self.gap_start is not None and batch.last_offset >= self.gap_start:
                break
            for first, last, state in batch.states(begin):
                if state.is_ongoing or not state.state.is_terminal:
                    return done, count
                done = self._done_to = last
                count += self._in_window(first, last)
        return done, count

    def _in_window(self, first: int, last: int) -> int:
        """How many of the offsets are not before the start."""
        return max(0, last - max(self.start_offset, first) + 1)

    def log_start_moved(self, log_start_offset: int) -> None:
        """The log has nothing before the offset any more."""
        if log_start_offset <= self.start_offset:
            return
        if not self.window:
            self.start_offset = self.end_offset = log_start_offset
            self.delivery_complete_count = 0
            return
        removed = 0
        for batch in self.window.between(self.window.first.first_offset, log_start_offset - 1):
            for first, last, state in batch.states():
                if state.state.is_terminal:
                    removed += self._in_window(first, min(last, log_start_offset - 1))
        everything = list(self.window)
        if self.archive(
            self.start_offset, log_start_offset - 1, everything, RecordState.AVAILABLE, counts=False
        ):
            self.search_from(log_start_offset)
        self.start_offset = log_start_offset
        self.delivery_complete_count -= removed
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive(
        self,
        first_offset: int,
        last_offset: int,
        batches: Iterable[InFlightBatch],
        state: RecordState,
        *,
        counts: bool,
    ) -> bool:
        """Archives offsets that are in a state; True if there were any."""
        is_any = False
        for batch in batches:
            if batch.first_offset > last_offset:
                break
            if batch.whole is not None and not batch.is_within(first_offset, last_offset):
                if batch.whole.state is not state:
                    continue
                batch.split()
            for first, last, found in batch.states():
                is_inside = batch.whole is not None or first_offset <= first <= last_offset
                if is_inside and found.state is state:
                    found.archive()
                    is_any = True
                    if counts:
                        self.delivery_complete_count += last - first + 1
        return is_any

    # --- acknowledgements

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], now_ms: int
    ) -> DeliveryChange:
        """What a member says of records it holds. AcknowledgementError if one of them is wrong."""
        transitions = _Transitions()
        try:
            for one in acknowledgements:
                if any(kind not in _OUTCOMES and kind != RENEW for kind in one.types):
                    raise AcknowledgementError(
                        Errors.INVALID_REQUEST, "The type of acknowledgement is unknown."
                    )
                if one.last_offset >= self.start_offset:
                    self._acknowledge(member_id, one, transitions, now_ms)
        except AcknowledgementError:
            self._finish(transitions.batches, transitions.states, is_written=False)
            raise
        return self._change(transitions)

    def _acknowledge(
        self, member_id: str, one: Acknowledgement, transitions: _Transitions, now_ms: int
    ) -> None:
        for batch in self._held_batches(one):
            if batch.last_offset < self.start_offset:
                continue
            whole = batch.whole
            if whole is not None:
                if whole.member_id != member_id:
                    raise _not_held()
                if whole.is_ongoing:
                    raise _not_held()
                if whole.state is not RecordState.ACQUIRED:
                    raise _not_held()
                is_cut = batch.first_offset < self.start_offset <= batch.last_offset
                is_whole = batch.is_within(one.first_offset, one.last_offset)
                if not is_whole or len(one.types) > 1 or is_cut:
                    batch.split()
            begin = max(one.first_offset, self.start_offset)
            for first, last, state in batch.states(begin, one.last_offset):
                if (
                    state.state is not RecordState.ACQUIRED
                    or state.is_ongoing
                    or state.member_id != member_id
                ):
                    raise _not_held()
                kind = one.types[first - one.first_offset] if len(one.types) > 1 else one.types[0]
                self._apply(kind, first, last, state, transitions, now_ms)

    def _held_batches(self, one: Acknowledgement) -> list[InFlightBatch]:
        floor = self.window.floor(one.first_offset)
        if floor is None and one.first_offset < self.start_offset <= one.last_offset:
            floor = self.window.floor(self.start_offset)
        if floor is None:
            raise _not_held()
        found = self.window.between(floor.first_offset, one.last_offset)
        if not found or found[-1].last_offset < max(one.first_offset, one.last_offset):
            raise AcknowledgementError(
                Errors.INVALID_REQUEST,
                "The records were not handed out: they lie after the window.",
            )
        return found

    def _apply(
        self,
        kind: int,
        first: int,
        last: int,
        state: InFlightState,
        transitions: _Transitions,
        now_ms: int,
    ) -> None:
        settings = self.settings()
        if kind == RENEW:
            if not settings.is_renew_enabled:
                raise AcknowledgementError(
                    Errors.INVALID_RECORD_STATE,
                    "Locks are not renewed in this group: see share.renew.acknowledge.enable.",
                )
            state.unlock()
            state.hold(self.new_lock(first, last, now_ms + settings.lock_duration_ms))
            return
        if not state.begin(_OUTCOMES[kind], settings.delivery_count_max):
            raise _not_held()
        transitions.add(first, last, state)
        if state.state.is_terminal:
            self.delivery_complete_count += last - first + 1

    def release(self, member_id: str) -> DeliveryChange:
        """Gives back everything that a member holds."""
        transitions = _Transitions()
        count_max = self.settings().delivery_count_max
        try:
            for batch in self.window:
                whole = batch.whole
                if (
                    whole is not None
                    and whole.state is RecordState.ACQUIRED
                    and whole.member_id == member_id
                    and batch.first_offset < self.start_offset <= batch.last_offset
                ):
                    batch.split()
                for first, last, state in batch.states():
                    if state.state is not RecordState.ACQUIRED or state.member_id not in (
                        member_id,
                        NO_MEMBER,
                    ):
                        continue
                    is_gone = last < self.start_offset
                    wanted = RecordState.ARCHIVED if is_gone else RecordState.AVAILABLE
                    if not state.begin(wanted, count_max):
                        raise _not_held()
                    transitions.add(first, last, state)
                    if state.state.is_terminal:
                        self.delivery_complete_count += self._in_window(first, last)
        except AcknowledgementError:
            self._finish(transitions.batches, transitions.states, is_written=False)
            raise
        return self._change(transitions)

    def _change(self, transitions: _Transitions) -> DeliveryChange:
        return DeliveryChange(
            self.start_offset,
            self.delivery_complete_count,
            tuple(transitions.batches),
            tuple(transitions.states),
        )

    def finish(self, change: DeliveryChange, *, is_written: bool) -> bool:
        """A change was written, or was not; True if the start moved."""
        if not change.states:
            # Of locks that ran out, which counted at once.
            return self.advance()
        self._finish(change.batches, change.states, is_written=is_written)
        return is_written and self.advance()

    def _finish(
        self,
        batches: Sequence[StateBatch],
        states: Sequence[InFlightState],
        *,
        is_written: bool,
    ) -> None:
        for batch, state in zip(batches, states, strict=True):
            was_terminal = RecordState(batch.delivery_state).is_terminal
            state.finish(is_written=is_written)
            if state.state is RecordState.AVAILABLE:
                self.search_from(batch.first_offset)
            if not is_written and was_terminal and not state.state.is_terminal:
                self.delivery_complete_count -= self._in_window(
                    batch.first_offset, batch.last_offset
                )

    # --- locks

    def new_lock(self, first_offset: int, last_offset: int, deadline_ms: int) -> Lock:
        lock = Lock(first_offset, last_offset, deadline_ms)
        self._lock_count += 1
        heapq.heappush(self._locks, (deadline_ms, self._lock_count, lock))
        return lock

    @property
    def next_deadline_ms(self) -> int | None:
        while self._locks and not self._locks[0][2].holders:
            heapq.heappop(self._locks)
        return self._locks[0][0] if self._locks else None

    def expire(self, now_ms: int) -> DeliveryChange | None:
        """Makes records available whose locks ran out. The change is written for those who come
        after this leader; it counts here at once.
        """
        found: list[StateBatch] = []
        while (deadline_ms := self.next_deadline_ms) is not None and deadline_ms <= now_ms:
            _, _, lock = heapq.heappop(self._locks)
            lock.has_expired = True
            self._expire(lock, found)
        if not found:
            return None
        return DeliveryChange(self.start_offset, self.delivery_complete_count, tuple(found))

    def _expire(self, lock: Lock, found: list[StateBatch]) -> None:
        floor = self.window.floor(lock.first_offset)
        if floor is None:
            return
        count_max = self.settings().delivery_count_max
        for batch in self.window.between(floor.first_offset, lock.last_offset):
            whole = batch.whole
            is_cut = batch.first_offset < self.start_offset <= batch.last_offset
            if whole is not None and whole.state is RecordState.ACQUIRED and is_cut:
                batch.split()
            for first, last, state in batch.states(lock.first_offset, lock.last_offset):
                if state.lock is not lock or state.state is not RecordState.ACQUIRED:
                    continue
                is_gone = last < self.start_offset
                wanted = RecordState.ARCHIVED if is_gone else RecordState.AVAILABLE
                if not state.change(wanted, count_max):
                    continue
                found.append(StateBatch(first, last, state.delivery_count, state.state))
                state.unlock()
                if state.is_free:
                    self.search_from(first)
                else:
                    self.delivery_complete_count += self._in_window(first, last)


def _not_held() -> AcknowledgementError:
    return AcknowledgementError(
        Errors.INVALID_RECORD_STATE, "The member does not hold the records, or no longer does."
    )
