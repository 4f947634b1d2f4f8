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
                    dict.fromkeys(names, frozenset({ONE})),
                    {ONE: frozenset(range(count))},
                    {},
                    is_uniform=True,
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
            {},
            is_uniform=False,
        )
    )
    assert found == {
        "a": {ONE: frozenset({0})},
        "b": {ONE: frozenset({1}), TWO: frozenset({0})},
        "c": {},
    }
    alone = {"a": frozenset({ONE})}
    assert finish(assign_shared(alone, {}, {}, is_uniform=True)) == {"a": {}}


def test_members_keep_what_they_have_as_far_as_that_is_fair() -> None:
    topics, partitions = frozenset({ONE}), {ONE: frozenset(range(4))}
    before = {"a": {ONE: frozenset({0, 1})}, "b": {ONE: frozenset({2, 3})}}
    found = finish(assign_shared(dict.fromkeys("abc", topics), partitions, before, is_uniform=True))
    for member, owned in before.items():
        assert len(owned[ONE] & found[member][ONE]) == len(found[member][ONE])
    left = finish(assign_shared(dict.fromkeys("ab", topics), partitions, found, is_uniform=True))
    assert all(found[member][ONE] <= left[member][ONE] for member in "ab")
