from __future__ import annotations

from struct import pack

import pytest

from kaa.tier.reading.indexes import aborted_in, aborted_transactions, offset_of_time, position_of
from kaa.tier.store.segments import DamagedObjectError

OFFSETS = b"".join(pack(">ii", *entry) for entry in [(4, 0), (9, 100), (19, 250)])
TIMES = b"".join(pack(">qi", *entry) for entry in [(1_000, 4), (1_050, 9), (1_100, 19)])
ABORTS = b"".join(pack(">hqqqq", 0, *entry) for entry in [(1, 102, 109, 105), (2, 105, 112, 120)])


@pytest.mark.parametrize("padding", [b"", bytes(8 * 5)])
def test_positions(padding: bytes) -> None:
    asked = [100, 103, 104, 108, 109, 118, 119, 500]
    assert [position_of(OFFSETS + padding, 100, one) for one in asked] == [
        *(0, 0, 0, 0, 100, 100, 250, 250)
    ]
    assert position_of(b"", 100, 120) == 0


@pytest.mark.parametrize("padding", [b"", bytes(12 * 5)])
def test_times(padding: bytes) -> None:
    asked = [999, 1_000, 1_049, 1_050, 1_100, 9_999]
    assert [offset_of_time(TIMES + padding, 100, one) for one in asked] == [
        *(100, 104, 104, 109, 119, 119)
    ]
    assert offset_of_time(b"", 100, 5) == 100


def test_aborts() -> None:
    found, is_complete = aborted_in(ABORTS, 100, 104)
    assert [one.producer_id for one in found] == [1]
    assert is_complete
    found, is_complete = aborted_in(ABORTS, 110, 130)
    assert [one.producer_id for one in found] == [2]
    assert not is_complete
    assert aborted_in(None, 0, 5) == ([], False)
    for damaged in (ABORTS[:-1], b"\x00\x01" + ABORTS[2:]):
        with pytest.raises(DamagedObjectError):
            aborted_transactions(damaged)
