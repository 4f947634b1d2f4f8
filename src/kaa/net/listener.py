"""A listening socket: accepts connections within limits, and ends them.

Limits are checked before anything is read from a client. With as many connections as the listener
may have (`max.connections`), or with as many new ones in a second as it may have
(`max.connection.creation.rate`), none is accepted: clients wait in the queue of the system, as with
Kafka. One more of an address that has as many as it may (`max.connections.per.ip`, with an
address's IPv6-mapped form counted as the same) is closed at once. So is one that would take the
last descriptors of the process, which logs need for their files. A sweep closes connections without
input for `connections.max.idle.ms`, and those whose client takes too long to send its first
request, or the rest of one.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaa import limits
from kaa.limits import NET_ACCEPTS_PER_TURN_MAX
from kaa.net.connection import Connection
from kaa.net.network import SystemNetwork
from kaa.net.transport import PlainTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor

    from kaa.net.connection import Dispatcher
    from kaa.net.network import ListeningSocket, Network, StreamSocket
    from kaa.net.transport import Transport


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """What an operator can set about a listener."""

    name: str
    host: str
    port: int
    frame_bytes_max: int = 104_857_600
    backlog: int = 50
    connections_max: int = 2_147_483_647
    connections_per_second_max: int = 2_147_483_647
    connections_per_address_max: int = 2_147_483_647
    connections_per_address_overrides: Mapping[str, int] = field(default_factory=dict)
    idle_seconds_max: float = 600.0
    # None leaves the buffers of sockets to the system, which sizes them as needed.
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None


@dataclass(slots=True)
class ListenerCounts:
    """Counted since the start."""

    accepted: int = 0
    refused: int = 0
    closed_idle: int = 0
    closed_late: int = 0


class Listener:
    """Owns the listening socket and every connection that came through it."""

    def __init__(
        self,
        settings: ListenerSettings,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        network: Network | None = None,
        transport: Callable[[StreamSocket], Transport] = PlainTransport,
        on_close: Callable[[Connection, str], None] | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.executor = executor
        self.frame_bytes_max = settings.frame_bytes_max
        self.counts = ListenerCounts()
        # In the order in which they came: a run with the same events ends them in the same order.
        self.connections: dict[Connection, None] = {}
        self._network = network or SystemNetwork()
        # Set before anybody is accepted.
        self._dispatch: Dispatcher
        self._transport = transport
        self._on_close = on_close
        self._report = report
        self._descriptors_max = self._network.descriptors_max()
        # When it may be said again that there are too few of them, in the loop's time.
        self._next_report = 0.0
        self._by_address: Counter[str] = Counter()
        self._socket: ListeningSocket | None = None
        self._scratch = memoryview(bytearray(limits.NET_SCRATCH_BYTES))
        self._drained: asyncio.Event = asyncio.Event()
        self._resume_handle: asyncio.TimerHandle | None = None
        # Nobody is accepted until a connection has ended.
        self._is_full = False
        # Accepted since the start of this second of the loop's time.
        self._second = 0
        self._accepted_in_second = 0

    # --- what connections need

    def scratch(self) -> memoryview:
        return self._scratch

    def replace_scratch(self) -> None:
        """Leaves the buffer to the request that still uses it."""
        self._scratch = memoryview(bytearray(limits.NET_SCRATCH_BYTES))

    def closed(self, connection: Connection, reason: str) -> None:
        self.connections.pop(connection, None)
        address = connection.peer
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]
        if not self.connections:
            self._drained.set()
        if self._is_full:
            self._is_full = False
            self._resume_accepting()
        if self._on_close is not None:
            self._on_close(connection, reason)

    # --- start and stop

    def bind(self) -> int:
        """Binds the socket and returns its port, which is the system's choice for port 0."""
        settings = self.settings
        self._socket = self._network.bind(settings.host, settings.port)
        if settings.receive_buffer_bytes is not None:
            # Connections inherit it, and announce it when they are opened.
            size = settings.receive_buffer_bytes
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        return self.port

    @property
    def port(self) -> int:
        assert self._socket is not None, "the listener is not bound"
        port: int = self._socket.getsockname()[1]
        return port

    def start(self, dispatch: Dispatcher) -> None:
        """Accepts from now on; requests go to `dispatch`."""
        assert self._socket is not None, "the listener is not bound"
        self._dispatch = dispatch
        self._socket.listen(self.settings.backlog)
        self.loop.add_reader(self._socket.fileno(), self._acceptable)

    def stop_accepting(self) -> None:
        if self._resume_handle is not None:
            self._resume_handle.cancel()
        if self._socket is not None:
            self.loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    async def drain(self, seconds: float) -> int:
        """Lets requests under way finish, then closes; returns how many were cut off."""
        self._drained.clear()
        for connection in tuple(self.connections):
            connection.finish()
        if self.connections:
            try:
                async with asyncio.timeout(seconds):
                    await self._drained.wait()
            except TimeoutError:
                pass
        left = len(self.connections)
        self.close_connections("the node is stopping")
        return left

    def close_connections(self, reason: str) -> None:
        for connection in tuple(self.connections):
            connection.close(reason)

    def sweep(self, now: float) -> None:
        """Closes connections without input for too long; called every few seconds of the loop."""
        oldest = now - self.settings.idle_seconds_max
        for connection in tuple(self.connections):
            if connection.active_at < oldest:
                self.counts.closed_idle += 1
                connection.close("idle")
            elif connection.is_late(now):
                self.counts.closed_late += 1
                connection.close("a request did not come in time")

    # --- accept

    def _acceptable(self) -> None:
        assert self._socket is not None
        for _ in range(NET_ACCEPTS_PER_TURN_MAX):
            if len(self.connections) >= self.settings.connections_max:
                self._is_full = True
                self.loop.remove_reader(self._socket.fileno())
                return
            if not self._is_within_rate():
                self._pause_accepting(self._second + 1 - self.loop.time())
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                # Short of descriptors or memory, without a network, or not allowed to: time may
                # bring it back, and the client waits in the queue meanwhile.
                self._pause_accepting(limits.NET_ACCEPT_PAUSE_SECONDS)
                return
            if sock.fileno() >= self._descriptors_max:
                # A log that could not open its files would take its directory offline.
                self.counts.refused += 1
                sock.close()
                self._report_shortage()
                self._pause_accepting(limits.NET_ACCEPT_PAUSE_SECONDS)
                return
            self._accepted_in_second += 1
            self._accept(sock, _plain_address(str(address[0])))

    def _report_shortage(self) -> None:
        now = self.loop.time()
        if self._report is not None and now >= self._next_report:
            self._next_report = now + limits.NET_SHORTAGE_REPORT_SECONDS
            self._report(
                f"listener {self.settings.name} refuses connections: it has "
                f"{len(self.connections):,}, and the descriptors that are left are kept for "
                "files; allow more open files (ulimit -n), or fewer connections (max.connections)"
            )

    def _is_within_rate(self) -> bool:
        second = int(self.loop.time())
        if second != self._second:
            self._second, self._accepted_in_second = second, 0
        return self._accepted_in_second < self.settings.connections_per_second_max

    def _accept(self, sock: StreamSocket, address: str) -> None:
        settings = self.settings
        most = settings.connections_per_address_overrides.get(
            address, settings.connections_per_address_max
        )
        if self._by_address[address] >= most:
            self.counts.refused += 1
            sock.close()
            return
        if settings.send_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        self.counts.accepted += 1
        self._by_address[address] += 1
        connection = Connection(
            self,
            self._transport(sock),
            self._dispatch,
            listener_name=settings.name,
            peer=address,
        )
        self.connections[connection] = None

    def _pause_accepting(self, seconds: float) -> None:
        """Leaves the socket alone for a while; ready as it is, it would spin the loop."""
        assert self._socket is not None
        self.loop.remove_reader(self._socket.fileno())
        self._resume_handle = self.loop.call_later(seconds, self._resume_accepting)

    def _resume_accepting(self) -> None:
        if self._socket is not None:
            self.loop.add_reader(self._socket.fileno(), self._acceptable)


def _plain_address(address: str) -> str:
    """An IPv4 client of an IPv6 socket counts as the address it has."""
    return address.removeprefix("::ffff:") if "." in address else address
