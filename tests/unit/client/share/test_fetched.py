from __future__ import annotations

from kaa.client.share.fetched import held
from kaa.wire.messages.k78_share_fetch import AcquiredRecords
from tests.unit.log.batches import batch


def acquired(first: int, last: int, count: int = 1) -> AcquiredRecords:
    return AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)


def test_only_what_is_held_is_given() -> None:
    data = bytes(batch(10))
    found = held(data, [acquired(2, 3, 1), acquired(6, 6, 4)], checks_crcs=False)
    assert [(record.offset, count) for record, count in found.records] == [(2, 1), (3, 1), (6, 4)]
    assert found.gaps == []


def test_offsets_without_a_record_are_gaps() -> None:
    data = bytes(batch(3))
    found = held(data, [acquired(1, 5)], checks_crcs=False)
    assert [record.offset for record, _ in found.records] == [1, 2]
    assert found.gaps == [3, 4, 5]
    assert held(b"", [], checks_crcs=True).records == []
