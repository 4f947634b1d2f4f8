"""Feeding stored batches to the producer state: after a restart, after a truncation, in recovery.

The state is never kept durable as such. A snapshot holds it at some offset, and the batches after
that offset bring it up to date, through the same methods as when they were first appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import SCAN_WINDOW_BYTES
from kaa.log.scan import iter_headers
from kaa.log.transaction_index import AbortedTransaction
from kaa.model.kinds import AppendOrigin
from kaa.records.control import read_end_transaction_marker
from kaa.records.legacy import LegacyBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.producer_snapshots import ProducerSnapshots
    from kaa.log.producer_state import CompletedTransaction, ProducerState
    from kaa.log.scan import AnyStoredBatch
    from kaa.log.segment import Segment
    from kaa.log.segments import Segments
    from kaa.records.batch import RecordBatch


def note_completed_transaction(
    state: ProducerState, segment: Segment, completed: CompletedTransaction
) -> None:
    """Ends a transaction whose marker is in the segment; an aborted one goes into its index."""
    if completed.is_aborted:
        last_stable_offset = state.last_stable_offset_after(completed)
        producer_id, first_offset, last_offset, _ = completed
        segment.transaction_index.append(
            AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
        )
    state.complete(completed)


def replay_batch(
    state: ProducerState, segment: Segment, batch: AnyStoredBatch
) -> CompletedTransaction | None:
    """Brings the state past one stored batch; returns the transaction that it ends."""
    completed = None
    if not isinstance(batch, LegacyBatch) and batch.producer_id >= 0:
        append = state.prepare(batch.producer_id, AppendOrigin.REPLICATION)
        if not batch.is_control:
            append.append_data(batch)
            state.update(append)
        else:
            whole: RecordBatch = batch
            if batch.end > len(batch.buffer):
                whole = batch.load(segment.file)
            marker = read_end_transaction_marker(whole)
            if marker is not None:
                completed = append.append_marker(marker, batch, 0)
                state.update(append)
    state.end_offset = batch.next_offset
    return completed


def load_newest_snapshot(
    state: ProducerState,
    snapshots: ProducerSnapshots,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Starts the state from the newest snapshot not above `end_offset`, else from nothing."""
    for offset in [offset for offset in snapshots.offsets if offset > end_offset]:
        snapshots.delete(offset)
    for offset in [offset for offset in snapshots.offsets if offset <= log_start_offset]:
        snapshots.delete(offset)
    newest = snapshots.read_latest()
    if newest is None:
        state.clear(log_start_offset)
    else:
        state.load(newest[1], newest[0], now_ms)


def replay_segments(
    state: ProducerState, segments: Segments, log_start_offset: int, end_offset: int
) -> Iterator[int]:
    """Brings the state from its own end offset to `end_offset`; yields after each window."""
    for segment in segments.between(state.end_offset, end_offset):
        state.end_offset = max(segment.base_offset, state.end_offset, log_start_offset)
        with segment.held():
            yield from _replay_segment(state, segment, end_offset)
    state.end_offset = end_offset


def _replay_segment(state: ProducerState, segment: Segment, end_offset: int) -> Iterator[int]:
    extent = segment.locate(state.end_offset)
    if extent is None:
        return
    next_yield = extent.position + SCAN_WINDOW_BYTES
    for batch in iter_headers(segment.file, extent.position, segment.size, SCAN_WINDOW_BYTES):
        if batch.base_offset >= end_offset:
            return
        completed = replay_batch(state, segment, batch)
        if completed is not None:
            state.complete(completed)
        if batch.file_position >= next_yield:
            next_yield = batch.file_position + SCAN_WINDOW_BYTES
            yield state.end_offset
