"""Fuzz targets of `kaa.wire`: frames, headers, and the bodies of all messages.

The first two bytes of an input choose a message and a version; the rest are its bytes. Both
decoders read them: they must agree, and what they read must be the same when it is written and read
again. Memory is measured on the decoder that is in use.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from kaa import limits
from kaa.wire import ApiKey, api
from kaa.wire.frames import decode_request, encode_request, read_request_header
from kaa.wire.messages.headers import RequestHeader
from kaa.wire.primitives import WireError
from kaa.wire.schema import Data, Message, Request, Response
from tests.fuzz.target import Target
from tests.support.memory import peak_memory
from tests.support.wire.bounds import decode_within_bounds, memory_bytes_max, outcome
from tests.support.wire.instances import Shape, all_messages, instances, versions_of
from tests.support.wire.twins import TWINS, codec_of

APIS = [api(key) for key in ApiKey]
REQUESTS = [message for message in all_messages() if issubclass(message, Request)]
RESPONSES = [message for message in all_messages() if issubclass(message, Response)]
DURABLE = [message for message in all_messages() if issubclass(message, Data)]


def frame(data: bytes) -> None:
    """A whole request as it comes from a connection, before and after authentication."""
    try:
        header = read_request_header(data)
        codec = api(header.api_key).request.codec(header.api_version)
    except WireError:
        return
    if codec._decode is None:
        codec._compile_decoder()
    for authenticated in (True, False):
        with peak_memory() as peak:
            try:
                request = decode_request(data, header, authenticated=authenticated)
            except WireError:
                request = None
        assert peak.size_bytes <= memory_bytes_max(len(data))
        if request is not None:
            request.encode(header.api_version)


def frame_seeds() -> Iterator[bytes]:
    for each in APIS:
        version = each.request.valid_versions.high
        for instance in instances(each.request, version, (Shape.EMPTY, Shape.FULL)):
            yield b"".join(encode_request(instance, version, 1, "kaa"))[4:]


def header(data: bytes) -> None:
    """The header read by hand against the class that describes it."""
    with peak_memory() as peak:
        try:
            read: int | None = read_request_header(data).body_position
        except WireError:
            read = None
    assert peak.size_bytes <= memory_bytes_max(len(data))
    if len(data) < 4:
        assert read is None
        return
    key, version = struct.unpack_from(">hh", data)
    if key not in set(ApiKey):
        assert read is None
        return
    codec = RequestHeader.codec(api(key).request_header_version(version))
    try:
        expected: int | None = codec.decode_prefix(
            data, tagged_fields_max=limits.WIRE_HEADER_TAGGED_FIELDS_MAX
        )[1]
    except WireError:
        expected = None
    assert read == expected


def header_seeds() -> Iterator[bytes]:
    for client_id in (None, "", "kaa"):
        for key in (0, 1, 18, 93):
            for version in (0, 12):
                header = RequestHeader(
                    request_api_key=key, request_api_version=version, client_id=client_id
                )
                yield header.encode(1)
                header.unknown_tags = {5: b"five"}
                yield header.encode(2)


def body_target(name: str, messages: Sequence[type[Message]]) -> Target:
    """A target over the bodies of some messages."""

    def run(data: bytes) -> None:
        if len(data) < 2:
            return
        message = messages[data[0] % len(messages)]
        versions = versions_of(message)
        version = versions[data[1] % len(versions)]
        body = data[2:]
        *others, used = (codec_of(message, version, twin) for twin in TWINS)
        result = decode_within_bounds(used, body)
        assert all(outcome(other, body) == result for other in others)
        if result is not None:
            again, _ = result
            assert outcome(used, again) == (again, len(again))

    def seeds() -> Iterator[bytes]:
        for index, message in enumerate(messages):
            # Every version would take long to compile; the fuzzer finds the others by itself.
            versions = versions_of(message)
            [instance] = instances(message, versions[-1], (Shape.FULL,), unknown_tags=True)
            yield bytes([index, len(versions) - 1]) + instance.encode(versions[-1])

    return Target(name, run, seeds)


TARGETS = (
    Target("frame", frame, frame_seeds),
    Target("header", header, header_seeds, input_bytes_max=256),
    body_target("request", REQUESTS),
    body_target("response", RESPONSES),
    body_target("durable", DURABLE),
)
