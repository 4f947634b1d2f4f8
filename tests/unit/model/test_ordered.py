from __future__ import annotations

import pytest

from kaa.model.ordered import OrderedSet


def test_it_keeps_the_order_of_its_items() -> None:
    items = OrderedSet(["c", "a", "b", "a"])
    items.add("d")
    items.add("c")
    items.discard("a")
    items.discard("x")
    items.update(["e", "b"])
    assert list(items) == ["c", "b", "d", "e"]
    assert repr(items) == "OrderedSet(['c', 'b', 'd', 'e'])"


def test_it_is_a_set() -> None:
    items = OrderedSet((1, 2))
    assert items == {2, 1}
    assert {1} <= items
    assert 1 in items
    assert len(items) == 2
    items |= {3}
    items -= {1}
    assert items == {2, 3}
    assert OrderedSet[int]() != items


def test_the_last_one_is_taken_out_first() -> None:
    items = OrderedSet((1, 2))
    assert [items.pop(), items.pop()] == [2, 1]
    with pytest.raises(KeyError):
        items.pop()
