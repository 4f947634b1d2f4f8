"""Lines of standard input as they come, without holding up the event loop.

A thread reads what is there: a line that was typed, or a large piece of a file. It is a
daemon and has its own short queue, so that Ctrl-C need not wait for a line that nobody types. It
reads below Python's buffer: a thread that waits there for a line holds the lock of the buffer, and
an interpreter that ends meanwhile aborts.
"""

from __future__ import annotations

import asyncio
import threading
from io import BufferedReader
from typing import TYPE_CHECKING, Protocol

from kaa.limits import CLI_INPUT_PIECE_BYTES, CLI_INPUT_PIECES_AHEAD_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Stream(Protocol):
    """A binary stream that gives what it has, of which nothing was read yet."""

    def read1(self, size: int, /) -> bytes: ...


def _reader(stream: Stream) -> Callable[[int], bytes | None]:
    return stream.raw.read if isinstance(stream, BufferedReader) else stream.read1


async def pieces_of(stream: Stream) -> AsyncIterator[list[bytes]]:
    """Whole lines, without their ends, in pieces as they arrive; the last needs no end."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(CLI_INPUT_PIECES_AHEAD_MAX)
    read_some = _reader(stream)

    def read() -> None:
        piece: bytes | OSError = b" "
        while piece and not isinstance(piece, OSError):
            room.acquire()
            try:
                piece = read_some(CLI_INPUT_PIECE_BYTES) or b""
            except OSError as error:
                piece = error
            try:
                loop.call_soon_threadsafe(queue.put_nowait, piece)
            except RuntimeError:
                return  # The loop has ended, and nobody wants more.

    threading.Thread(target=read, name="standard input", daemon=True).start()
    rest = b""
    while piece := await queue.get():
        room.release()
        if isinstance(piece, OSError):
            raise piece
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]
