"""Frames: what stands between two parties on a connection.

    request    size            int32    of all that follows
               api key         int16
               api version     int16
               correlation id  int32
               client id       int16 length and bytes, length -1 for null (also in header version 2)
               tagged fields   only header version 2
               body

    response   size            int32
               correlation id  int32
               tagged fields   only header version 1
               body

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

if TYPE_CHECKING:
    from kaa.wire.registry import Api
    from kaa.wire.schema import Request, Response

_HEADER: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">ii")
_SIZE: Final = struct.Struct(">i")


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
    try:
        header_version = api(key).request_header_version(version)
    except ValueError:
        raise UnknownApiError(f"there is no API with key {key}") from None
    if header_version == 2:
        # Clients send none: a single 0.
        has_none = position < len(frame) and frame[position] == 0
        position = position + 1 if has_none else _skip_tags(frame, position)
    return RequestFrame(key, version, correlation_id, client_id, position)


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
    frame: bytes | bytearray | memoryview, header: RequestFrame, *, authenticated: bool = True
) -> Any:
    """The request in a frame whose header was read; before authentication under small limits.

    Bytes after the request are passed over, as Kafka passes over them.
    """
    codec = api(header.api_key).request.codec(header.api_version)
    body = memoryview(frame)[header.body_position :]
    if authenticated:
        return codec.decode_prefix(body)[0]
    return codec.decode_prefix(
        body,
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
    prefix = bytearray(_SIZE.size)
    prefix += _HEADER.pack(request.api_key, version, correlation_id, client_size)
    prefix += client
    codec = request.codec(version)
    if codec.is_flexible:
        prefix.append(0)
    return _sized(codec.encode_parts(request, prefix))


def encode_response(response: Response, version: int, correlation_id: int) -> list[Any]:
    """A response frame with its size, as buffers to send in order."""
    codec = response.codec(version)
    prefix = bytearray(_CORRELATION.pack(0, correlation_id))
    # As `Api.response_header_version` says.
    if codec.is_flexible and response.api_key != ApiKey.API_VERSIONS:
        prefix.append(0)
    return _sized(codec.encode_parts(response, prefix))


def _sized(parts: list[Any]) -> list[Any]:
    size = sum(map(len, parts)) - _SIZE.size
    _SIZE.pack_into(parts[0], 0, size)
    return parts


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
