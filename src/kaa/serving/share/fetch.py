"""One fetch of a member of a share group: reads what can be handed out, and hands it out.

First everything is read that could be acquired; only if that is enough for an answer, or if time is
up, records change hands. So a fetch that waits holds nothing. It hears of progress from the share
partitions it waits for: records were appended, came back, or the state was loaded. Those who wait
longest look first.

A session may have ten thousand partitions. They are looked at some at a time, with turns for others
in between; the first that have something give the answer, and when time is up those that follow
add what there is.

The partitions of a session take turns in being first, and share the bytes of an answer evenly. The
answer has the batches with records that were acquired, whole; what else is in them the client
passes over.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import SHARE_READ_BYTES_MAX
from kaa.log.errors import LogError
from kaa.records.batch import iter_batches
from kaa.records.errors import CorruptRecordsError
from kaa.serving.share.aborted import AbortedFrom, mark_aborted
from kaa.serving.share.acquisition import Fetched, acquire
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.log.log import ReadResult
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
                if _fetch_offset(one.led) not in {None, one.offset}:
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
            offset = _fetch_offset(led)
            if offset is None:
                continue
            self._reached[one] = None
            log = led.partition.leader_log()
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
        try:
            data = region.read()
        except LogError as failure:
            return ShareRead(failure.error)
        finally:
            region.release()
        try:
            batches = list(iter_batches(data))
        except CorruptRecordsError:
            return ShareRead(Errors.CORRUPT_MESSAGE)
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
        view = memoryview(data)[wanted[0].position : wanted[-1].end]
        return ShareRead(records=view, acquired=acquired)


async def fetch_some(
    polls: LongPolls, parts: Sequence[ShareFetch], wait_ms: int
) -> dict[PartitionId, ShareRead]:
    """What the first of many parts of a session give that have something, within a time."""
    if wait_ms > 0:
        for part in parts:
            reads = part.look(is_late=False)
            if reads is not None:
                return reads
            await asyncio.sleep(0)
        waits = [await _begun(polls, part, wait_ms) for part in parts]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        found = {one: read for wait in done for one, read in wait.result().items()}
        if found:
            return found
    late: dict[PartitionId, ShareRead] = {}
    for part in parts:
        reads = part.look(is_late=True) or {}
        late |= reads
        if any(read.acquired or read.error is not Errors.NONE for read in reads.values()):
            break
        await asyncio.sleep(0)
    return late


async def _begun(
    polls: LongPolls, part: ShareFetch, wait_ms: int
) -> asyncio.Future[dict[PartitionId, ShareRead]]:
    """A wait of one part; when time is up it gives nothing."""
    await asyncio.sleep(0)
    return polls.wait(
        part.sources, wait_ms, lambda is_late: {} if is_late else part.look(is_late=False)
    )


def _fetch_offset(led: LedSharePartition) -> int | None:
    """Where to read; None if nothing can be handed out."""
    log = led.partition.log
    if not led.is_loaded or log is None:
        return None
    machine = led.machine
    machine.log_start_moved(log.log_start_offset)
    if not machine.make_room():
        return None
    return machine.next_fetch_offset()


def _release(readable: list[_Readable]) -> None:
    for one in readable:
        if one.result.region is not None:
            one.result.region.release()
