"""From the bytes that a share fetch brought to the records that the member holds now.

A broker sends whole batches with everything in them; the member holds the offsets that the answer
lists as acquired. Offsets among these that have no record (compacted away, or of control records)
are said to be gaps, so that the broker need not hand them out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.client.consumer.fetched import FetchedRecords

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.records.batch import Buffer
    from kaa.records.record import Header, Record
    from kaa.wire.messages.k78_share_fetch import AcquiredRecords


class ShareRecord(NamedTuple):
    """A record that this member holds, until it says what became of it or its time is up."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[Header, ...]
    # How often it was handed out, with this time.
    delivery_count: int

    @property
    def timestamp(self) -> int:
        """`timestamp_ms`, as other clients name it."""
        return self.timestamp_ms


class Held(NamedTuple):
    """Records with their delivery counts, and offsets without a record."""

    records: list[tuple[Record, int]]
    gaps: list[int]


def held(data: Buffer, acquired: Iterable[AcquiredRecords], *, checks_crcs: bool) -> Held:
    """The records of an answer that were acquired, and the acquired offsets without a record."""
    counts = {
        offset: one.delivery_count
        for one in acquired
        for offset in range(one.first_offset, one.last_offset + 1)
    }
    if not counts:
        return Held([], [])
    records = []
    fetched = FetchedRecords(data, min(counts), checks_crcs=checks_crcs)
    while counts and (some := fetched.take(len(counts))):
        for record in some:
            count = counts.pop(record.offset, None)
            if count is not None:
                records.append((record, count))
    return Held(records, sorted(counts))
