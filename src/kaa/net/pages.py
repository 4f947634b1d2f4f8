"""Whether the bytes of a file are in memory, so that sending them will not wait for a disk.

`sendfile` on a page that is not cached stalls the whole event loop for the time of a disk read.
Linux can say so beforehand: `preadv` with RWF_NOWAIT fails where it would have to wait. Pages are
asked for at distances in which Linux reads ahead, and the last one; a smaller hole between them is
rare and costs one stall, not an error. Where the call or the flag does not exist (macOS, some file
systems), everything counts as cached.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kaa.limits import NET_PROBED_BYTES, NET_WARMED_BYTES

if TYPE_CHECKING:
    from kaa.net.transport import FileRegion

# A Python that was built for an older system may know the flag and refuse it (a RuntimeError).
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
# Where a byte goes that is read to see whether it can be; nobody looks at it.
_BYTE: Final = (bytearray(1),)


class ColdPages(Exception):  # noqa: N818  It is a state to be dealt with, not an error.
    """The next piece of a file is not in memory; `warm` brings it there, off the loop."""

    def __init__(self, region: FileRegion, position: int, length: int) -> None:
        super().__init__(region, position, length)
        self.region = region
        self.position = position
        self.length = length


def is_cached(descriptor: int, position: int, length: int) -> bool:
    """True if bytes all over the range can be read without waiting, or that cannot be known."""
    if _NOWAIT is None:
        return True
    last = position + length - 1
    try:
        for place in range(position, last, NET_PROBED_BYTES):
            os.preadv(descriptor, _BYTE, place, _NOWAIT)
        os.preadv(descriptor, _BYTE, last, _NOWAIT)
    except BlockingIOError:
        return False
    except (OSError, RuntimeError):
        return True
    return True


def read_cached(descriptor: int, position: int, length: int) -> bytearray | None:
    """The bytes if all of them can be read without waiting, and that can be known."""
    if _NOWAIT is None:
        return None
    copy = bytearray(length)
    try:
        read = os.preadv(descriptor, [copy], position, _NOWAIT)
    except (OSError, RuntimeError):
        return None
    return copy if read == length else None


def warm(descriptor: int, position: int, length: int) -> None:
    """Reads the bytes and drops them, which leaves them in the page cache; runs in a thread."""
    scratch = bytearray(min(length, NET_WARMED_BYTES))
    end = position + length
    while position < end:
        read = os.preadv(descriptor, [memoryview(scratch)[: end - position]], position)
        if read == 0:
            return
        position += read
