"""A client that speaks in frames of bytes, so that it can also say what no client would."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Self

from kaa.wire.frames import decode_response, encode_request
from kaa.wire.registry import api
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from kaa.wire.schema import Request

_SIZE = struct.Struct(">i")


def request_frame(request: Request, version: int, correlation_id: int = 1) -> bytes:
    """A request with its size in front, as it goes over the wire."""
    parts = encode_request(request, version, correlation_id, "raw")
    return b"".join(map(bytes, parts))


def sized(body: bytes) -> bytes:
    return _SIZE.pack(len(body)) + body


class RawClient:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        """The next answer without its size."""
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        return self._receive(size)

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def ask(self, request: Request, version: int | None = None) -> Any:
        """Sends a request and gives the response; the newest version by default."""
        of = api(request.api_key)
        version = of.served_versions().high if version is None else version
        self.send(request_frame(request, version))
        return decode_response(self.receive_frame(), of, version)[1]

    def is_closed_by_peer(self) -> bool:
        """Waits for the peer to close; False if it sends something, or nothing for long."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
