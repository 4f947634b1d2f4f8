"""The aborted transactions of what is read from the store, and where undecided ones begin.

A transaction is listed in the index of the segment that holds its marker, which may be far after
its records. So the indexes are read from the first segment of a range forward, over segments that
are marked as having none, until an entry says that everything before the end of the range was
decided. Where the tier ends before that, one fetch of committed data at the first offset that is
not tiered tells the rest: a fetch names every aborted transaction whose marker lies at or after
its offset and that began before the end of its data, also long before it.

If there is nothing committed at that offset, the fetch is empty and names none, yet a marker may
lie there, since the last stable offset stands before a transaction that is still open. Then the
record before is asked for, which the broker reads from its own tier.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kaa.limits import SPARK_TIER_INDEXES_IN_FLIGHT_MAX
from kaa.log.errors import CorruptFileError
from kaa.log.producer_snapshots import decode_producer_snapshot
from kaa.spark.errors import SparkSourceError
from kaa.tier.reading.indexes import aborted_in
from kaa.tier.store.layout import Part
from kaa.tier.store.segments import DamagedObjectError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.model.topics import TopicPartition
    from kaa.spark.brokers import Brokers
    from kaa.spark.tier.plan import Piece
    from kaa.tier.metadata.model import SegmentMetadata
    from kaa.tier.store.segments import RemoteSegments


class Aborted(NamedTuple):
    """A transaction that was aborted, from its first record to its marker, or to somewhere between
    the end of the tier and that.
    """

    producer_id: int
    first: int
    last: int


async def aborted_in_tier(
    segments: RemoteSegments, run: Sequence[Piece], start: int, end: int
) -> tuple[list[Aborted], bool]:
    """Those of the offsets `start` up to `end`, by the indexes of a run of pieces that begins at or
    before `start`, and whether there can be no more. StoreError.
    """
    found: list[Aborted] = []
    indexed: list[SegmentMetadata] = []
    for piece in run:
        is_new = not indexed or indexed[-1] is not piece.segment
        if piece.end > start and is_new and not piece.segment.is_txn_index_empty:
            indexed.append(piece.segment)
    step = SPARK_TIER_INDEXES_IN_FLIGHT_MAX
    for first in range(0, len(indexed), step):
        indexes = await asyncio.gather(
            *(segments.read_part(one, Part.TXN_INDEX) for one in indexed[first : first + step])
        )
        for index in indexes:
            entries, is_complete = aborted_in(index, start, end)
            found += [
                Aborted(one.producer_id, one.first_offset, one.last_offset) for one in entries
            ]
            if is_complete:
                return found, True
    return found, False


async def aborted_after_tier(
    brokers: Brokers, partition: TopicPartition, offset: int
) -> list[Aborted]:
    """Those whose marker lies at `offset`, the first that is not tiered, or after it."""
    fetched = await brokers.fetch_batches(partition, offset, 1)
    if fetched.next_offset <= offset:
        fetched = await brokers.fetch_batches(partition, offset - 1, 1)
        if fetched.next_offset < offset:
            raise SparkSourceError(
                f"no record of {partition} at offset {offset - 1} came, which says which "
                "transactions before it were aborted"
            )
    return [Aborted(producer, first, offset) for first, producer in fetched.aborted or ()]


def merged(*found: Sequence[Aborted]) -> tuple[Aborted, ...]:
    """Each transaction once, as the first who names it."""
    by_start: dict[tuple[int, int], Aborted] = {}
    for some in found:
        for one in some:
            by_start.setdefault((one.producer_id, one.first), one)
    return tuple(sorted(by_start.values(), key=lambda one: one.last))


async def first_undecided(segments: RemoteSegments, last: SegmentMetadata) -> int | None:
    """Where the first transaction begins that is open at the end of a segment. StoreError."""
    data = await segments.read_part(last, Part.PRODUCER_SNAPSHOT) or b""
    try:
        producers = decode_producer_snapshot(f"producers of {last.segment_id}", data)
    except CorruptFileError as error:
        raise DamagedObjectError(str(error)) from error
    open_ = (one.transaction_first_offset for one in producers)
    return min((first for first in open_ if first >= 0), default=None)
