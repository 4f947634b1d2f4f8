"""A listener with a scripted dispatcher and a blocking client, both in one process."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kaa.log.errors import StorageError
from kaa.net.connection import CloseConnectionError, Connection
from kaa.net.listener import Listener, ListenerSettings
from kaa.net.pending import Hold, Pending
from kaa.net.transport import PlainTransport
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from kaa.net.network import StreamSocket
    from kaa.net.transport import Transport

ECHO, PARK, HOLD, SILENT, REFUSE, KEEP, FILE, FREE, ENCODE = range(9)


class Node:
    """Answers each frame by its first byte: see the constants."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        # Answers that the test gives when it wants to, by the frame.
        self.waiting: dict[bytes, asyncio.Future[list[Any]]] = {}
        self.kept: list[memoryview] = []
        # What a kept frame is freed by, which is then parked.
        self.freed: dict[bytes, asyncio.Future[None]] = {}
        self.regions: list[Region] = []
        self.region: Callable[[], Region] | None = None
        self.closed: list[str] = []

    def dispatch(self, connection: Connection, frame: memoryview) -> list[Any] | Pending[Any]:
        kind, copy = frame[0], bytes(frame)
        self.frames.append(copy)
        if kind == REFUSE:
            raise CloseConnectionError("refused")
        if kind == SILENT:
            return []
        if kind == FILE:
            assert self.region is not None
            region = self.region()
            self.regions.append(region)
            return [struct.pack(">i", len(region)), region]
        if kind == ECHO:
            return [sized(copy)]
        future = asyncio.get_running_loop().create_future()
        self.waiting[copy] = future
        if kind in {KEEP, FREE}:
            self.kept.append(frame)
        if kind == FREE:
            freed = self.freed[copy] = asyncio.get_running_loop().create_future()
            parked: Pending[Any] = Pending(future, Hold.NOTHING)
            return Pending(freed, Hold.FRAME, lambda _: parked)
        if kind == ENCODE:
            return Pending(future, Hold.NOTHING, _encode)
        return Pending(future, {PARK: Hold.NOTHING, KEEP: Hold.FRAME}.get(kind, Hold.CONNECTION))

    def answer(self, frame: bytes) -> None:
        self.waiting.pop(frame).set_result([sized(frame)])


def _encode(done: asyncio.Future[list[Any]]) -> list[Any]:
    """The parts twice; a failure is reported to the client too."""
    error = done.exception()
    if isinstance(error, LookupError):
        raise CloseConnectionError("cannot be encoded")
    return [sized(str(error).encode())] if error is not None else 2 * done.result()


class Region:
    """A part of a file, or of memory if there is no file."""

    def __init__(self, content: bytes, path: Path | None = None, promised: int = 0) -> None:
        self._content = content
        self._length = promised or len(content)
        self._file = None
        if path is not None:
            path.write_bytes(content)
            self._file = path.open("rb")
        self.position = 0
        self.released = 0
        self.is_broken = False
        self.failures: list[OSError] = []

    @property
    def descriptor(self) -> int:
        return -1 if self._file is None else self._file.fileno()

    def __len__(self) -> int:
        return self._length

    def read(self, length: int, offset: int) -> bytes:
        if self.is_broken:
            raise self.failed(OSError(errno.EIO, "broken"))
        return self._content[offset : offset + length]

    def failed(self, error: OSError) -> StorageError:
        self.failures.append(error)
        return StorageError(f"the disk is offline: {error}")

    def release(self) -> None:
        self.released += 1
        if self._file is not None:
            self._file.close()


def sized(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class Client:
    """A client that speaks frames; its calls run in threads, so that the loop goes on."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(PATIENCE_SECONDS)

    async def send(self, data: bytes) -> None:
        await asyncio.to_thread(self.socket.sendall, data)

    async def ask(self, frame: bytes) -> bytes:
        await self.send(sized(frame))
        return await self.answer()

    async def answer(self) -> bytes:
        (size,) = struct.unpack(">i", await asyncio.to_thread(self._read, 4))
        return await asyncio.to_thread(self._read, size)

    async def is_cut_off(self) -> bool:
        try:
            return await asyncio.to_thread(self.socket.recv, 1) == b""
        except ConnectionResetError:
            return True

    def _read(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = self.socket.recv(count - len(found))
            if not piece:
                raise EOFError("the node closed")
            found += piece
        return bytes(found)


class Running:
    """A started listener and what tests need of it."""

    def __init__(self, node: Node, listener: Listener, client_tls: ssl.SSLContext | None) -> None:
        self.node = node
        self.listener = listener
        self.port = listener.port
        self.client_tls = client_tls
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        client = await asyncio.to_thread(self._connect)
        self.clients.append(client)
        return client

    def _connect(self) -> Client:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        if self.client_tls is not None:
            return Client(self.client_tls.wrap_socket(sock, server_hostname="localhost"))
        return Client(sock)

    @property
    def connection(self) -> Connection:
        (connection,) = self.listener.connections
        return connection

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110  The condition is of the code under test.
                await asyncio.sleep(0.001)


@asynccontextmanager
async def running(
    *,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A listener on a free port, by TLS if contexts of server and client are given."""
    from kaa.net.tls import TlsTransport

    node = Node()
    executor = ThreadPoolExecutor(1)

    def transport(sock: StreamSocket) -> Transport:
        return PlainTransport(sock) if tls is None else TlsTransport(sock, tls[0])

    listener = Listener(
        ListenerSettings("TEST", "127.0.0.1", 0, **settings),
        loop=asyncio.get_running_loop(),
        executor=executor,
        transport=transport,
        on_close=lambda _, reason: node.closed.append(reason),
    )
    listener.bind()
    listener.start(node.dispatch)
    system = Running(node, listener, None if tls is None else tls[1])
    try:
        yield system
    finally:
        for client in system.clients:
            client.socket.close()
        listener.stop_accepting()
        listener.close_connections("the test is over")
        executor.shutdown()
