"""The batches of a task, read from the store.

A piece of a segment is read in gets of some megabytes, of which a few are under way while the last
one is decoded. Where a piece is only a part of its segment, the offset index says which bytes hold
it; the batch at either end may hold offsets of the neighbour too, which are clipped by offset, so
that every record is in one task. A batch that lies across two gets is put together by itself, so
that the rest is never copied.

A get that fails for now is tried again a few times. An object that is gone was deleted since the
query was planned: its segment expired, or another took its place. Then the rest of the task is
planned again, once; what is still not to be had is left to the brokers, or with `tier=only` to
`failOnDataLoss`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kaa.limits import (
    SPARK_TIER_GET_ATTEMPTS_MAX,
    SPARK_TIER_GET_BYTES,
    SPARK_TIER_GET_PAUSE_SECONDS,
    SPARK_TIER_GET_SECONDS_MAX,
    SPARK_TIER_GETS_IN_FLIGHT_MAX,
)
from kaa.records.batch import (
    BASE_TIMESTAMP_POSITION,
    LAST_OFFSET_DELTA_POSITION,
    LOG_OVERHEAD,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
)
from kaa.spark.errors import SparkSourceError
from kaa.spark.local_segments import Chunk
from kaa.spark.tier.planning import planner_of
from kaa.tier.reading.indexes import bytes_of_offsets
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import ObjectMissingError, StoreError, StoreRefusesError
from kaa.tier.store.segments import DamagedObjectError

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from kaa.spark.brokers import Brokers, Loop
    from kaa.spark.options import SourceOptions
    from kaa.spark.range_reader import Task
    from kaa.spark.tier.aborted import Aborted
    from kaa.spark.tier.plan import Piece
    from kaa.tier.store.segments import RemoteSegments

Answer = TypeVar("Answer")
_INT: Final = Struct(">i")


def remote_batches(brokers: Brokers, options: SourceOptions, task: Task) -> Iterator[Chunk]:
    """As much of a task as the store has, in order."""
    pieces: Sequence[Piece] = task.pieces
    aborted: Sequence[Aborted] = task.aborted
    position = task.range.start
    planner = planner_of(options)
    is_planned_again = False
    while pieces:
        try:
            for chunk in Scan(brokers, planner.segments, pieces, aborted).chunks():
                position = max(position, chunk.next_offset)
                yield chunk
        except ObjectMissingError:
            if is_planned_again or task.topic_id is None:
                return
        except StoreError as error:
            raise SparkSourceError(
                f"{task.range.partition} cannot be read from the store at offset {position}: "
                f"{error}"
            ) from error
        else:
            return
        is_planned_again = True
        left = task.range._replace(start=position)
        (again,) = planner.plan([left], {left.partition.topic: task.topic_id})
        aborted = again.aborted
        # What begins later comes after what brokers have before it, and so from them too.
        pieces = again.pieces if again.pieces and again.pieces[0].start == position else ()


class _Get(NamedTuple):
    """Bytes of a log, and whether they are the last of their piece."""

    piece: Piece
    start: int
    end: int
    is_last: bool


class Scan:
    """Reads pieces one after the other."""

    def __init__(
        self,
        loop: Loop,
        segments: RemoteSegments,
        pieces: Sequence[Piece],
        aborted: Sequence[Aborted],
    ) -> None:
        self._loop = loop
        self._segments = segments
        self._pieces = pieces
        self._aborted = aborted
        # After the last batch that was given out.
        self._position = pieces[0].start

    def chunks(self) -> Iterator[Chunk]:
        """Whole batches, up to the end of the last piece. StoreError."""
        carry = b""
        is_over = False
        for get, data in self._received():
            view = memoryview(data)
            if carry and not is_over:
                view, carry, joined = _join(carry, view)
                if joined is not None:
                    found = _batches(joined, get.piece.end)
                    is_over = found.is_end
                    yield from self._given(get.piece, joined, found)
            if not carry and not is_over:
                found = _batches(view, get.piece.end)
                is_over = found.is_end
                yield from self._given(get.piece, view, found)
                carry = b"" if is_over else bytes(view[found.size :])
            if get.is_last:
                if carry:
                    raise DamagedObjectError(
                        f"{object_name(get.piece.segment, Part.LOG)} ends within a batch"
                    )
                is_over = False
                self._position = get.piece.end
                yield Chunk(memoryview(b""), [], self._position)

    def _given(self, piece: Piece, view: memoryview, found: _Batches) -> Iterator[Chunk]:
        if found.size:
            # A transaction that ended before must not hide what its producer wrote later.
            hidden = [
                (one.producer_id, one.first) for one in self._aborted if one.last >= self._position
            ]
            self._position = min(max(self._position, found.next_offset), piece.end)
            yield Chunk(view[: found.size], hidden, self._position)

    # --- gets

    def _received(self) -> Iterator[tuple[_Get, bytes]]:
        """What was asked for, in order, while what follows is under way."""
        pending: deque[tuple[_Get, concurrent.futures.Future[bytes]]] = deque()
        try:
            for get in self._gets():
                pending.append((get, self._loop.submit(self._log(get))))
                if len(pending) >= SPARK_TIER_GETS_IN_FLIGHT_MAX:
                    first, future = pending.popleft()
                    yield first, future.result()
            while pending:
                first, future = pending.popleft()
                yield first, future.result()
        finally:
            for _, future in pending:
                future.cancel()

    def _gets(self) -> Iterator[_Get]:
        for piece in self._pieces:
            start, end = 0, piece.segment.size_bytes
            if not piece.is_whole:
                index = self._loop.call(self._index(piece))
                base = piece.segment.start_offset
                start, end = bytes_of_offsets(index, base, piece.start, piece.end, end)
            for place in range(start, max(end, start + 1), SPARK_TIER_GET_BYTES):
                after = min(place + SPARK_TIER_GET_BYTES, end)
                yield _Get(piece, place, after, after >= end)

    async def _log(self, get: _Get) -> bytes:
        return await _persistent(
            lambda: self._segments.read_log(get.piece.segment, get.start, get.end)
        )

    async def _index(self, piece: Piece) -> bytes:
        found = await _persistent(
            lambda: self._segments.read_part(piece.segment, Part.OFFSET_INDEX)
        )
        return found or b""


async def _persistent(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Asks a store, and again if it fails for now."""
    attempt = 0
    while True:
        attempt += 1
        try:
            async with asyncio.timeout(SPARK_TIER_GET_SECONDS_MAX):
                return await ask()
        except (ObjectMissingError, StoreRefusesError):
            raise
        except TimeoutError:
            if attempt >= SPARK_TIER_GET_ATTEMPTS_MAX:
                raise StoreError(
                    f"no answer within {SPARK_TIER_GET_SECONDS_MAX:g} seconds"
                ) from None
        except StoreError:
            if attempt >= SPARK_TIER_GET_ATTEMPTS_MAX:
                raise
        await asyncio.sleep(SPARK_TIER_GET_PAUSE_SECONDS * attempt)


