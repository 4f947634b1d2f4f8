from __future__ import annotations

from kaa.coordinators.group.assignors.simple import assign_shared
from kaa.model.pieces import finish
from kaa.wire.primitives import Uuid

ONE, TWO = Uuid(b"1" * 16), Uuid(b"2" * 16)


def test_every_partition_has_a_member_and_every_member_a_partition() -> None:
    for members in range(1, 9):
        for count in range(1, 6):
            names = [f"m{one}" for one in range(members)]
            found = finish(
                assign_shared(
                    dict.fromkeys(names, frozenset({ONE})), {ONE: frozenset(range(count))}
                )
            )
            assert {number for owned in found.values() for number in owned[ONE]} == set(
                range(count)
            )
            sizes = [len(found[name][ONE]) for name in names]
            assert max(sizes) - min(sizes) <= 1


def test_members_read_what_they_subscribe_to() -> None:
    found = finish(
        assign_shared(
            {"a": frozenset({ONE}), "b": frozenset({ONE, TWO}), "c": frozenset()},
            {ONE: frozenset({0, 1}), TWO: frozenset({0})},
        )
    )
    assert found == {
        "a": {ONE: frozenset({0})},
        "b": {ONE: frozenset({1}), TWO: frozenset({0})},
        "c": {},
    }
    assert finish(assign_shared({"a": frozenset({ONE})}, {})) == {"a": {}}
