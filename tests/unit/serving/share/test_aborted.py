"""Batches of aborted transactions, as they lie between others."""

from __future__ import annotations

from kaa.records.batch import iter_batches
from kaa.serving.share.aborted import AbortedFrom, mark_aborted
from tests.unit.log.batches import ABORT, COMMIT, batch, marker


def test_from_the_first_offset_to_the_marker() -> None:
    data = (
        batch(2, base_offset=0, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
        + batch(1, base_offset=2)
        + batch(1, base_offset=3, producer_id=8, producer_epoch=0, sequence=0, transactional=True)
        + marker(ABORT, 7, 0, base_offset=4)
        + batch(1, base_offset=5, producer_id=7, producer_epoch=0, sequence=2, transactional=True)
        + marker(COMMIT, 7, 0, base_offset=6)
    )
    marked = mark_aborted(iter_batches(data), [AbortedFrom(0, 7)])
    assert [one.base_offset for one in marked if one.is_aborted] == [0]
    again = mark_aborted(iter_batches(data), [AbortedFrom(5, 7), AbortedFrom(3, 8)])
    assert [one.base_offset for one in again if one.is_aborted] == [3, 5]
    assert not any(one.is_aborted for one in mark_aborted(iter_batches(data), []))