class _Batches(NamedTuple):
    """Whole batches at the beginning of some bytes."""

    size: int
    next_offset: int
    # Whether what follows lies after the piece.
    is_end: bool


def _size_of(data: bytes | memoryview, place: int = 0) -> int:
    size = LOG_OVERHEAD_BYTES + int(LOG_OVERHEAD.unpack_from(data, place)[1])
    if size < BASE_TIMESTAMP_POSITION:
        raise DamagedObjectError(f"the {size} bytes that follow are not a batch")
    return size


def _batches(view: memoryview, end: int) -> _Batches:
    place = next_offset = 0
    while len(view) - place >= BASE_TIMESTAMP_POSITION:
        base_offset = LOG_OVERHEAD.unpack_from(view, place)[0]
        if base_offset >= end:
            return _Batches(place, next_offset, is_end=True)
        size = _size_of(view, place)
        if place + size > len(view):
            break
        next_offset = base_offset + 1
        if view[place + MAGIC_POSITION] >= MAGIC_V2:
            next_offset += _INT.unpack_from(view, place + LAST_OFFSET_DELTA_POSITION)[0]
        place += size
    return _Batches(place, next_offset, is_end=False)


def _join(carry: bytes, view: memoryview) -> tuple[memoryview, bytes, memoryview | None]:
    """The batch whose beginning is `carry`: what is left of the view, what is still to be carried
    on, and the batch if it is whole now.
    """
    if len(carry) < LOG_OVERHEAD_BYTES:
        taken = LOG_OVERHEAD_BYTES - len(carry)
        carry += bytes(view[:taken])
        view = view[taken:]
        if len(carry) < LOG_OVERHEAD_BYTES:
            return view, carry, None
    taken = _size_of(carry) - len(carry)
    carry += bytes(view[:taken])
    view = view[taken:]
    if len(carry) < _size_of(carry):
        return view, carry, None
    return view, b"", memoryview(carry)
