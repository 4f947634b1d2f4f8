"""Answers on their way out of a connection, in the order of their requests.

A request takes its place when it is dispatched (`open`), and its answer may fill the place at once,
later, or with nothing. Only the filled places at the front are sent. An answer is a list of buffers
and file regions.

A region leaves by `sendfile`, after a look whether its pages are in memory. For a small one four
calls cost more than copying it, so it is read and sent together with the buffers around it: half of
the time for 1 KiB, and no gain any more from 16 KiB on.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from kaa.limits import (
    NET_COPIED_REGION_BYTES_MAX,
    NET_FILE_PIECE_BYTES,
    NET_PARTS_PER_SEND_MAX,
    NET_PARTS_PER_TURN_MAX,
    NET_SENDS_PER_TURN_MAX,
    NET_SENT_PER_TURN_BYTES_MAX,
)
from kaa.net.pages import ColdPages, is_cached, read_cached

if TYPE_CHECKING:
    from kaa.net.transport import Buffer, Transport


_BUFFERS: Final = (bytes, bytearray, memoryview)


class Place:
    """The place of one answer; `parts` is None until it is known. `Outbox.open` makes it."""

    __slots__ = ("parts",)

    parts: list[Any] | None


class Outbox:
    """The answers that one connection still owes or is sending."""

    __slots__ = ("_offset", "_parts", "_transport", "_warm_to", "bytes_queued", "places")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # Answers that are not known yet, or wait for such. A list, since most connections are idle
        # and an empty deque is the largest thing that they would have.
        self.places: list[Place] = []
        # What is being sent: parts of answers at the front, the first one from `_offset` on.
        self._parts: deque[Any] = deque()
        self._offset = 0
        # Up to here the first part, a region, is known to be in memory.
        self._warm_to = 0
        # The bytes of filled places and of `_parts`, for back-pressure.
        self.bytes_queued = 0

    @property
    def is_empty(self) -> bool:
        return not self.places and not self._parts

    @property
    def is_sendable(self) -> bool:
        return bool(self._parts) or bool(self.places and self.places[0].parts is not None)

    def open(self) -> Place:
        """Takes the next place."""
        place = Place()
        place.parts = None
        self.places.append(place)
        return place

    def put(self, parts: list[Any]) -> None:
        """An answer that is known at once, when none is owed: it needs no place."""
        assert not self.places
        self._parts += parts
        for part in parts:
            self.bytes_queued += len(part)

    def fill(self, place: Place, parts: list[Any]) -> None:
        """Fills a place; an empty list means that the request has no answer."""
        place.parts = parts
        for part in parts:
            self.bytes_queued += len(part)

    def send(self) -> bool:
        """Sends what can be sent in a turn; True if nothing sendable is left.

        Raises OSError if the connection is gone, EOFError if a file had fewer bytes than promised,
        StorageError if it cannot be read, and ColdPages if a piece of a file must be warmed first
        (`warmed` tells that it was).
        """
        if self.places:
            self._advance()
        parts = self._parts
        bytes_end = self.bytes_queued - NET_SENT_PER_TURN_BYTES_MAX
        parts_end = len(parts) - NET_PARTS_PER_TURN_MAX
        calls_left = NET_SENDS_PER_TURN_MAX
        try:
            while parts:
                if isinstance(parts[0], _BUFFERS):
                    self._send_buffers()
                else:
                    self._send_region()
                if not parts:
                    break
                calls_left -= 1
                if self.bytes_queued <= bytes_end or len(parts) <= parts_end or calls_left == 0:
                    return False
        except BlockingIOError:
            return False
        return True

    def _advance(self) -> None:
        places = self.places
        known = 0
        for place in places:
            if place.parts is None:
                break
            self._parts += place.parts
            known += 1
        del places[:known]

    def _send_buffers(self) -> None:
        parts = self._parts
        is_more = False
        if len(parts) == 1:
            first = parts[0]
            batch = [memoryview(first)[self._offset :] if self._offset else first]
        else:
            batch = []
            for place in range(min(len(parts), NET_PARTS_PER_SEND_MAX)):
                part = parts[place]
                if not isinstance(part, _BUFFERS):
                    copy = _copied(part)
                    if copy is None:
                        is_more = len(part) > 0
                        break
                    part = parts[place] = copy
                batch.append(part)
            if self._offset:
                batch[0] = memoryview(batch[0])[self._offset :]
        self._sent(self._transport.send(batch, is_more=is_more))

    def _send_region(self) -> None:
        region = self._parts[0]
        if self._offset < len(region):
            self._check_pages(region)
            sent = self._transport.send_file(region, self._offset)
            if sent == 0:
                # Its length stands in the frame already, so that the stream cannot be mended.
                raise EOFError("a segment ended before the bytes that were promised")
            self._sent(sent)
        else:
            self._sent(0)

    def _check_pages(self, region: Any) -> None:
        if self._offset < self._warm_to or region.descriptor < 0:
            return
        length = min(len(region) - self._offset, NET_FILE_PIECE_BYTES)
        position = region.position + self._offset
        if not is_cached(region.descriptor, position, length):
            raise ColdPages(region, position, length)
        self._warm_to = self._offset + length

    def warmed(self, pages: ColdPages) -> None:
        """The piece that was cold is in memory now and is sent without being asked about again."""
        self._warm_to = self._offset + pages.length

    def _sent(self, count: int) -> None:
        """Drops `count` bytes from the front, and every part that is done."""
        self.bytes_queued -= count
        self._offset += count
        parts = self._parts
        while parts and self._offset >= len(parts[0]):
            self._offset -= len(parts[0])
            self._warm_to = 0
            part = parts.popleft()
            if not isinstance(part, _BUFFERS):
                part.release()

    def release(self) -> None:
        """Gives back every file region; the connection is gone."""
        self._advance()
        waiting = [part for place in self.places for part in place.parts or ()]
        for part in (*self._parts, *waiting):
            if not isinstance(part, _BUFFERS):
                part.release()
        self._parts.clear()
        self.places.clear()
        self.bytes_queued = 0


def _copied(region: Any) -> Buffer | None:
    """The bytes of a small region, which is given back; None if it has to leave as a file."""
    length = len(region)
    if length > NET_COPIED_REGION_BYTES_MAX or region.descriptor < 0:
        return None
    copy = read_cached(region.descriptor, region.position, length)
    if copy is not None:
        region.release()
    return copy
