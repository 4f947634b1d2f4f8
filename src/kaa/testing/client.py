"""A small blocking client: one request, one answer, any broker.

It exists so that the helpers of a test see what a client sees, over the wire and without another
package. Its versions stop where topics are named by ids, since tests name them by names, and are
those that the other side has.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING, Any, Final

from kaa import limits
from kaa.config.addresses import parse_host_port
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_response, encode_request
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.wire.messages.k03_metadata import MetadataResponse
    from kaa.wire.schema import Request

Address = tuple[str, int]
CLIENT_ID: Final = "kaa-testing"
_SIZE: Final = struct.Struct(">i")
# The last versions that name topics rather than give ids.
_HIGHEST: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.DELETE_TOPICS: 5,
    # The last versions that are about one group.
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    # The last version in which a group that does not exist is not an error.
    ApiKey.DESCRIBE_GROUPS: 5,
}


class RefusedError(Exception):
    """The broker said no; `error` is its code."""

    def __init__(self, what: str, error: Errors, message: str | None = None) -> None:
        super().__init__(f"{what}: {error.name} ({message or error.message})")
        self.error = error


def check(what: str, code: int, message: str | None = None) -> None:
    """Raises RefusedError unless the code says that all is well."""
    if code:
        raise RefusedError(what, Errors.of(code), message)


class Connection:
    """One connection to one broker, whose versions are asked for first."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), limits.TESTING_ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count = 0
        try:
            answer = self._exchange(ApiVersionsRequest(), 0)
        except BaseException:
            self.close()
            raise
        self._versions = {row.api_key: row.max_version for row in answer.api_keys}

    def send(self, request: Request) -> Any:
        """The answer to a request, in the highest version that both sides have."""
        key = ApiKey(request.api_key)
        if key not in self._versions:
            raise RefusedError(key.name, Errors.UNSUPPORTED_VERSION)
        known = request.valid_versions.high
        highest = min(_HIGHEST.get(key, known), known, self._versions[key])
        return self._exchange(request, highest)

    def _exchange(self, request: Request, version: int) -> Any:
        self._count += 1
        parts = encode_request(request, version, self._count, CLIENT_ID)
        self._socket.sendall(b"".join(parts))
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        frame = self._receive(size)
        number, answer = decode_response(frame, api(ApiKey(request.api_key)), version)
        assert number == self._count, "an answer to another request"
        return answer

    def _receive(self, size: int) -> bytearray:
        frame = bytearray(size)
        view = memoryview(frame)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionError("the broker closed the connection")
            view = view[count:]
        return frame

    def close(self) -> None:
        self._socket.close()


class Client:
    """Connections to a cluster: to the first broker that answers, and to leaders by their id."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = [_address(text) for text in bootstrap_servers.split(",")]
        self._open: dict[Address, Connection] = {}
        self._nodes: dict[int, Address] = {}
        # Threads of a test may use the helpers of one broker.
        self._lock = threading.Lock()

    def send(self, request: Request, node_id: int | None = None) -> Any:
        """The answer of a broker, or of any; a connection that was lost is made once more."""
        with self._lock:
            try:
                return self._connection(node_id).send(request)
            except ConnectionError:
                self.close()
                return self._connection(node_id).send(request)

    def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """What the cluster says about some topics, or about all; none is created by it."""
        rows = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=rows, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.send(request)
        self._nodes = {node.node_id: (node.host, node.port) for node in answer.brokers}
        return answer

    def know(self, node_id: int, host: str, port: int) -> None:
        """Remembers the address of a broker that was named in some answer."""
        self._nodes[node_id] = (host, port)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def _connection(self, node_id: int | None) -> Connection:
        addresses = self._bootstrap
        if node_id is not None and node_id in self._nodes:
            addresses = [self._nodes[node_id]]
        for address in addresses:
            if address in self._open:
                return self._open[address]
        failure: OSError | None = None
        for address in addresses:
            try:
                connection = self._open[address] = Connection(*address)
            except OSError as error:
                failure = error
            else:
                return connection
        raise ConnectionError(f"no broker answers at {addresses}: {failure}") from failure


def setting_text(value: object) -> str:
    """A setting as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _address(text: str) -> Address:
    entry = text.strip()
    host, port = parse_host_port("bootstrap.servers", entry, entry, "host:port")
    return host, port
