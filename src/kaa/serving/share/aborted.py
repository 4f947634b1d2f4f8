"""Which of the batches that were read nobody is to see: those of transactions that were aborted.

A fetch tells the aborted transactions that its offsets may have records of, each with its producer
and its first offset. A producer's transactional batches are aborted from that offset on until its
abort marker comes; markers themselves are passed over by clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.records.control import ControlRecordType, read_end_transaction_marker
from kaa.serving.share.acquisition import FetchedBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.records.batch import RecordBatch


class AbortedFrom(NamedTuple):
    """Offsets come first: that is the order in which transactions are met."""

    first_offset: int
    producer_id: int


def mark_aborted(
    batches: Iterable[RecordBatch], transactions: Iterable[AbortedFrom]
) -> list[FetchedBatch]:
    """The batches with a mark on those that were aborted."""
    coming = sorted(transactions, reverse=True)
    producers: set[int] = set()
    marked = []
    for batch in batches:
        is_aborted = False
        if batch.producer_id >= 0:
            while coming and coming[-1].first_offset <= batch.last_offset:
                producers.add(coming.pop().producer_id)
            if batch.is_control:
                marker = read_end_transaction_marker(batch)
                if marker is not None and marker.control_type is ControlRecordType.ABORT:
                    producers.discard(batch.producer_id)
            else:
                is_aborted = batch.is_transactional and batch.producer_id in producers
        marked.append(FetchedBatch(batch.base_offset, batch.last_offset, is_aborted))
    return marked
