"""Memory that knows what it was at the last committed offset.

The state of a coordinator runs ahead of its log: a record changes memory when it is written, and
counts only when it is committed. Two questions follow. What may a reader see? The values without
the changes at or above the committed offset. And what if an append fails? Memory goes back to where
the log ends.

Both are answered by one list of changes per timeline, oldest first:

    offset 7: offsets["a"] was 40     committed up to 8: dropped, nobody can go back before it
    offset 8: offsets["a"] was 41     <- what readers see of "a" is 41
    offset 9: offsets["b"] was absent <- readers do not see "b"

Each structure also keeps the changes of a key beside it, so that a reader finds the committed value
of one key without looking at other keys. The cost of a change is a few small objects until it is
committed; reading the newest value costs a dictionary look-up.

`position` says at which offset changes happen, and only moves forward, except by `revert`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Absent:
    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


_ABSENT: Final = _Absent()


class Timeline:
    """The changes of all structures of one machine that are not committed."""

    __slots__ = ("changes", "committed_offset", "position")

    def __init__(self) -> None:
        # The offset of the record that is being replayed, or of the next one to be written.
        self.position = 0
        # Every record below it is committed.
        self.committed_offset = 0
        # The offset of each change, oldest first, and what it is of.
        self.changes: deque[tuple[int, TimelineDict[Any, Any], object]] = deque()

    def __len__(self) -> int:
        """How many changes could still be undone."""
        return len(self.changes)

    def move(self, offset: int) -> None:
        """Changes from now on happen at `offset`."""
        assert offset >= self.position, f"{offset} is before {self.position}"
        self.position = offset

    def commit(self, offset: int, changes_max: int | None = None) -> None:
        """Everything below `offset` is committed; there is no way back before it. With a limit the
        committed offset may stay below, at a record whose changes are to come, or the rest of them.
        """
        if offset <= self.committed_offset:
            return
        changes = self.changes
        count = 0
        while changes and changes[0][0] < offset:
            if count == changes_max:
                self.committed_offset = changes[0][0]
                return
            _, structure, key = changes.popleft()
            structure.forget_oldest(key)
            count += 1
        self.committed_offset = offset

    def revert(self, offset: int) -> None:
        """Undoes every change at or above `offset`."""
        assert offset >= self.committed_offset, f"{offset} is below {self.committed_offset}"
        changes = self.changes
        while changes and changes[-1][0] >= offset:
            _, structure, key = changes.pop()
            structure.undo_newest(key)
        self.position = min(self.position, offset)


class TimelineDict(Generic[Key, Value]):
    """A dictionary on a timeline. Values must not be changed in place."""

    __slots__ = ("_history", "_newest", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._newest: dict[Key, Value] = {}
        # Of keys with changes that are not committed: the values before each, oldest first.
        self._history: dict[Key, deque[Value | _Absent]] = {}

    # --- the newest state

    def __len__(self) -> int:
        return len(self._newest)

    def __contains__(self, key: object) -> bool:
        return key in self._newest

    def __iter__(self) -> Iterator[Key]:
        return iter(self._newest)

    def __getitem__(self, key: Key) -> Value:
        return self._newest[key]

    def get(self, key: Key) -> Value | None:
        return self._newest.get(key)

    def items(self) -> Iterator[tuple[Key, Value]]:
        return iter(self._newest.items())

    def values(self) -> Iterator[Value]:
        return iter(self._newest.values())

    # --- changes

    def __setitem__(self, key: Key, value: Value) -> None:
        self._remember(key)
        self._newest[key] = value

    def pop(self, key: Key) -> Value | None:
        """Removes the key if it is there; its value."""
        if key not in self._newest:
            return None
        self._remember(key)
        return self._newest.pop(key)

    def _remember(self, key: Key) -> None:
        timeline = self._timeline
        if timeline.position < timeline.committed_offset:
            # A replay of what is committed: nobody goes back there.
            return
        before = self._newest.get(key, _ABSENT)
        history = self._history.get(key)
        if history is None:
            history = self._history[key] = deque()
        history.append(before)
        timeline.changes.append((timeline.position, self, key))

    # --- the committed state

    @property
    def is_clean(self) -> bool:
        """True if nothing here could be undone."""
        return not self._history

    def committed(self, key: Key) -> Value | None:
        """The value as readers may see it."""
        history = self._history.get(key)
        if history is None:
            return self._newest.get(key)
        # What is kept happened at or above the committed offset: the oldest entry is the first
        # change that readers do not see.
        before = history[0]
        return None if isinstance(before, _Absent) else before

    def committed_keys(self) -> list[Key]:
        """Of what readers may see, for those who look at it little by little."""
        return [key for key, _ in self.committed_items()]

    def committed_items(self) -> Iterator[tuple[Key, Value]]:
        history = self._history
        for key, value in self._newest.items():
            if key not in history:
                yield key, value
        for key in history:
            value_before = self.committed(key)
            if value_before is not None:
                yield key, value_before

    # --- for the timeline

    def forget_oldest(self, key: Key) -> None:
        history = self._history[key]
        history.popleft()
        if not history:
            del self._history[key]

    def undo_newest(self, key: Key) -> None:
        history = self._history[key]
        before = history.pop()
        if not history:
            del self._history[key]
        if isinstance(before, _Absent):
            self._newest.pop(key, None)
        else:
            self._newest[key] = before
