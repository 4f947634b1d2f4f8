"""Reads the frames of a simulated connection for the trace: which request, which answer.

Only sizes and the first fields of headers are looked at. What is not a frame of the protocol,
because a connection broke in the middle, is not reported.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = {key.value: key.name for key in ApiKey}
_REQUEST = struct.Struct(">ihhi")
_RESPONSE = struct.Struct(">ii")


class FrameTap:
    """One direction of a connection."""

    __slots__ = ("_asked", "_head", "_is_request", "_left", "asked")

    def __init__(self, *, is_request: bool, asked: FrameTap | None = None) -> None:
        self._is_request = is_request
        self._asked = asked
        # Requests without an answer yet: correlation id and name.
        self.asked: deque[tuple[int, str]] = deque()
        self._head = bytearray()
        # Bytes of the current frame that are still to come.
        self._left = 0

    def cut(self, piece: bytes) -> Iterator[str]:
        struct_of_head = _REQUEST if self._is_request else _RESPONSE
        position = 0
        while position < len(piece):
            if self._left:
                skipped = min(self._left, len(piece) - position)
                self._left -= skipped
                position += skipped
                continue
            wanted = struct_of_head.size - len(self._head)
            self._head += piece[position : position + wanted]
            position += min(wanted, len(piece) - position)
            if len(self._head) == struct_of_head.size:
                fields = struct_of_head.unpack(self._head)
                self._head.clear()
                self._left = max(0, fields[0] - (struct_of_head.size - 4))
                yield self._told(fields)

    def _told(self, fields: tuple[int, ...]) -> str:
        if self._is_request:
            size, key, version, correlation_id = fields
            name = _NAMES.get(key, str(key))
            self.asked.append((correlation_id, name))
            return f"{name} v{version} ({correlation_id}, {size} bytes)"
        size, correlation_id = fields
        name = "?"
        asked = None if self._asked is None else self._asked.asked
        while asked:
            number, found = asked.popleft()
            if number == correlation_id:
                name = found
                break
        return f"answer of {name} ({correlation_id}, {size} bytes)"
