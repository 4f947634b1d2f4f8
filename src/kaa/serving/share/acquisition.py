"""What a fetch of a share group's member gets: which of the records that were read become its own.

Records that were in hand before come first, in the order of offsets; then new ones, up to the limit
of held records. How many depends on the acquire mode (KIP-1206):

- *batch optimised*: whole batches, so that a little more than was asked for may be given;
- *record limit*: never more than was asked for, at the cost of a state for each offset.

Records that were delivered often are handed out in smaller portions: from half of the delivery
limit on, half as many with each further delivery, and the last delivery of a record is alone
(KIP-1222). So one record that makes members fail does not use up the deliveries of its neighbours.

Batches that were aborted are archived as soon as they are acquired, and never shown.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.serving.share.in_flight import InFlightBatch, InFlightState, RecordState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaa.serving.share.in_flight import Lock
    from kaa.serving.share.machine import SharePartition

# A limit below which single deliveries are not worth it.
_ALONE_LIMIT: Final = 2
_THROTTLE_COUNT_MIN: Final = 2


class FetchedBatch(NamedTuple):
    """A record batch that was read; nobody is to see one that was aborted."""

    base_offset: int
    last_offset: int
    is_aborted: bool = False


class Acquired(NamedTuple):
    """Offsets that a member has now, and how often they were delivered with this time."""

    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1


class Fetched(NamedTuple):
    """A read for a member."""

    member_id: str
    fetch_offset: int
    batches: Sequence[FetchedBatch]
    records_max: int
    # New records are put into batches of about that many.
    batch_size: int
    is_record_limit: bool = False


class Acquisition:
    """One read on its way to its member."""

    def __init__(self, partition: SharePartition, fetched: Fetched, now_ms: int) -> None:
        self._partition = partition
        self._fetched = fetched
        settings = partition.settings()
        self._deadline_ms = now_ms + settings.lock_duration_ms
        self._count_max = settings.delivery_count_max
        self._throttle_count = max(_THROTTLE_COUNT_MIN, ceil(self._count_max / 2))
        self._first = fetched.batches[0].base_offset if fetched.batches else 0
        self._last = fetched.batches[-1].last_offset if fetched.batches else -1
        self.acquired: list[Acquired] = []

    @property
    def count(self) -> int:
        return sum(one.record_count for one in self.acquired)

    def run(self) -> list[Acquired]:
        partition, fetched = self._partition, self._fetched
        if fetched.records_max <= 0 or not fetched.batches or self._last < partition.start_offset:
            return []
        room = self._room()
        if room <= 0 or self._first > self._last:
            return []
        self._archive_stale()
        base = self._first
        floor = partition.window.floor(base)
        if floor is None:
            base = max(base, partition.start_offset)
        elif floor.last_offset >= base:
            base = floor.first_offset
        known = partition.window.between(min(self._first, base), self._last)
        if not known:
            self._acquire_new(base, self._last, room)
            return self._without_aborted()
        room = self._acquire_known(known, base, room)
        last = known[-1].last_offset
        if self.count < room and last < self._last:
            self._acquire_new(last + 1, self._last, room - self.count)
        if self.acquired:
            partition.pass_gap(self.acquired[-1].last_offset + 1)
        return self._without_aborted()

    def _room(self) -> int:
        """How many records may be handed out; where the window is full, only known ones."""
        partition, fetched = self._partition, self._fetched
        limit = partition.settings().record_locks_max
        room = min(fetched.records_max, limit - partition.in_flight_count)
        if room <= 0 and fetched.fetch_offset <= partition.end_offset:
            room = min(fetched.records_max, partition.end_offset - fetched.fetch_offset + 1)
            self._last = min(self._last, partition.end_offset)
        return room

    def _archive_stale(self) -> None:
        """The log has nothing between what was asked for and what was read: compaction."""
        partition, offset = self._partition, self._fetched.fetch_offset
        if not partition.window or offset >= self._first:
            return
        floor = partition.window.floor(offset)
        begin = floor.first_offset if floor and floor.last_offset >= offset else offset
        stale = partition.window.between(begin, self._first - 1)
        last = self._first - 1
        if partition.archive(offset, last, stale, RecordState.AVAILABLE, counts=True):
            partition.search_from(offset)

    # --- records that were in hand before

    def _acquire_known(self, known: Iterable[InFlightBatch], base: int, room: int) -> int:
        """Gives how many may be handed out altogether, which ends with records delivered often."""
        gap = base
        for batch in known:
            if self.count >= room:
                break
            if self._partition.gap_start is not None:
                if gap < batch.first_offset:
                    self._acquire_new(gap, batch.first_offset - 1, room - self.count)
                gap = batch.last_offset + 1
                if self.count >= room:
                    break
            is_throttled = self._is_throttled(batch)
            if is_throttled and self.acquired:
                return 0
            remaining = room - self.count
            is_portion = self._fetched.is_record_limit and len(batch) > remaining
            whole = batch.whole
            if whole is not None and not whole.is_free:
                continue
            if (
                whole is None
                or is_portion
                or is_throttled
                or not batch.is_within(self._first, self._last)
            ):
                batch.split()
                if self._acquire_offsets(batch, remaining) and is_throttled:
                    return 0
            else:
                whole.acquire(self._fetched.member_id)
                whole.hold(self._new_lock(batch.first_offset, batch.last_offset))
                self.acquired.append(
                    Acquired(batch.first_offset, batch.last_offset, whole.delivery_count)
                )
        return room

    def _new_lock(self, first: int, last: int) -> Lock:
        return self._partition.new_lock(first, last, self._deadline_ms)

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        """Whether the batch has records that were delivered often."""
        if batch.whole is not None:
            whole = batch.whole
            return whole.is_free and whole.delivery_count >= self._throttle_count
        if batch.delivery_count_max < self._throttle_count:
            return False
        return any(
            state.is_free and state.delivery_count >= self._throttle_count
            for _, _, state in batch.states(self._first, self._last)
        )

    def _acquire_offsets(self, batch: InFlightBatch, records_max: int) -> int:
        taken: list[Acquired] = []
        portion: int | None = None
        lock: Lock | None = None
        begin = max(self._first, self._partition.available_from)
        for offset, _, state in batch.states(begin, self._last):
            if not state.is_free:
                continue
            before = state.delivery_count
            is_alone = self._count_max > _ALONE_LIMIT
            if is_alone and before == self._count_max - 1 and taken:
                break
            if before >= self._throttle_count and portion is None:
                portion = max(1, len(batch) >> (before - self._throttle_count + 1))
            if lock is None:
                lock = self._new_lock(offset, batch.last_offset)
            state.acquire(self._fetched.member_id)
            state.hold(lock)
            batch.delivery_count_max = max(batch.delivery_count_max, state.delivery_count)
            taken.append(Acquired(offset, offset, state.delivery_count))
            if is_alone and state.delivery_count == self._count_max:
                break
            if self._fetched.is_record_limit and len(taken) == records_max:
                break
            if len(taken) == portion:
                break
        self.acquired += _joined(taken)
        return len(taken)

    # --- new records

    def _acquire_new(self, first: int, last: int, records_max: int) -> None:
        partition = self._partition
        if not partition.window:
            first = max(first, partition.end_offset)
        if records_max < last - first + 1:
            bound = last
            last = self._end_of_batch(first + records_max - 1)
            if partition.gap_start is not None:
                last = min(last, bound)
        added = self._add(first, last, records_max)
        if partition.window.first.first_offset == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        if self._fetched.is_record_limit:
            last = added[0].last_offset
        partition.pass_gap(last + 1)
        self.acquired += added

    def _end_of_batch(self, offset: int) -> int:
        """The last offset of the batch that has the offset, or the offset itself."""
        for batch in self._fetched.batches:
            if batch.base_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset

    def _add(self, first: int, last: int, records_max: int) -> list[Acquired]:
        partition, fetched = self._partition, self._fetched
        if fetched.is_record_limit and last - first + 1 > records_max:
            end = first + records_max - 1
            batch = InFlightBatch(first, last, self._new_state(first, end))
            batch.split_at(end)
            partition.search_from(end + 1)
            partition.window.put(batch)
            return [Acquired(first, end, 1)]
        added = []
        if not fetched.is_record_limit and last - first + 1 > fetched.batch_size:
            for one in fetched.batches:
                if one.base_offset > last:
                    break
                if one.base_offset - first >= fetched.batch_size:
                    added.append(Acquired(first, one.base_offset - 1, 1))
                    first = one.base_offset
        added.append(Acquired(first, last, 1))
        for found in added:
            state = self._new_state(found.first_offset, found.last_offset)
            partition.window.put(InFlightBatch(found.first_offset, found.last_offset, state))
        return added

    def _new_state(self, first: int, last: int) -> InFlightState:
        lock = self._new_lock(first, last)
        return InFlightState(RecordState.ACQUIRED, 1, self._fetched.member_id, lock)

    # --- transactions that were aborted

    def _without_aborted(self) -> list[Acquired]:
        partition = self._partition
        for batch in self._fetched.batches:
            if not batch.is_aborted:
                continue
            floor = partition.window.floor(batch.base_offset)
            begin = batch.base_offset if floor is None else floor.first_offset
            partition.archive(
                batch.base_offset,
                batch.last_offset,
                partition.window.between(begin, batch.last_offset),
                RecordState.ACQUIRED,
                counts=True,
            )
            self.acquired = [piece for one in self.acquired for piece in _outside(one, batch)]
        return self.acquired


def _joined(taken: Iterable[Acquired]) -> list[Acquired]:
    """Neighbours with the same delivery count become one."""
    joined: list[Acquired] = []
    for one in taken:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.last_offset + 1 == one.first_offset
            and before.delivery_count == one.delivery_count
        ):
            joined[-1] = before._replace(last_offset=one.last_offset)
        else:
            joined.append(one)
    return joined


def _outside(one: Acquired, batch: FetchedBatch) -> list[Acquired]:
    """What of the offsets is not in the batch."""
    if batch.last_offset < one.first_offset or one.last_offset < batch.base_offset:
        return [one]
    pieces = []
    if one.first_offset < batch.base_offset:
        pieces.append(one._replace(last_offset=batch.base_offset - 1))
    if one.last_offset > batch.last_offset:
        pieces.append(one._replace(first_offset=batch.last_offset + 1))
    return pieces


def reach(partition: SharePartition, first_offset: int, records_max: int) -> int:
    """What a read that begins with this offset needs at most: no record after the one returned
    would be handed out, so that an acquisition is the same with and without it.
    """
    for batch in partition.window.since(first_offset):
        for first, last, state in batch.states(first_offset):
            if state.is_free:
                records_max -= max(0, last - max(first, first_offset) + 1)
        if records_max <= 0:
            # A batch that is not read to its end would be split; before the start nothing counts.
            return max(batch.last_offset, partition.start_offset)
    return max(partition.end_offset, first_offset - 1) + records_max


def acquire(partition: SharePartition, fetched: Fetched, now_ms: int) -> list[Acquired]:
    """Hands records that were read to the member that asked for them."""
    return Acquisition(partition, fetched, now_ms).run()
