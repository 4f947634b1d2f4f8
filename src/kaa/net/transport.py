"""One Protocol over a client's socket, so that a connection does not know whether it is encrypted.

No method waits. Where the socket is not ready, BlockingIOError is raised, and the caller comes back
when the event loop says so. Any other OSError means that the connection is gone, and a StorageError
that a file of an answer cannot be read.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Final, Protocol

from kaa.limits import NET_FILE_PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.log.errors import StorageError
    from kaa.net.network import StreamSocket

    Buffer = bytes | bytearray | memoryview


class FileRegion(Protocol):
    """Bytes of a file that are part of an answer; the file stays open until `release`."""

    @property
    def descriptor(self) -> int:
        """The open file, or -1 if it lives in memory and can only be `read`."""
        ...

    @property
    def position(self) -> int: ...

    def __len__(self) -> int: ...

    def read(self, length: int, offset: int) -> bytes:
        """Up to `length` bytes from `offset` within the region; fewer only at its end.
        StorageError if the disk does not give them.
        """
        ...

    def failed(self, error: OSError) -> StorageError:
        """The disk did not give bytes that were read by the descriptor. The owner of the file draws
        the consequences; what is returned is to be raised.
        """
        ...

    def release(self) -> None:
        """Gives the file back. Called once, when the region was sent or its connection is gone."""
        ...


class Transport(Protocol):
    """A byte stream in both directions."""

    def fileno(self) -> int: ...

    def recv_into(self, buffer: memoryview) -> int:
        """Reads what is there, at most the buffer's length; 0 means that the peer closed."""
        ...

    def send(self, parts: Sequence[Buffer], *, is_more: bool = False) -> int:
        """Sends a prefix of the buffers; returns how many bytes of them were taken.

        `is_more` promises that bytes of a file follow at once, so that both may travel together.
        """
        ...

    def send_file(self, region: FileRegion, offset: int) -> int:
        """Sends bytes of the region from `offset` on; 0 means that the file ended too early."""
        ...

    @property
    def may_hold_input(self) -> bool:
        """True if input can wait inside the transport while the socket has nothing to read."""
        ...

    @property
    def wants_write(self) -> bool:
        """True if the transport itself has bytes to send before anything else can go on."""
        ...

    def close(self) -> None: ...


# Linux alone has it.
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)


class PlainTransport:
    """The socket itself; files leave by `sendfile` and never enter this process."""

    __slots__ = ("_fileno", "_socket")
    may_hold_input = False
    wants_write = False

    def __init__(self, sock: StreamSocket) -> None:
        sock.setblocking(False)
        if sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._fileno = sock.fileno()

    def fileno(self) -> int:
        return self._fileno

    def recv_into(self, buffer: memoryview) -> int:
        return self._socket.recv_into(buffer)

    def send(self, parts: Sequence[Buffer], *, is_more: bool = False) -> int:
        # Otherwise the head of an answer would be a packet by itself, and wake the client for it.
        flags = _MORE if is_more else 0
        if len(parts) == 1:
            return self._socket.send(parts[0], flags)
        return self._socket.sendmsg(parts, (), flags)

    def send_file(self, region: FileRegion, offset: int) -> int:
        length = min(len(region) - offset, NET_FILE_PIECE_BYTES)
        if region.descriptor < 0:
            return self._socket.send(region.read(length, offset))
        try:
            return os.sendfile(self._fileno, region.descriptor, region.position + offset, length)
        except OSError as error:
            # A socket that is gone has errors of its own.
            if error.errno == errno.EIO:
                raise region.failed(error) from error
            raise

    def close(self) -> None:
        self._socket.close()
