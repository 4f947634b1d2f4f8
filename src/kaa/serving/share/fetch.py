"""One fetch of a member of a share group: reads what can be handed out, and hands it out.

First everything is read that could be acquired; only if that is enough for an answer, or if time is
up, records change hands. So a fetch that waits holds nothing. It hears of progress from the share
partitions it waits for: records were appended, came back, or the state was loaded. Those who wait
longest look first.

A session may have ten thousand partitions. They are looked at some at a time, with turns for others
in between; the first that have something give the answer, and the others are not even looked for.

The partitions of a session take turns in being first, and share the bytes of an answer evenly. The
answer has the batches with records that were acquired, whole; what else is in them the client
passes over.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import (
    SHARE_READ_BYTES_MAX,
    SHARE_READ_GROWTH_FACTOR,
    SHARE_READ_PIECE_BYTES,
)
from kaa.log.errors import LogError
from kaa.records.batch import iter_batches
from kaa.records.errors import CorruptRecordsError
from kaa.serving.share.aborted import AbortedFrom, mark_aborted
from kaa.serving.share.acquisition import Fetched, acquire, reach
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from kaa.log.log import ReadResult
    from kaa.log.segment import SegmentRegion
    from kaa.records.batch import RecordBatch
    from kaa.serving.delayed import LongPolls
    from kaa.serving.share.acquisition import Acquired
    from kaa.serving.share.led import LedSharePartition
    from kaa.serving.share.sessions import ShareSession
    from kaa.serving.view import NodeView
    from kaa.wire.primitives import PartitionId


class ShareRead(NamedTuple):
    """What a member gets of one partition."""

    error: Errors = Errors.NONE
    records: memoryview | bytes = b""
    acquired: Sequence[Acquired] = ()


class FetchLimits(NamedTuple):
    """What a member asks for."""

    bytes_min: int
    bytes_max: int
    records_max: int
    # New records are put into batches of about that many.
    batch_size: int
    is_record_limit: bool


class _Readable(NamedTuple):
    one: PartitionId
    led: LedSharePartition
    offset: int
    result: ReadResult


class ShareFetch:
    """One ShareFetch while it is answered. `look` is called at first, after every progress, and
    when time is up; it acquires records only for the answer that leaves.
    """

    def __init__(
        self,
        view: NodeView,
        session: ShareSession,
        partitions: Mapping[PartitionId, LedSharePartition | Errors],
        limits: FetchLimits,
        turn: int,
    ) -> None:
        """`turn` counts the requests of the session, of which these may be a part."""
        self._view = view
        self._session = session
        keys = list(partitions)
        first = turn % len(keys) if keys else 0
        self._partitions = {key: partitions[key] for key in keys[first:] + keys[:first]}
        self._limits = limits
        # Partitions that could have given something at the last look.
        self._reached: dict[PartitionId, None] = {}

    @property
    def sources(self) -> list[LedSharePartition]:
        """Who tells of progress."""
        return [led for led in self._partitions.values() if not isinstance(led, Errors)]

    def look(self, is_late: bool) -> dict[PartitionId, ShareRead] | None:
        """The answer, if there is enough for one, or if it cannot wait any longer."""
        if self._session.is_closed:
            # Nobody is there any more who could get something.
            return {}
        self._reached.clear()
        found, readable = self._read()
        size = sum(0 if one.result.region is None else len(one.result.region) for one in readable)
        is_enough = is_late or found or size >= max(1, self._limits.bytes_min)
        if not is_enough:
            _release(readable)
            return None
        count = 0
        for one in readable:
            read = self._acquire(one, self._limits.records_max - count)
            count += sum(acquired.record_count for acquired in read.acquired)
            if read.acquired or read.error is not Errors.NONE:
                found[one.one] = read
        if not found and not is_late:
            # All that was read is of no use to anybody, as aborted data is: on to what follows.
            for one in readable:
                if one.led.next_offset() not in {None, one.offset}:
                    one.led.wake()
            return None
        return {one: found.get(one) or ShareRead() for one in (*self._reached, *found)}

    def _read(self) -> tuple[dict[PartitionId, ShareRead], list[_Readable]]:
        found: dict[PartitionId, ShareRead] = {}
        due = []
        for one, led in self._partitions.items():
            error = led if isinstance(led, Errors) else led.error
            if error is not None:
                found[one] = ShareRead(error)
                continue
            assert not isinstance(led, Errors)
            offset = led.next_offset()
            if offset is None:
                continue
            self._reached[one] = None
            log = led.partition.online_log()
            if offset < log.end_offset(led.settings().isolation) and self._limits.records_max > 0:
                due.append((one, led, offset))
        room = min(self._limits.bytes_max, self._view.config.get_int("fetch.max.bytes"))
        each = min(room // max(1, len(due)), SHARE_READ_BYTES_MAX)
        readable: list[_Readable] = []
        for one, led, offset in due:
            isolation = led.settings().isolation
            try:
                result = led.partition.read(offset, each, isolation, min_one=not readable)
            except LogError as failure:
                found[one] = ShareRead(failure.error)
                continue
            if result.region is not None:
                readable.append(_Readable(one, led, offset, result))
        return found, readable

    def _acquire(self, read: _Readable, records_max: int) -> ShareRead:
        region = read.result.region
        assert region is not None
        if records_max <= 0:
            region.release()
            return ShareRead()
        try:
            batches = _needed(region, read, records_max)
        except LogError as failure:
            return ShareRead(failure.error)
        except CorruptRecordsError:
            return ShareRead(Errors.CORRUPT_MESSAGE)
        finally:
            region.release()
        aborted = [
            AbortedFrom(one.first_offset, one.producer_id) for one in read.result.aborted or ()
        ]
        limits = self._limits
        fetched = Fetched(
            self._session.member_id,
            read.offset,
            mark_aborted(batches, aborted),
            records_max,
            limits.batch_size,
            limits.is_record_limit,
        )
        acquired = acquire(read.led.machine, fetched, self._view.clock.monotonic_ms())
        if not acquired:
            return ShareRead()
        read.led.keep_deadline()
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        wanted = [one for one in batches if one.last_offset >= first and one.base_offset <= last]
        if not wanted:
            return ShareRead(acquired=acquired)
        view = memoryview(wanted[0].buffer)[wanted[0].position : wanted[-1].end]
        return ShareRead(records=view, acquired=acquired)


async def fetch_some(
    polls: LongPolls, parts: AsyncGenerator[ShareFetch, None], wait_ms: int
) -> dict[PartitionId, ShareRead]:
    """What the first of many parts of a session gives that has something, within a time. Parts are
    made when it is their turn.
    """
    made: list[ShareFetch] = []
    try:
        async with aclosing(parts):
            async for part in parts:
                made.append(part)
                reads = part.look(is_late=False) if wait_ms > 0 else None
                if reads is not None:
                    return reads
                await asyncio.sleep(0)
        reads = None
        if made and wait_ms > 0:
            reads = await _FirstAnswer().wait(polls, made, wait_ms)
        return reads or await _late(made)
    finally:
        # To forget thousands of share partitions that could not be loaded takes its time too.
        while made:
            made.pop()
            await asyncio.sleep(0)


async def _late(parts: Sequence[ShareFetch]) -> dict[PartitionId, ShareRead]:
    late: dict[PartitionId, ShareRead] = {}
    for part in parts:
        reads = part.look(is_late=True) or {}
        late |= reads
        if any(read.acquired or read.error is not Errors.NONE for read in reads.values()):
            break
        await asyncio.sleep(0)
    return late


class _FirstAnswer:
    """Waits for many parts until one has something. Each part takes up to the limits of the whole
    answer, so that no other looks after the one that has it.
    """

    def __init__(self) -> None:
        self._is_given = False

    async def wait(
        self, polls: LongPolls, parts: Sequence[ShareFetch], wait_ms: int
    ) -> dict[PartitionId, ShareRead] | None:
        """What it has; nothing when time is up."""
        waits: list[asyncio.Future[dict[PartitionId, ShareRead]]] = []
        try:
            for part in parts:
                await asyncio.sleep(0)
                # What came since the last look wakes nobody.
                reads = self._look(part, is_late=False)
                if reads is not None:
                    return reads
                waits.append(polls.wait(part.sources, wait_ms, partial(self._look, part)))
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return next((reads for wait in done if (reads := wait.result())), None)
        finally:
            for wait in waits:
                wait.cancel()

    def _look(self, part: ShareFetch, is_late: bool) -> dict[PartitionId, ShareRead] | None:
        if is_late:
            return {}
        if self._is_given:
            return None
        reads = part.look(is_late=False)
        self._is_given = reads is not None
        return reads


def _needed(region: SegmentRegion, read: _Readable, records_max: int) -> list[RecordBatch]:
    """The batches that so many records can come from, in one buffer."""
    length, last = SHARE_READ_PIECE_BYTES, None
    while True:
        batches: list[RecordBatch] = []
        for batch in iter_batches(region.read(length)):
            batches.append(batch)
            if last is None:
                first = max(read.offset, batch.base_offset)
                last = reach(read.led.machine, first, records_max)
            if batch.last_offset >= last:
                return batches
        if length >= len(region):
            return batches
        length *= SHARE_READ_GROWTH_FACTOR


def _release(readable: list[_Readable]) -> None:
    for one in readable:
        if one.result.region is not None:
            one.result.region.release()
