from __future__ import annotations

from kaa.serving.share.in_flight import InFlightBatch, InFlightState, RecordState
from kaa.serving.share.window import Window


def window(*ranges: tuple[int, int]) -> Window:
    made = Window()
    for first, last in ranges:
        made.put(InFlightBatch(first, last, InFlightState(RecordState.AVAILABLE, 1, "")))
    return made


def firsts(found: object) -> list[int]:
    return [batch.first_offset for batch in found]  # type: ignore[attr-defined]


def test_batches_are_found_by_offsets() -> None:
    made = window((20, 29), (0, 9), (10, 19))
    assert firsts(made) == [0, 10, 20]
    assert (made.first.first_offset, made.last.last_offset) == (0, 29)
    found = made.floor(15)
    assert found is not None
    assert found.first_offset == 10
    assert made.floor(-1) is None
    following = made.after(10)
    assert following is not None
    assert following.first_offset == 20
    assert made.after(20) is None
    assert firsts(made.between(1, 20)) == [10, 20]
    made.remove_before(10)
    assert firsts(made) == [10, 20]
    made.clear()
    assert len(made) == 0
