"""The order of Java's hash tables; `tests/conformance/coordinators` compares with Java itself."""

from __future__ import annotations

from kaa.coordinators.group.java_order import (
    integer_hash,
    java_string_order,
    map_order,
    name_set_order,
    set_order,
    string_hash,
    uuid_halves,
    uuid_hash,
)
from kaa.model.pieces import finish
from kaa.wire.primitives import Uuid


def test_small_numbers_come_by_bucket() -> None:
    assert map_order([17, 5, 1, 33], integer_hash) == [17, 1, 33, 5]
    # With 13 keys the table has 32 buckets.
    assert map_order([17, *range(12)], integer_hash) == [*range(12), 17]


def test_a_copy_of_a_collection_has_room_for_it() -> None:
    numbers = [17, *range(11)]
    assert map_order(numbers, integer_hash)[:2] == [0, 17]
    assert set_order(numbers, integer_hash) == [*range(11), 17]


def test_upper_bits_count() -> None:
    assert map_order([1 << 16, 0], integer_hash) == [0, 1 << 16]
    assert map_order([3 << 16, 1], integer_hash) == [1, 3 << 16]


def test_strings_and_uuids() -> None:
    # "uniform" and "range" have the hash codes -286926412 and 108280125 in Java.
    assert map_order(["uniform", "range"], string_hash) == ["uniform", "range"]
    assert string_hash("range") == 108280125
    assert uuid_hash(Uuid(bytes(range(16)))) == 0x0000_0000
    assert uuid_halves(Uuid(b"\xff" * 8 + b"\0" * 7 + b"\1")) == (-1, 1)


def test_strings_compare_by_code_units() -> None:
    assert sorted(["\uffff", "\U0001f600"], key=java_string_order) == ["\U0001f600", "\uffff"]


def test_names_in_pieces_come_as_those_of_a_set() -> None:
    for count in (0, 1, 12, 13, 99, 100, 5_000):
        names = frozenset(f"topic-{number}" for number in range(count))
        assert finish(name_set_order(names)) == set_order(sorted(names), string_hash)
    # Both have the same hash.
    assert finish(name_set_order({"BB", "Aa"})) == ["Aa", "BB"]
    assert sum(1 for _ in name_set_order(frozenset(map(str, range(5_000))))) == 50 + 5 + 5
    assert sum(1 for _ in name_set_order({letter * 30_000 for letter in "abc"})) == 3
