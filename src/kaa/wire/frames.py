"""Frames: what stands between two parties on a connection.

A request:

| field | type | note |
|---|---|---|
| size | int32 | of all that follows |
| api key | int16 | |
| api version | int16 | |
| correlation id | int32 | |
| client id | int16 length and bytes | length -1 for null, also in header version 2 |
| tagged fields | | only header version 2 |
| body | | |

A response:

| field | type | note |
|---|---|---|
| size | int32 | of all that follows |
| correlation id | int32 | |
| tagged fields | | only header version 1 |
| body | | |

The version of a header follows from the key and version of its request (`registry`). A request
header is read on every request and before anything else is known about its sender, so it is read
here by hand, bounded, and without a copy of the frame; the class `RequestHeader` describes the same
bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa import limits
from kaa.wire.primitives import WireError, read_uvarint
from kaa.wire.registry import ApiKey, api
from kaa.wire.schema import Response

if TYPE_CHECKING:
    from kaa.wire.codec import Codec
    from kaa.wire.primitives import Versions
    from kaa.wire.registry import Api
    from kaa.wire.schema import Request

_HEADER: Final = struct.Struct(">hhih")
_SIZE: Final = struct.Struct(">i")
# Of a response: size, correlation id, and in version 1 the number of tagged fields, which is 0.
_HEAD: Final = struct.Struct(">ii")
_TAGGED_HEAD: Final = struct.Struct(">iib")


class RequestFrame(NamedTuple):
    """The header of a request, and where its body starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


class UnknownApiError(WireError):
    """A request with a key that Kafka does not have; its header cannot be read further."""


def read_request_header(frame: bytes | bytearray | memoryview) -> RequestFrame:
    """Reads the header of a frame (without its size); raises WireError on anything malformed.

    A version that the API does not have is accepted here: the header of an unknown newer version is
    read like that of the newest, so that ApiVersions can be answered with what is supported.
    """
    if len(frame) < _HEADER.size:
        raise WireError("a request header is cut short")
    key, version, correlation_id, client_size = _HEADER.unpack_from(frame)
    position = _HEADER.size
    client_id = None
    if client_size >= 0:
        end = position + client_size
        if end > len(frame):
            raise WireError("a client id is cut short")
        try:
            client_id = str(frame[position:end], "utf-8")
        except UnicodeDecodeError:
            raise WireError("a client id is not UTF-8") from None
        position = end
    elif client_size != -1:
        raise WireError("a client id has a negative length")
    low, high = _flexible_versions.get(key) or _find_flexible_versions(key)
    # As `Api.request_header_version` says.
    if low <= version <= high:
        # Clients send none: a single 0.
        has_none = position < len(frame) and frame[position] == 0
        position = position + 1 if has_none else _skip_tags(frame, position)
    return RequestFrame(key, version, correlation_id, client_id, position)


# By key, for the APIs that were asked for.
_flexible_versions: Final[dict[int, Versions]] = {}


def _find_flexible_versions(key: int) -> Versions:
    try:
        found = _flexible_versions[key] = api(key).request.flexible_versions
    except ValueError:
        raise UnknownApiError(f"there is no API with key {key}") from None
    return found


def _skip_tags(frame: bytes | bytearray | memoryview, position: int) -> int:
    """Kafka defines no tagged field of a request header, so that nothing is kept of them."""
    try:
        count, position = read_uvarint(frame, position)
        if count > limits.WIRE_HEADER_TAGGED_FIELDS_MAX:
            raise WireError("a request header has more tagged fields than allowed")
        for _ in range(count):
            _, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            position += size
    except IndexError:
        raise WireError("the tagged fields of a request header are cut short") from None
    if position > len(frame):
        raise WireError("a tagged field of a request header is cut short")
    return position


def decode_request(
    frame: bytes | bytearray | memoryview,
    header: RequestFrame,
    *,
    authenticated: bool = True,
    elements_max: int = 0,
) -> Any:
    """The request in a frame whose header was read; before authentication under small limits, and
    with a limit of its own as if what has more were malformed.

    Bytes after the request are passed over, as Kafka passes over them.
    """
    codec = api(header.api_key).request.codec(header.api_version)
    if authenticated:
        return codec.decode_prefix(frame, header.body_position, elements_max=elements_max)[0]
    return codec.decode_prefix(
        frame,
        header.body_position,
        elements_max=limits.WIRE_UNAUTHENTICATED_ELEMENTS_MAX,
        tagged_fields_max=limits.WIRE_UNAUTHENTICATED_TAGGED_FIELDS_MAX,
    )[0]


def encode_request(
    request: Request, version: int, correlation_id: int, client_id: str | None
) -> list[Any]:
    """A request frame with its size, as buffers to send in order."""
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    if client_size > limits.WIRE_STRING_BYTES_MAX:
        raise WireError(f"a client id of {client_size} bytes is too long")
    codec = request.codec(version)
    head = bytes(_SIZE.size) + _HEADER.pack(request.api_key, version, correlation_id, client_size)
    head += client + b"\0" if codec.is_flexible else client
    return codec.encode_frame(request, head)


class EncodedResponse(Response):
    """A response that was encoded before, by the codec of the version that is asked for."""

    __slots__ = ("body", "written_by")

    def __init__(self, written_by: Codec, body: bytes) -> None:
        self.written_by = written_by
        self.body = body

    def decoded(self) -> Response:
        """The response with its fields."""
        found: Response = self.written_by.decode(self.body)
        return found


def encode_response(response: Response, version: int, correlation_id: int) -> list[Any]:
    """A response frame with its size, as buffers to send in order."""
    if type(response) is EncodedResponse:
        return _encoded_before(response, correlation_id)
    codec = response.codec(version)
    # As `Api.response_header_version` says.
    if codec.is_flexible and response.api_key != ApiKey.API_VERSIONS:
        return codec.encode_frame(response, _TAGGED_HEAD.pack(0, correlation_id, 0))
    return codec.encode_frame(response, _HEAD.pack(0, correlation_id))


def _encoded_before(response: EncodedResponse, correlation_id: int) -> list[Any]:
    body = response.body
    size = len(body) - _SIZE.size
    if response.written_by.is_flexible:
        return [_TAGGED_HEAD.pack(size + _TAGGED_HEAD.size, correlation_id, 0), body]
    return [_HEAD.pack(size + _HEAD.size, correlation_id), body]


def decode_response(
    frame: bytes | bytearray | memoryview, of: Api, version: int
) -> tuple[int, Any]:
    """The correlation id and the response in a frame (without its size)."""
    view = memoryview(frame)
    if len(view) < _SIZE.size:
        raise WireError("a response header is cut short")
    (correlation_id,) = _SIZE.unpack_from(view)
    position = _SIZE.size
    if of.response_header_version(version) == 1:
        position = _skip_tags(view, position)
    return correlation_id, of.response.decode(view[position:], version)
