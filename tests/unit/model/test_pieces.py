from __future__ import annotations

from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import Pieces, finish, mapped


def double(number: int) -> int:
    return number * 2


def test_a_pause_after_each_piece() -> None:
    for count, pauses in (
        (0, 0),
        (1, 0),
        (RECORDS_PER_PIECE - 1, 0),
        (RECORDS_PER_PIECE, 1),
        (3 * RECORDS_PER_PIECE + 1, 3),
    ):
        found: list[int] = []

        def work(into: list[int], count: int = count) -> Pieces[None]:
            into += yield from mapped(double, range(count))

        assert sum(1 for _ in work(found)) == pauses
        assert found == [2 * number for number in range(count)]


def test_all_at_once() -> None:
    count = 2 * RECORDS_PER_PIECE
    assert finish(mapped(str, range(count))) == [str(number) for number in range(count)]
