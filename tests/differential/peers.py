"""The two nodes, with the same settings, and the connections to them."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest
from kaa.wire.registry import api

if TYPE_CHECKING:
    from kaa.wire.schema import Request

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
CLOSED: Final = "the connection was closed"
ANSWER_SECONDS_MAX: Final = 60
_SIZE: Final = struct.Struct(">i")
_CORRELATION_ID: Final = 77


class Peer:
    """A node to ask. `asked` counts the requests, so that cases can make names of their own."""

    def __init__(self, name: str, broker: str, controller: str, directory: str) -> None:
        self.name = name
        self.directory = directory
        self._addresses = {BROKER: broker, CONTROLLER: controller}
        self._connections: dict[str, socket.socket] = {}
        self.cluster_id = self.ask(DescribeClusterRequest(), 0).cluster_id

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    def port(self, listener: str) -> int:
        return int(self._addresses[listener].rpartition(":")[2])

    def ask(self, request: Request, version: int, listener: str = BROKER) -> Any:
        """The response, or CLOSED."""
        parts = encode_request(request, version, _CORRELATION_ID, "differential")
        frame = self.exchange(b"".join(bytes(part) for part in parts), listener)
        if frame is None:
            return CLOSED
        correlation_id, response = decode_response(frame, api(request.api_key), version)
        assert correlation_id == _CORRELATION_ID
        return response

    def exchange(self, data: bytes, listener: str = BROKER) -> bytes | None:
        """Sends bytes and reads a frame; None if the node closes the connection instead."""
        connection = self._connection(listener)
        try:
            connection.sendall(data)
            (size,) = _SIZE.unpack(_read(connection, _SIZE.size))
            return _read(connection, size)
        except (EOFError, ConnectionError):
            self._connections.pop(listener).close()
            return None
        except TimeoutError:
            self._connections.pop(listener).close()
            raise TimeoutError(f"{self.name} did not answer") from None

    def _connection(self, listener: str) -> socket.socket:
        found = self._connections.get(listener)
        if found is not None and _is_open(found):
            return found
        host, _, port = self._addresses[listener].rpartition(":")
        found = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX)
        self._connections[listener] = found
        return found


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        with suppress(OSError):
            connection.settimeout(ANSWER_SECONDS_MAX)


def _read(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)
