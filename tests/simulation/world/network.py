"""The network between simulated processes: streams with delays, cuts and resets.

A connection is a pair of ends. What one end sends arrives at the other in order, each piece after a
delay drawn by the seed, and possibly in two pieces; two connections overtake each other freely. As
with TCP nothing is lost while a connection lives: a cut holds pieces back until it heals, and a
reset loses whatever was under way in both directions.

| Fault | What it does |
|---|---|
| cut (one way) | pieces and handshakes from one host to another wait until it heals |
| slow link | pieces from one host to another take up to seconds longer |
| reset | both ends of a connection fail at once, what was under way is lost |
| killed host | its system closes its connections, and peers see a reset |
| host without power | nobody hears of it; whatever is sent to it later is answered by a reset once
the host is back |

A connection over a cut that does not heal ends by itself after a while, as it would by TCP's own
patience.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from tests.simulation.world.frames import FrameTap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.loop import SimLoop

Buffer = bytes | bytearray | memoryview

DELAY_SECONDS_MIN = 0.0001
DELAY_SECONDS_MAX = 0.001
SPLIT_SHARE = 0.05
UNREAD_BYTES_MAX = 256 * 1024
RETRY_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
_PORT_FIRST = 30_000
_DESCRIPTOR_FIRST = 1_000


class End:
    """One end of a connection, owned by a process."""

    __slots__ = (
        "arrives_at",
        "changed",
        "error",
        "held",
        "host",
        "inbox",
        "is_closed",
        "is_eof",
        "name",
        "network",
        "peer",
        "tap",
        "under_way",
    )

    def __init__(self, network: SimNetwork, host: str, name: str) -> None:
        self.network = network
        self.host = host
        self.name = name
        self.peer: End = self
        self.inbox = bytearray()
        # The peer sends no more, after what is in the inbox.
        self.is_eof = False
        self.error: OSError | None = None
        # Nobody uses it any more.
        self.is_closed = False
        # Bytes that were sent to the peer and have not arrived.
        self.under_way = 0
        # Nothing that is sent from here arrives before this.
        self.arrives_at = 0.0
        # Pieces that a cut holds back, with their first attempt.
        self.held: deque[bytes | None] = deque()
        self.changed: Callable[[], None] = lambda: None
        self.tap: FrameTap | None = None

    @property
    def space(self) -> int:
        return UNREAD_BYTES_MAX - self.under_way - len(self.peer.inbox)

    def send(self, data: Buffer) -> int:
        if self.error is not None:
            raise self.error
        if self.is_closed:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        space = self.space
        if space <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        piece = bytes(memoryview(data)[:space])
        self.network.carry(self, piece)
        return len(piece)

    def receive(self, size: int) -> bytes:
        """b"" at the end of the stream."""
        if self.error is not None:
            raise self.error
        if not self.inbox:
            if self.is_eof:
                return b""
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        taken = bytes(self.inbox[:size])
        del self.inbox[:size]
        self.peer.changed()
        return taken

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.network.close(self)


class SimSocket:
    """An accepted connection, as `PlainTransport` uses it."""

    family = socket.AF_UNSPEC

    def __init__(self, end: End, loop: SimLoop, descriptor: int) -> None:
        self._end = end
        self._loop = loop
        self._descriptor = descriptor
        end.changed = self._changed
        self._changed()

    def _changed(self) -> None:
        end = self._end
        failed = end.error is not None
        self._loop.ready_changed(
            self._descriptor,
            readable=not end.is_closed and (failed or end.is_eof or bool(end.inbox)),
            writable=not end.is_closed and (failed or end.space > 0),
        )

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """Sizes of buffers make no difference here."""

    def recv(self, size: int) -> bytes:
        try:
            return self._end.receive(size)
        finally:
            self._changed()

    def recv_into(self, buffer: memoryview) -> int:
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: Buffer, flags: int = 0) -> int:
        if self._loop.is_dying:
            return len(data)
        try:
            return self._end.send(data)
        finally:
            self._changed()

    def sendmsg(
        self, parts: Sequence[Buffer], ancillary: Sequence[Any] = (), flags: int = 0
    ) -> int:
        return self.send(b"".join(parts))

    def close(self) -> None:
        if not self._loop.is_dying:
            self._end.close()
        self._changed()


class SimListeningSocket:
    """A bound address of a host."""

    def __init__(self, network: SimNetwork, loop: SimLoop, port: int, descriptor: int) -> None:
        self._network = network
        self.loop = loop
        self._port = port
        self._descriptor = descriptor
        self.backlog = 0
        self.waiting: deque[End] = deque()

    def fileno(self) -> int:
        return self._descriptor

    def getsockname(self) -> tuple[str, int]:
        return (self.loop.host, self._port)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """Sizes of buffers make no difference here."""

    def listen(self, backlog: int) -> None:
        self.backlog = max(1, backlog)

    def arrive(self, end: End) -> None:
        self.waiting.append(end)
        self._changed()

    def accept(self) -> tuple[SimSocket, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        end = self.waiting.popleft()
        self._changed()
        descriptor = self._network.descriptor()
        return SimSocket(end, self.loop, descriptor), (end.peer.host, 0)

    def _changed(self) -> None:
        is_readable = bool(self.waiting)
        self.loop.ready_changed(self._descriptor, readable=is_readable, writable=False)

    def close(self) -> None:
        if not self.loop.is_dying:
            self._network.unbind(self.loop.host, self._port)
            for end in self.waiting:
                self._network.reset(end)
        self.waiting.clear()
        self._changed()


class SimTransport(asyncio.Transport):
    """The connecting side, as asyncio's protocols use it."""

    def __init__(self, loop: SimLoop, end: End, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self._loop = loop
        self._end = end
        self._protocol = protocol
        self._unsent = bytearray()
        self._is_reading = False
        self._is_closing = False
        end.changed = self._changed
        protocol.connection_made(self)

    def _changed(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._progress)

    def _progress(self) -> None:
        self._is_reading = False
        self._pump()
        while not self._is_closing:
            buffer = memoryview(self._protocol.get_buffer(-1))
            try:
                data = self._end.receive(len(buffer))
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(error)
                return
            if not data:
                self._protocol.eof_received()
                self._lose(None)
                return
            buffer[: len(data)] = data
            self._protocol.buffer_updated(len(data))

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._unsent += data
            self._pump()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _pump(self) -> None:
        if self._loop.is_dying:
            return
        try:
            while self._unsent:
                del self._unsent[: self._end.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._loop.is_dying:
                self._end.close()
            self._loop.call_soon(self._protocol.connection_lost, error)

    def abort(self) -> None:
        self._lose(None)

    def close(self) -> None:
        self._lose(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class HostNetwork:
    """The network as one process sees it: what a node is handed."""

    def __init__(self, network: SimNetwork, loop: SimLoop) -> None:
        self._network = network
        self._loop = loop

    def bind(self, host: str, port: int) -> SimListeningSocket:
        assert host in {"", self._loop.host}, f"{host} is not a name of {self._loop.host}"
        return self._network.bind(self._loop, port)

    def host_name(self) -> str:
        return self._loop.host

    def descriptors_max(self) -> int:
        """Sockets and files of this world have numbers of their own, as many as anybody wants."""
        return sys.maxsize


class SimNetwork:
    """All hosts and connections; see the module's text."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._listening: dict[tuple[str, int], SimListeningSocket] = {}
        self._ends: dict[End, None] = {}
        self._without_power: dict[str, None] = {}
        # Ends of connections that were accepted, of which those who asked do not know yet.
        self._unanswered: dict[End, None] = {}
        # From and to; how many cuts are in force.
        self._cuts: dict[tuple[str, str], int] = {}
        self._slow: dict[tuple[str, str], float] = {}
        self._next_port = _PORT_FIRST
        self._next_descriptor = _DESCRIPTOR_FIRST
        self.connection_count = 0
        self.reset_count = 0
        self.message_count = 0

    def descriptor(self) -> int:
        self._next_descriptor += 1
        return self._next_descriptor

    # --- addresses

    def bind(self, loop: SimLoop, port: int) -> SimListeningSocket:
        if port == 0:
            self._next_port += 1
            port = self._next_port
        if (loop.host, port) in self._listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        found = SimListeningSocket(self, loop, port, self.descriptor())
        self._listening[loop.host, port] = found
        return found

    def unbind(self, host: str, port: int) -> None:
        self._listening.pop((host, port), None)

    # --- connecting

    async def connect(
        self, loop: SimLoop, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[SimTransport, Any]:
        established: asyncio.Future[End] = loop.create_future()
        self._knock(loop, established, host, port, self._kernel.now + PATIENCE_SECONDS)
        try:
            end = await established
        except asyncio.CancelledError:
            # Who gives up in the moment in which it is established closes it, as asyncio does.
            if established.done() and not established.cancelled() and not established.exception():
                established.result().close()
            raise
        protocol = factory()
        return SimTransport(loop, end, protocol), protocol

    def _knock(
        self, loop: SimLoop, established: asyncio.Future[End], host: str, port: int, until: float
    ) -> None:
        def arrive() -> None:
            if established.done() or loop.is_dying:
                return
            if self._kernel.now > until:
                reason = OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
                established.set_exception(reason)
                return
            listening = self._listening.get((host, port))
            is_heard = not self.is_cut(loop.host, host) and not self.is_cut(host, loop.host)
            is_full = listening is not None and len(listening.waiting) > listening.backlog
            if not is_heard or host in self._without_power or is_full:
                self._kernel.after(RETRY_SECONDS, arrive)
            elif listening is None or not listening.backlog:
                refusal = ConnectionRefusedError(
                    errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)
                )
                self._kernel.after(self._delay(host, loop.host), fail, refusal)
            else:
                near, far = self._pair(loop.host, host)
                self._unanswered[near] = None
                listening.arrive(far)
                self._kernel.after(self._delay(host, loop.host), answer, near)

        def answer(near: End) -> None:
            del self._unanswered[near]
            if established.done() or loop.is_dying:
                near.close()
            else:
                established.set_result(near)

        def fail(error: OSError) -> None:
            if not established.done() and not loop.is_dying:
                established.set_exception(error)

        self._kernel.after(self._delay(loop.host, host), arrive)

    def _pair(self, near_host: str, far_host: str) -> tuple[End, End]:
        self.connection_count += 1
        name = f"#{self.connection_count}"
        near, far = End(self, near_host, name), End(self, far_host, name)
        near.peer, far.peer = far, near
        near.tap = FrameTap(is_request=True)
        far.tap = FrameTap(is_request=False, asked=near.tap)
        self._ends[near] = self._ends[far] = None
        return near, far

    # --- carrying

    def _delay(self, source: str, target: str) -> float:
        random = self._kernel.random
        delay = random.uniform(DELAY_SECONDS_MIN, DELAY_SECONDS_MAX)
        slowness = self._slow.get((source, target))
        return delay if slowness is None else delay + random.uniform(0, slowness)

    def carry(self, end: End, piece: bytes | None) -> None:
        """Sends a piece, or the end of the stream, on its way."""
        kernel = self._kernel
        if piece is not None:
            end.under_way += len(piece)
            if end.tap is not None:
                for frame in end.tap.cut(piece):
                    self.message_count += 1
                    kernel.say(end.host, f"{end.name} to {end.peer.host}: {frame}")
            if len(piece) > 1 and kernel.random.random() < SPLIT_SHARE:
                middle = kernel.random.randrange(1, len(piece))
                self._launch(end, piece[:middle])
                piece = piece[middle:]
        self._launch(end, piece)

    def _launch(self, end: End, piece: bytes | None) -> None:
        kernel = self._kernel
        end.arrives_at = max(end.arrives_at, kernel.now + self._delay(end.host, end.peer.host))
        kernel.at(end.arrives_at, self._arrive, end, piece)

    def _arrive(self, end: End, piece: bytes | None) -> None:
        if end not in self._ends:
            return
        if end.held or self.is_cut(end.host, end.peer.host):
            if not end.held:
                self._kernel.after(PATIENCE_SECONDS, self._give_up, end, self._kernel.now)
            end.held.append(piece)
            return
        self._deliver(end, piece)

    def _deliver(self, end: End, piece: bytes | None) -> None:
        peer = end.peer
        if piece is not None:
            end.under_way -= len(piece)
        if peer.is_closed or peer not in self._ends:
            if piece is not None and peer.host not in self._without_power:
                self.reset(end)
            return
        if piece is None:
            peer.is_eof = True
        else:
            peer.inbox += piece
        peer.changed()

    def _give_up(self, end: End, since: float) -> None:
        """TCP's patience is over if the cut that began then is still there."""
        if end.held and end in self._ends and self._kernel.now - since >= PATIENCE_SECONDS:
            self.reset(end)

    def close(self, end: End) -> None:
        """The owner is done with its end."""
        self.carry(end, None)
        if end.peer.is_closed:
            self._forget(end)

    def reset(self, end: End) -> None:
        """Breaks a connection at once; what is under way is lost."""
        if end not in self._ends and end.peer not in self._ends:
            return
        self.reset_count += 1
        self._kernel.say("network", f"{end.name} {end.host} and {end.peer.host}: reset")
        for broken in (end, end.peer):
            if broken in self._ends and not broken.is_closed:
                broken.error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                broken.changed()
        self._forget(end)

    def _forget(self, end: End) -> None:
        self._ends.pop(end, None)
        self._ends.pop(end.peer, None)

    # --- faults

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def cut(self, source: str, target: str) -> None:
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        left = self._cuts.pop((source, target), 0) - 1
        if left > 0:
            self._cuts[source, target] = left
            return
        for end in tuple(self._ends):
            if (end.host, end.peer.host) == (source, target) and end.held:
                held = tuple(end.held)
                end.held.clear()
                for piece in held:
                    self._launch(end, piece)

    def slow_down(self, source: str, target: str, seconds: float) -> None:
        self._slow[source, target] = seconds

    def speed_up(self, source: str, target: str) -> None:
        self._slow.pop((source, target), None)

    def reset_one(self) -> bool:
        """Resets a connection of the seed's choice; False if there is none."""
        ends = tuple(self._ends)
        if ends:
            self.reset(self._kernel.random.choice(ends))
        return bool(ends)

    def host_down(self, host: str, *, is_silent: bool) -> None:
        """The process of a host is gone; with `is_silent` its machine is, too."""
        for address in [address for address in self._listening if address[0] == host]:
            del self._listening[address]
        if is_silent:
            self._without_power[host] = None
        for end in tuple(self._ends):
            if end.host == host and end in self._ends:
                end.is_closed = True
                if is_silent:
                    self._ends.pop(end)
                else:
                    self.reset(end)

    def host_up(self, host: str) -> None:
        self._without_power.pop(host, None)

    def open_ends(self, host: str) -> int:
        return sum(
            1
            for end in self._ends
            if end.host == host and not end.is_closed and end not in self._unanswered
        )
