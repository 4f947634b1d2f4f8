"""One connection to a broker: requests leave in order and are answered in order.

    connection = await Connection.open("localhost", 9092, settings)  # connects and negotiates
    answer = await connection.request(MetadataRequest(topics=None))  # highest common version
    future = connection.send(request)  # pipelined

A broker answers the requests of a connection in the order it got them, so the oldest request waits
for the next frame; any other correlation id ends the connection. A request that is not answered in
time ends the connection too, with all that wait after it, since its answer would have to come
first.

Input: frames are cut from a scratch buffer; once the size of a larger frame is known, the rest of
it is received straight into its own buffer. The records of a fetch answer are views into that
buffer and never copied.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections import deque
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import kaa
from kaa import limits
from kaa.client.errors import (
    DisconnectedError,
    NoTlsError,
    ProtocolError,
    RequestTimeoutError,
    UnreachableError,
    UnsupportedApiError,
    UntrustedError,
    check,
)
from kaa.client.security.sasl import SaslError, mechanism_of
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from kaa.wire.primitives import WireError
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from kaa.client.security.sasl import Credentials
    from kaa.wire.messages.k18_api_versions import ApiVersionsResponse
    from kaa.wire.registry import Api
    from kaa.wire.schema import Request

Answer = TypeVar("Answer")

_SIZE_BYTES: Final = 4
# A connection is used for this share of the time after which its user must authenticate again.
_SESSION_SHARE: Final = 0.85


_log = logging.getLogger(__name__)


class ConnectionSettings(NamedTuple):
    """What all connections of a client have in common."""

    client_id: str | None = None
    request_timeout_ms: int = 30_000
    setup_timeout_ms: int = 10_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


class _Pending(NamedTuple):
    """A request that waits for its answer."""

    correlation_id: int
    api: Api
    version: int
    deadline: float
    future: asyncio.Future[Any]


def common_version(own: Api, low: int, high: int, highest_wanted: int | None = None) -> int:
    """The highest version that both sides serve; raises UnsupportedApiError if there is none."""
    served = own.served_versions()
    version = min(served.high, high)
    if highest_wanted is not None:
        version = min(version, highest_wanted)
    if version < max(served.low, low):
        raise UnsupportedApiError(
            f"the broker serves {own.name} in versions {low} to {high}, this client speaks "
            f"{served.low} to {served.high}; use a broker of Kafka 2.1 or newer"
        )
    return version


def _reason(error: OSError) -> str:
    """The operating system's words; asyncio has put its own in their place."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)


