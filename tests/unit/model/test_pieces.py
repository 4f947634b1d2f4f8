from __future__ import annotations

from collections.abc import Generator
from random import Random

from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.model.pieces import (
    Pieces,
    attempted,
    begun,
    distinct,
    emptied,
    finish,
    in_order,
    mapped,
    mapped_groups,
)


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


def test_the_first_piece_at_once() -> None:
    done: list[int] = []

    def work(count: int) -> Pieces[None]:
        for number in range(count):
            done.append(number)
            if number + 1 < count:
                yield

    assert begun(work(0)) is begun(work(1)) is None
    assert done == [0]
    rest = begun(work(3))
    assert rest is not None
    assert done == [0, 0]
    finish(rest)
    assert done == [0, 0, 1, 2]


def test_what_is_done_in_one_piece_is_there_at_once() -> None:
    few = attempted(mapped(double, range(RECORDS_PER_PIECE - 1)))
    assert few == [double(number) for number in range(RECORDS_PER_PIECE - 1)]
    many = attempted(mapped(double, range(2 * RECORDS_PER_PIECE)))
    assert isinstance(many, Generator)
    assert finish(many) == [double(number) for number in range(2 * RECORDS_PER_PIECE)]
    assert sum(1 for _ in mapped(double, range(20), 5)) == 4


def test_names_in_order_each_once() -> None:
    names = [f"n-{number % 2500}" for number in range(3 * NAMES_ANSWERED_PER_SLICE_MAX)]
    Random(1).shuffle(names)
    assert list(finish(in_order(names))) == sorted(set(names))
    assert sum(1 for _ in in_order(names)) == 3
    assert list(finish(in_order([]))) == []


def test_groups_of_any_size_leave_pauses() -> None:
    few, many = RECORDS_PER_PIECE // 4, 2 * RECORDS_PER_PIECE
    for counts, pauses in (([1], 0), ([0] * many, 2), ([many], 2), ([few] * 8, 2)):
        groups = [range(count) for count in counts]
        joined = finish(mapped_groups(groups, iter, double, lambda group, made: (group, made)))
        assert joined == [(group, [double(one) for one in group]) for group in groups]
        pieces = mapped_groups(groups, iter, double, lambda _, made: made)
        assert sum(1 for _ in pieces) == pauses


def test_lists_are_emptied_with_pauses() -> None:
    many, few = [*range(2 * RECORDS_PER_PIECE)], [1]
    assert sum(1 for _ in emptied(many, (1,), few)) == 3
    assert many == few == []


def test_names_that_come_again() -> None:
    names = [str(number) for number in range(2 * NAMES_ANSWERED_PER_SLICE_MAX)]
    assert list(finish(distinct([*names, *names]))) == names
    assert sum(1 for _ in distinct([*names, *names])) == 4
