"""TLS over memory buffers: the socket carries cipher text, and the library sees only bytes.

The handshake happens inside the first calls: `recv_into` and `send` raise BlockingIOError until it
is done, and `wants_write` tells that cipher text is waiting for the socket. A file is read and
encrypted here, since the kernel cannot encrypt for us.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from kaa.limits import NET_FILE_PIECE_BYTES, NET_TLS_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.net.network import StreamSocket
    from kaa.net.transport import Buffer, FileRegion


class TlsTransport:
    """The server's side of one TLS connection."""

    __slots__ = ("_fileno", "_incoming", "_is_done", "_outgoing", "_socket", "_tls", "_unsent")
    may_hold_input = True

    def __init__(self, sock: StreamSocket, context: ssl.SSLContext) -> None:
        sock.setblocking(False)
        if sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._fileno = sock.fileno()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_done = False
        # Cipher text that the socket did not take yet.
        self._unsent = memoryview(b"")

    def fileno(self) -> int:
        return self._fileno

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent) or self._outgoing.pending > 0

    def recv_into(self, buffer: memoryview) -> int:
        self._handshake()
        while True:
            try:
                # With a buffer given, the count of bytes is returned, which the stubs do not know.
                return cast("int", self._tls.read(len(buffer), buffer))
            except ssl.SSLWantReadError:
                self._flush_quietly()
                if not self._receive():
                    return 0
            except ssl.SSLZeroReturnError:
                return 0

    def send(self, parts: Sequence[Buffer], *, is_more: bool = False) -> int:
        self._handshake()
        self._flush()
        taken = 0
        for part in parts:
            if part:
                self._tls.write(part)
                taken += len(part)
            if self._outgoing.pending >= NET_TLS_BYTES:
                break
        self._flush_quietly()
        return taken

    def send_file(self, region: FileRegion, offset: int) -> int:
        length = min(len(region) - offset, NET_TLS_BYTES, NET_FILE_PIECE_BYTES)
        plain = region.read(length, offset)
        return self.send([plain]) if plain else 0

    def close(self) -> None:
        if self._is_done:
            with suppress(ssl.SSLError, OSError):
                self._tls.unwrap()
            self._flush_quietly()
        self._socket.close()

    def _handshake(self) -> None:
        while not self._is_done:
            try:
                self._tls.do_handshake()
                self._is_done = True
            except ssl.SSLWantReadError:
                self._flush()
                if not self._receive():
                    raise ConnectionResetError("the peer closed during the handshake") from None
            except ssl.SSLError:
                # The alert tells the peer why; whether it arrives does not matter.
                self._flush_quietly()
                raise

    def _receive(self) -> bool:
        """Takes cipher text from the socket; False at its end."""
        data = self._socket.recv(NET_TLS_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return bool(data)

    def _flush(self) -> None:
        """Hands all cipher text to the socket; raises BlockingIOError if it does not take all."""
        while self.wants_write:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read(NET_TLS_BYTES))
            self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def _flush_quietly(self) -> None:
        """As `_flush`; what was not taken shows in `wants_write`, a fault at the next call."""
        with suppress(OSError):
            self._flush()