class FrameReader:
    """Cuts frames out of what arrives; `buffer` is where the next bytes go."""

    __slots__ = ("_end", "_frame", "_frame_end", "_scratch", "_view", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int = limits.CLIENT_FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._scratch = bytearray(limits.CLIENT_SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        # Bytes of the scratch buffer that hold input.
        self._end = 0
        # A frame that did not fit, and how much of it is there.
        self._frame: bytearray | None = None
        self._frame_end = 0

    def buffer(self) -> memoryview:
        """Where the next bytes of the socket go."""
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_end :]
        return self._view[self._end :]

    def received(self, count: int) -> list[bytes | bytearray]:
        """The frames (without their sizes) that are whole now; raises ProtocolError."""
        if self._frame is not None:
            self._frame_end += count
            if self._frame_end < len(self._frame):
                return []
            whole, self._frame = self._frame, None
            return [whole]
        self._end += count
        frames: list[bytes | bytearray] = []
        position = 0
        while self._end - position >= _SIZE_BYTES:
            size = int.from_bytes(self._view[position : position + _SIZE_BYTES], "big")
            if size > self.frame_bytes_max:
                raise ProtocolError(
                    f"an answer claims {size} bytes, at most {self.frame_bytes_max} are taken; "
                    "is this a listener of Kafka, and is security.protocol right?"
                )
            start = position + _SIZE_BYTES
            if self._end - start < size:
                break
            frames.append(bytes(self._view[start : start + size]))
            position = start + size
        self._keep(position)
        return frames

    def _keep(self, position: int) -> None:
        """Moves an unfinished frame to the front, or into a buffer of its own."""
        left = self._end - position
        if left >= _SIZE_BYTES:
            size = int.from_bytes(self._view[position : position + _SIZE_BYTES], "big")
            if size + _SIZE_BYTES > len(self._scratch) - position:
                self._frame = bytearray(size)
                self._frame_end = left - _SIZE_BYTES
                self._frame[: self._frame_end] = self._view[position + _SIZE_BYTES : self._end]
                self._end = 0
                return
        if position:
            self._scratch[:left] = self._scratch[position : self._end]
            self._end = left


class Connection(asyncio.BufferedProtocol):
    """A connection to one broker. Made by `open`; once it has broken it stays broken, and every
    request that waits fails.
    """

    def __init__(self, address: str, settings: ConnectionSettings) -> None:
        self.address = address
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        # When another connection should take its place; None: never.
        self._renew_at: float | None = None
        # Why it ended; None while it is open.
        self._failure: Exception | None = None
        # Lowest and highest version by API key, as the broker said.
        self.versions: dict[int, tuple[int, int]] = {}
        self.api_versions: ApiVersionsResponse | None = None

    @classmethod
    async def open(cls, host: str, port: int, settings: ConnectionSettings) -> Connection:
        """Connects and learns which versions the broker serves."""
        loop = asyncio.get_running_loop()
        address = f"{host}:{port}"
        connection: Connection | None = None
        try:
            async with asyncio.timeout(settings.setup_timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: cls(address, settings), host, port, ssl=settings.tls
                )
                await connection.negotiate()
                await connection.authenticate()
        except TimeoutError:
            if connection is not None:
                connection.close()
            raise UnreachableError(
                address, f"no answer within {settings.setup_timeout_ms} ms"
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise UntrustedError(address, error.verify_message) from error
        except ssl.SSLError as error:
            if error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
                raise NoTlsError(address) from error
            raise UnreachableError(address, f"no TLS ({error.reason})") from error
        except OSError as error:
            is_cut_off = isinstance(error, ConnectionResetError | ConnectionAbortedError)
            if settings.tls is not None and connection is None and is_cut_off:
                raise NoTlsError(address) from error
            raise UnreachableError(address, _reason(error)) from error
        except BaseException as error:
            if connection is not None:
                connection.close()
            elif isinstance(error, ValueError | OverflowError):
                # A label of the name is empty or too long, or the port is too high.
                raise UnreachableError(address, f"this is not a valid address ({error})") from error
            raise
        return connection

    async def negotiate(self) -> None:
        """Asks which versions the broker serves; the first thing on a connection."""
        request = ApiVersionsRequest(
            client_software_name="kaa", client_software_version=kaa.__version__
        )
        newest = api(ApiKey.API_VERSIONS).served_versions().high
        answer = await self.send(request, version=newest)
        if answer.error_code == Errors.UNSUPPORTED_VERSION:
            # The answer has the oldest form and names what the broker speaks.
            for entry in answer.api_keys:
                if entry.api_key == ApiKey.API_VERSIONS:
                    newest = min(newest, entry.max_version)
                    break
            else:
                newest = 0
            answer = await self.send(request, version=newest)
        check(answer.error_code, "cannot learn the versions of the broker", node=self.address)
        self.api_versions = answer
        self.versions = {
            entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys
        }

    async def authenticate(self) -> None:
        """Proves who this client is, if its settings name somebody."""
        given = self._settings.credentials
        if given is None:
            return
        what = f"user {given.username!r} cannot authenticate"
        if given.tokens is not None:
            what = "the bearer of the token cannot authenticate"
        answer = await self.send(SaslHandshakeRequest(mechanism=given.mechanism), version=1)
        offered = f"the listener offers {', '.join(answer.mechanisms) or 'nothing'}"
        check(answer.error_code, what, message=offered, node=self.address)
        mechanism = await mechanism_of(given, token_urlsafe(24))
        message: bytes | None = mechanism.start()
        while message is not None:
            answer = await self.send(SaslAuthenticateRequest(auth_bytes=message))
            check(answer.error_code, what, message=answer.error_message, node=self.address)
            try:
                message = mechanism.answer(bytes(answer.auth_bytes))
            except (SaslError, ValueError) as error:
                raise ProtocolError(f"{what}: {error}") from error
        lifetime_ms = answer.session_lifetime_ms or 0
        if lifetime_ms > 0:
            # The broker ends the connection then; callers take another one before that.
            self._renew_at = self._loop.time() + lifetime_ms / 1000 * _SESSION_SHARE

    @property
    def is_open(self) -> bool:
        return self._failure is None and self._transport is not None

    @property
    def is_to_be_renewed(self) -> bool:
        """Whether the broker will soon end it because its user has to authenticate again."""
        return self._renew_at is not None and self._loop.time() >= self._renew_at

    @property
    def in_flight_count(self) -> int:
        return len(self._pending)

    def version_of(self, key: int, highest: int | None = None) -> int:
        """The version in which an API is used here."""
        own = api(key)
        bounds = self.versions.get(key)
        if bounds is None:
            raise UnsupportedApiError(f"the broker {self.address} does not serve {own.name}")
        return common_version(own, *bounds, highest)

    def finalized_features(self) -> dict[str, int]:
        """The levels of features that the cluster has agreed on, as the broker said."""
        if self.api_versions is None:
            return {}
        return {
            feature.name: feature.max_version_level
            for feature in self.api_versions.finalized_features or ()
        }

    def require(self, key: int, lowest: int, what: str) -> None:
        """Raises UnsupportedApiError if an API is too old here for what is wanted of it."""
        bounds = self.versions.get(key, (0, -1))
        if bounds[1] < lowest:
            raise UnsupportedApiError(
                f"the broker {self.address} serves {api(key).name} up to version {bounds[1]}, "
                f"{what} needs {lowest}; use a newer broker or do without"
            )

    async def request(
        self, request: Request[Answer], *, version: int | None = None, timeout_ms: int | None = None
    ) -> Answer:
        """Sends a request and waits for its answer."""
        answer: Answer = await self.send(request, version=version, timeout_ms=timeout_ms)
        return answer

    def send(
        self,
        request: Request,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
        is_answered: bool = True,
    ) -> asyncio.Future[Any]:
        """Sends a request now; the future is its answer (None at once if none will come)."""
        if self._failure is not None:
            raise self._failure
        if len(self._pending) >= limits.CLIENT_IN_FLIGHT_REQUESTS_MAX:
            raise RequestTimeoutError(f"too many requests wait for {self.address}")
        if version is None:
            version = self.version_of(request.api_key)
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request(request, version, correlation_id, self._settings.client_id)
        assert self._transport is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        if is_answered:
            timeout = (timeout_ms or self._settings.request_timeout_ms) / 1000
            deadline = self._loop.time() + timeout
            self._pending.append(
                _Pending(correlation_id, api(request.api_key), version, deadline, future)
            )
            if self._timer is None or deadline < self._timer.when():
                self._watch(deadline)
        else:
            future.set_result(None)
        self._transport.writelines(parts)
        return future

    def close(self) -> None:
        """Ends the connection; what waits fails."""
        self._end(DisconnectedError(self.address, "it was closed here"))

    # --- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in {socket.AF_INET, socket.AF_INET6}:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._settings.send_buffer_bytes > 0:
                size = self._settings.send_buffer_bytes
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            if self._settings.receive_buffer_bytes > 0:
                size = self._settings.receive_buffer_bytes
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._reader.received(nbytes):
                self._answer(frame)
        except (ProtocolError, WireError) as error:
            self._end(ProtocolError(f"bad answer of {self.address}: {error}"))

    def eof_received(self) -> None:
        self._end(DisconnectedError(self.address, "the broker closed it"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(DisconnectedError(self.address, str(exc or "the broker closed it")))

    def _answer(self, frame: bytes | bytearray) -> None:
        if not self._pending:
            raise ProtocolError("an answer without a request")
        pending = self._pending.popleft()
        version = pending.version
        if pending.api.key is ApiKey.API_VERSIONS and frame[
            4:6
        ] == Errors.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
        try:
            correlation_id, response = decode_response(frame, pending.api, version)
            if correlation_id != pending.correlation_id:
                raise ProtocolError(
                    f"an answer with id {correlation_id} in place of {pending.correlation_id}"
                )
        except (ProtocolError, WireError):
            self._pending.appendleft(pending)
            raise
        if not pending.future.done():
            pending.future.set_result(response)

    def _watch(self, deadline: float) -> None:
        """Looks at the deadlines no later than then. The timer may outlive its request, so that
        most requests need none of their own.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if not self._pending:
            return
        # Answers come in the order of requests, deadlines need not.
        first = min(self._pending, key=lambda pending: pending.deadline)
        if first.deadline <= self._loop.time():
            text = f"{self.address} did not answer {first.api.name} in time"
            _log.warning("%s; another connection is opened", text)
            self._end(RequestTimeoutError(text))
        else:
            self._watch(first.deadline)

    def _end(self, failure: Exception) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        _log.debug("%s", failure)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        while self._pending:
            future = self._pending.popleft().future
            if not future.done():
                future.set_exception(failure)
                # A caller that stopped waiting does not want to hear of it either.
                future.exception()
