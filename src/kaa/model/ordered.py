"""A set that is walked through in the order in which its items came.

The order of Python's own sets depends on hashes, which differ from run to run. Where the order of a
walk has consequences, a run could not be replayed from its seed.
"""

from __future__ import annotations

from collections.abc import MutableSet
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Item = TypeVar("Item")


class OrderedSet(MutableSet[Item]):
    """A set that keeps the order of insertion. Equal to any set with the same items."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items: dict[Item, None] = dict.fromkeys(items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OrderedSet({list(self._items)})"

    def add(self, value: Item) -> None:
        self._items[value] = None

    def discard(self, value: Item) -> None:
        self._items.pop(value, None)

    def update(self, items: Iterable[Item]) -> None:
        self._items.update(dict.fromkeys(items))

    def pop(self) -> Item:
        """Takes the last one out."""
        return self._items.popitem()[0]
