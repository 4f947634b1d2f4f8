"""One client's connection: frames in, answers out in order, and back-pressure.

**Frames.** A frame is an int32 size and that many bytes. All connections of a listener read into
one shared scratch buffer; a frame that is whole in there is dispatched from there, without a copy.
What is left of an unfinished frame moves into a buffer of the connection's own, whose memory grows
with what was received and never with what was announced. An idle connection owns no buffer.

**Order.** As in Kafka, a frame is dispatched when the one before it is done, with one exception: an
answer may be *parked* (what was appended, or decided by a coordinator, and now waits to be
committed), and then later frames go on. Answers leave in the order of their requests whatever the
order in which they become known.

**Back-pressure.** With too many parked answers, too many queued bytes, or a frame under way that is
not parked, the socket is not read; the client's own buffers fill, and it waits.

**Patience.** A client that connects has a while to send its first request, and one that begins a
frame has a while to finish it, longer the more of it has arrived. Time in which the node itself
does not read does not count.

**Turns.** A client that sends many small frames at once gets a number of them dispatched per turn
of the loop, and is sent a number of bytes, and then the others have theirs.

**Buffers.** A dispatcher may keep views of a frame only until it returns, or, if it returns
`Pending` that holds the frame, until that is done: the scratch buffer is then left to it and a new
one is taken.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from kaa import limits
from kaa.log.errors import StorageError
from kaa.net.outbox import Outbox
from kaa.net.pages import ColdPages, warm
from kaa.net.pending import Hold

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from kaa.net.outbox import Place
    from kaa.net.pending import Pending, Reply
    from kaa.net.transport import Transport

_SIZE: Final = struct.Struct(">i")
# Of memory that is only promised, the system need not have all that is promised to everybody; where
# it does not know that, it promises as it likes.
_PRIVATE: Final[int] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)


class CloseConnectionError(Exception):
    """Raised by a dispatcher whose client can only be cut off; the text says why."""


class Dispatcher(Protocol):
    """Turns a frame, without its size, into parts to send, into no parts, or into Pending."""

    def __call__(self, connection: Connection, frame: memoryview, /) -> Reply: ...


class Surroundings(Protocol):
    """What a connection needs of the listener that accepted it."""

    loop: asyncio.AbstractEventLoop
    # Where cold pages are read.
    executor: Executor
    frame_bytes_max: int

    def scratch(self) -> memoryview: ...

    def replace_scratch(self) -> None: ...

    def closed(self, connection: Connection, reason: str) -> None: ...


class Connection:
    """The server's end of one client's connection. The listener makes it; `finish` lets answers
    under way leave first, `close` does not.
    """

    __slots__ = (
        "_buffer",
        "_dispatch",
        "_fileno",
        "_have",
        "_is_busy",
        "_is_closing",
        "_is_reading",
        "_is_warming",
        "_is_writing",
        "_is_yielding",
        "_outbox",
        "_surroundings",
        "_transport",
        "_waiting_from",
        "_when_closed",
        "active_at",
        "facts",
        "frame_count",
        "is_closed",
        "listener_name",
        "peer",
    )

    def __init__(
        self,
        surroundings: Surroundings,
        transport: Transport,
        dispatch: Dispatcher,
        *,
        listener_name: str,
        peer: str,
    ) -> None:
        self._surroundings = surroundings
        self._transport = transport
        self._fileno = transport.fileno()
        self._dispatch = dispatch
        self._outbox = Outbox(transport)
        # Bytes that were received and not dispatched, from the start of a frame; None if there are
        # none.
        self._buffer: bytearray | mmap.mmap | None = None
        self._have = 0
        # A dispatched frame that is not parked: no other is dispatched before it is done.
        self._is_busy = False
        self._is_reading = False
        self._is_writing = False
        self._is_warming = False
        # Whole frames are left for the next turn of the loop.
        self._is_yielding = False
        # No more frames are taken; the connection ends when its answers have left.
        self._is_closing = False
        self.is_closed = False
        self.listener_name = listener_name
        self.peer = peer
        # Loop time of the last input, for closing idle connections.
        self.active_at = surroundings.loop.time()
        # Loop time since which the node waits for the first frame, or for the rest of one.
        self._waiting_from = self.active_at
        self.frame_count = 0
        # What the dispatcher remembers of this client: its principal, its software.
        self.facts: dict[str, Any] = {}
        self._when_closed: tuple[Callable[[], None], ...] = ()
        self._update_reading()

    @property
    def is_idle(self) -> bool:
        """No request under way and no answer owed."""
        return not self._is_busy and self._outbox.is_empty and self._buffer is None

    def is_late(self, now: float) -> bool:
        """Whether the client takes longer for its first frame, or the rest of one, than it may."""
        if not self._is_reading:
            return False
        if self._buffer is None:
            seconds_max = limits.NET_FIRST_REQUEST_SECONDS_MAX
            return self.frame_count == 0 and now - self._waiting_from > seconds_max
        earned_seconds = self._have / limits.NET_FRAME_BYTES_PER_SECOND_MIN
        return now - self._waiting_from > limits.NET_FRAME_SECONDS_MAX + earned_seconds

    # --- input

    def _readable(self) -> None:
        if not self._may_dispatch():
            return
        self.active_at = self._surroundings.loop.time()
        try:
            while self._receive() and self._transport.may_hold_input and self._may_dispatch():
                pass
        except BlockingIOError:
            self._update_writing()
        except CloseConnectionError as error:
            self.close(str(error))
        except (OSError, EOFError) as error:
            self.close(str(error) or type(error).__name__)
        else:
            self._update_reading()

    def _receive(self) -> bool:
        """Takes one piece of input and dispatches what is whole; False if the client is gone."""
        if self._buffer is not None:
            return self._receive_more(self._buffer)
        scratch = self._surroundings.scratch()
        count = self._transport.recv_into(scratch)
        if count == 0:
            self.close("the client closed")
            return False
        used = self._take_frames(scratch, count)
        if not self.is_closed and used < count:
            self._keep(scratch[used:count])
        return not self.is_closed

    def _receive_more(self, buffer: bytearray | mmap.mmap) -> bool:
        """Continues an unfinished frame in the connection's own buffer."""
        if self._have == len(buffer):
            buffer = self._buffer = self._grown(buffer)
        with memoryview(buffer) as view:
            end = self._have + limits.NET_RECEIVED_PER_TURN_BYTES_MAX
            count = self._transport.recv_into(view[self._have : end])
        if count == 0:
            self.close("the client closed within a frame")
            return False
        self._have += count
        self._take_kept()
        return not self.is_closed

    def _take_kept(self) -> None:
        """Dispatches the whole frames of the connection's own buffer."""
        buffer, have = self._buffer, self._have
        if buffer is None:
            return
        used = self._take_frames(memoryview(buffer), have)
        if used == 0 or self.is_closed:
            return
        self._buffer = None
        if used < have:
            self._keep(memoryview(buffer)[used:have])

    def _keep(self, rest: memoryview) -> None:
        self._buffer = buffer = bytearray(max(len(rest), limits.NET_FRAME_BUFFER_BYTES_MIN))
        buffer[: len(rest)] = rest
        self._have = len(rest)
        self._waiting_from = self._surroundings.loop.time()

    def _grown(self, buffer: bytearray | mmap.mmap) -> bytearray | mmap.mmap:
        """A larger copy: twice the size, but not beyond the frame that is being received. What is
        too large to be copied again gets all the addresses of its frame: the system gives them
        memory when something is written there.
        """
        (size,) = _SIZE.unpack_from(buffer)
        target = max(min(2 * len(buffer), _SIZE.size + size), len(buffer) + 1)
        grown: bytearray | mmap.mmap
        if target > limits.NET_RECEIVED_PER_TURN_BYTES_MAX:
            grown = mmap.mmap(-1, max(_SIZE.size + size, target), flags=_PRIVATE)
        else:
            grown = bytearray(target)
        grown[: len(buffer)] = buffer
        return grown

    def _take_frames(self, view: memoryview, have: int) -> int:
        """Dispatches whole frames from the front of `view`; returns the bytes they took."""
        position = 0
        left = limits.NET_FRAMES_PER_TURN_MAX
        while have - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(view, position)
            if not 0 < size <= self._surroundings.frame_bytes_max:
                raise CloseConnectionError(
                    f"a frame of {size} bytes is outside 1..{self._surroundings.frame_bytes_max}"
                )
            end = position + _SIZE.size + size
            if end > have or not self._may_dispatch():
                break
            if left == 0:
                self._yield()
                break
            left -= 1
            self._take_frame(view[position + _SIZE.size : end])
            position = end
            if self.is_closed:
                break
        return position

    def _yield(self) -> None:
        """Leaves the rest for the next turn."""
        if not self._is_yielding:
            self._is_yielding = True
            self._surroundings.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_yielding = False
        self._resume()

    def _take_frame(self, frame: memoryview) -> None:
        self.frame_count += 1
        answer = self._dispatch(self, frame)
        if isinstance(answer, list):
            if answer and self._outbox.is_empty:
                self._outbox.put(answer)
                self._flush()
            elif answer:
                self._outbox.fill(self._outbox.open(), answer)
            return
        if answer.hold is Hold.FRAME and self._buffer is None:
            self._surroundings.replace_scratch()
        self._wait_for(answer, self._outbox.open())

    def _wait_for(self, answer: Pending[Any], place: Place) -> None:
        """Fills the place when the answer is known; what it holds waits until then."""
        is_busy = answer.hold is not Hold.NOTHING
        # Another one may hold the connection meanwhile.
        self._is_busy |= is_busy
        encode = answer.encode or _parts

        def done(future: asyncio.Future[Any]) -> None:
            if self.is_closed:
                _drop(future, encode)
                return
            try:
                parts = encode(future)
            except CloseConnectionError as error:
                self.close(str(error))
                return
            if is_busy:
                self._is_busy = False
            if isinstance(parts, list):
                self._outbox.fill(place, parts)
                self._flush()
            else:
                self._wait_for(parts, place)
            self._resume()

        _future(answer).add_done_callback(done)

    def _resume(self) -> None:
        """Goes on with frames that were received while the connection could not take them."""
        if self.is_closed:
            return
        try:
            if self._buffer is not None and self._may_dispatch():
                self._take_kept()
        except CloseConnectionError as error:
            self.close(str(error))
        self._update_reading()

    # --- back-pressure

    def _may_dispatch(self) -> bool:
        """Whether another frame is taken now; what comes meanwhile stays in the socket."""
        return (
            not self._is_busy
            and not self.is_closed
            and not self._is_yielding
            and not self._is_closing
            and len(self._outbox.places) < limits.NET_PARKED_ANSWERS_MAX
            and self._outbox.bytes_queued < limits.NET_QUEUED_BYTES_MAX
        )

    def _update_reading(self) -> None:
        wanted = self._may_dispatch()
        if wanted and not self._is_reading:
            self._waiting_from = self._surroundings.loop.time()
            self._surroundings.loop.add_reader(self._fileno, self._readable)
            if self._transport.may_hold_input:
                # What the transport has taken from the socket already, nobody tells of.
                self._surroundings.loop.call_soon(self._readable)
        elif not wanted and self._is_reading and not self.is_closed:
            self._surroundings.loop.remove_reader(self._fileno)
        self._is_reading = wanted

    # --- output

    def _flush(self) -> None:
        if self._is_warming or self.is_closed:
            return
        try:
            is_sent = self._outbox.send()
        except ColdPages as pages:
            self._warm(pages)
            is_sent = True
        except (OSError, EOFError, StorageError) as error:
            self.close(str(error) or type(error).__name__)
            return
        if self._is_writing or not is_sent or self._transport.wants_write:
            self._update_writing()
        if self._is_closing and self._outbox.is_empty:
            self.close("done")

    def _update_writing(self) -> None:
        if self.is_closed:
            return
        wanted = self._transport.wants_write or (self._outbox.is_sendable and not self._is_warming)
        if wanted and not self._is_writing:
            self._surroundings.loop.add_writer(self._fileno, self._writable)
        elif not wanted and self._is_writing:
            self._surroundings.loop.remove_writer(self._fileno)
        self._is_writing = wanted

    def _writable(self) -> None:
        self._flush()
        self._resume()
        if not self.is_closed and self._transport.wants_write:
            # The transport has bytes of its own to send, as in a handshake: reading moves it on.
            self._readable()

    def _warm(self, pages: ColdPages) -> None:
        self._is_warming = True
        surroundings = self._surroundings
        future = surroundings.loop.run_in_executor(
            surroundings.executor, warm, pages.region.descriptor, pages.position, pages.length
        )

        def done(future: asyncio.Future[None]) -> None:
            self._is_warming = False
            error = None if future.cancelled() else future.exception()
            if self.is_closed:
                # The file was given back, and perhaps closed under the thread.
                return
            if isinstance(error, OSError):
                self.close(str(pages.region.failed(error)))
                return
            self._outbox.warmed(pages)
            self._flush()
            self._resume()

        future.add_done_callback(done)

    # --- end

    def finish(self) -> None:
        """Takes no more frames; closes when every answer that is owed has left."""
        self._is_closing = True
        if self.is_idle or (not self._is_busy and self._outbox.is_empty):
            self.close("done")
        else:
            self._update_reading()

    def close(self, reason: str) -> None:
        """Ends the connection now; answers still owed are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        loop = self._surroundings.loop
        if self._is_reading:
            loop.remove_reader(self._fileno)
        if self._is_writing:
            loop.remove_writer(self._fileno)
        self._is_reading = self._is_writing = False
        self._outbox.release()
        self._buffer = None
        self._transport.close()
        self._surroundings.closed(self, reason)
        for callback in self._when_closed:
            callback()

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Calls back when the connection has ended, for whatever reason."""
        self._when_closed += (callback,)


def _future(answer: Pending[Any]) -> asyncio.Future[Any]:
    assert isinstance(answer.response, asyncio.Future), "a dispatcher starts its coroutines"
    return answer.response


def _parts(future: asyncio.Future[Any]) -> Reply:
    """The parts that a future gives by itself."""
    error = None if future.cancelled() else future.exception()
    if isinstance(error, CloseConnectionError):
        raise error
    if future.cancelled() or error is not None:
        raise CloseConnectionError("a request could not be answered")
    parts: Reply = future.result()
    return parts


def _drop(future: asyncio.Future[Any], encode: Callable[[asyncio.Future[Any]], Reply]) -> None:
    """Takes an answer that nobody waits for, and gives back the files in it."""
    try:
        parts = encode(future)
    except CloseConnectionError:
        return
    if isinstance(parts, list):
        for part in parts:
            if hasattr(part, "release") and not isinstance(part, bytes | bytearray | memoryview):
                part.release()
    else:
        later = parts.encode or _parts
        _future(parts).add_done_callback(lambda done: _drop(done, later))
