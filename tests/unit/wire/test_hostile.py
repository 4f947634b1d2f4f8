"""Hostile input: whatever the bytes are, a decoder raises WireError or nothing, within bounds.

Malformed fields one by one are in `test_decoder`; here messages are cut, changed and inflated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from time import process_time
from typing import Any

import pytest

from kaa import limits
from kaa.wire import ApiKey, api
from kaa.wire.frames import decode_request, read_request_header
from kaa.wire.messages.k00_produce import ProduceRequest
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from kaa.wire.messages.k37_create_partitions import CreatePartitionsRequest
from kaa.wire.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kaa.wire.messages.metadata_topics import PartitionRecord
from kaa.wire.primitives import WireError
from kaa.wire.schema import Field, Message, Struct, fields_of
from tests.support.memory import peak_memory
from tests.support.wire.bounds import decode_within_bounds
from tests.support.wire.instances import (
    InstanceMaker,
    Shape,
    instances,
    message_versions,
    versions_of,
)
from tests.support.wire.twins import TWINS, codec_of
from tests.unit.wire.samples import (
    FLEXIBLE,
    OLD,
    Numbers,
    NumbersRequest,
    Sample,
    flexible_sample,
    old_sample,
)

twins = pytest.mark.parametrize("twin", TWINS)
every_request = pytest.mark.parametrize("key", ApiKey, ids=lambda key: str(key.name))

# Seconds of processor time for a byte of input, some hundred times what an honest message needs.
SECONDS_PER_INPUT_BYTE = 20e-6
SECONDS_BASE = 0.5


def seconds_max(input_size: int) -> float:
    return SECONDS_BASE + SECONDS_PER_INPUT_BYTE * input_size


EDGES = (
    b"\x00",
    b"\x7f",
    b"\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80",
)


@twins
@pytest.mark.parametrize(("version", "make"), [(OLD, old_sample), (FLEXIBLE, flexible_sample)])
def test_a_message_cut_anywhere_is_refused(twin: str, version: int, make: Any) -> None:
    _, data = make()
    for end in range(len(data)):
        with pytest.raises(WireError):
            codec_of(Sample, version, twin).decode(data[:end])


@twins
@every_request
def test_a_request_cut_anywhere_is_refused(twin: str, key: ApiKey) -> None:
    request = api(key).request
    for version in {request.valid_versions.low, request.valid_versions.high}:
        [instance] = instances(request, version, (Shape.FULL,))
        data = instance.encode(version)
        step = len(data) // 400 + 1
        for end in range(0, len(data), step):
            with pytest.raises(WireError):
                codec_of(request, version, twin).decode(data[:end])


@twins
@pytest.mark.parametrize(("version", "make"), [(OLD, old_sample), (FLEXIBLE, flexible_sample)])
def test_an_edge_at_every_place_stays_within_bounds(twin: str, version: int, make: Any) -> None:
    _, data = make()
    codec = codec_of(Sample, version, twin)
    for position in range(len(data)):
        for edge in EDGES:
            refused_or_read(codec, data[:position] + edge + data[position + len(edge) :])
            refused_or_read(codec, data[:position] + edge + data[position:])
        edge = EDGES[position % len(EDGES)]
        decode_within_bounds(codec, data[:position] + edge + data[position + len(edge) :])


def mutated(random: Random, data: bytes) -> bytes:
    """Flips, cuts, insertions and edges, one to four of them."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        position = random.randrange(len(changed) + 1)
        kind = random.randrange(5)
        if kind == 0 and position < len(changed):
            changed[position] ^= 1 << random.randrange(8)
        elif kind == 1:
            del changed[position : position + random.randint(1, 40)]
        elif kind == 2:
            changed[position:position] = random.randbytes(random.randint(1, 8))
        elif kind == 3:
            edge = random.choice(EDGES)
            changed[position : position + len(edge)] = edge
        else:
            del changed[position:]
    return bytes(changed)


@every_request
def test_mutated_requests_raise_nothing_but_wire_error(key: ApiKey) -> None:
    request = api(key).request
    random = Random(int(key))
    for version in versions_of(request):
        codecs = [codec_of(request, version, twin) for twin in TWINS]
        for instance in instances(request, version, (Shape.FULL, Shape.DRAWN), unknown_tags=True):
            data = instance.encode(version)
            for _ in range(20):
                bad = mutated(random, data)
                for codec in codecs:
                    refused_or_read(codec, bad)


def refused_or_read(codec: Any, data: bytes) -> None:
    with suppress(WireError):
        codec.decode_prefix(data)


def test_mutated_frames_raise_nothing_but_wire_error() -> None:
    random = Random(3)
    headers = requests = 0
    for key in ApiKey:
        high = api(key).request.valid_versions.high
        [instance] = instances(api(key).request, high, (Shape.FULL,))
        frame = struct.pack(">hhih", key, high, 1, 3) + b"kaa\x00" + instance.encode(high)
        for _ in range(50):
            bad = mutated(random, frame)
            try:
                header = read_request_header(bad)
                headers += 1
                decode_request(bad, header, authenticated=random.random() < 0.5)
                requests += 1
            except WireError:
                pass
    assert headers > requests > 100


def bombs(message: type[Message], version: int, count: int) -> Iterator[Any]:
    """Instances with one array of many elements of the least size, at any depth; elements that can
    have unknown tagged fields come without and with one.
    """
    maker = InstanceMaker(Random(0), message, version)
    for path in array_paths(message, version):
        for unknown_tags in (None, {99: b""}):
            if unknown_tags and not (maker.is_flexible and path[-1].is_struct):
                continue
            instance = inner = maker.make(Shape.EMPTY)
            for step in path[:-1]:
                element = maker._struct(step.element, Shape.EMPTY, False, 1)
                setattr(inner, step.name, [element] if step.is_array else element)
                inner = element
            element = maker._value(path[-1], Shape.DEFAULT, False, 1)
            if unknown_tags:
                element.unknown_tags = unknown_tags
            setattr(inner, path[-1].name, [element] * count)
            yield instance


def array_paths(struct_class: type[Struct], version: int) -> Iterator[tuple[Field, ...]]:
    for each in fields_of(struct_class):
        if version in each.versions:
            if each.is_array:
                yield (each,)
            if each.is_struct:
                yield from ((each, *rest) for rest in array_paths(each.element, version))


@every_request
def test_inflated_arrays_stay_within_the_bound_of_memory(key: ApiKey) -> None:
    request = api(key).request
    version = request.valid_versions.high
    for bomb in bombs(request, version, 80):
        data = bomb.encode(version)
        for twin in TWINS:
            assert decode_within_bounds(codec_of(request, version, twin), data)


@twins
@pytest.mark.parametrize("message", [CreatePartitionsRequest, StreamsGroupHeartbeatRequest])
def test_the_worst_arrays_take_time_in_proportion(twin: str, message: type[Message]) -> None:
    """Without tracing, which would take most of the time."""
    version = message.valid_versions.high
    codec = codec_of(message, version, twin)
    refused_or_read(codec, b"")
    for bomb in bombs(message, version, 5_000):
        data = bomb.encode(version)
        started = process_time()
        codec.decode(data)
        assert process_time() - started <= seconds_max(len(data))


@twins
@pytest.mark.parametrize("message", [MetadataRequest, MetadataResponse, PartitionRecord])
def test_a_flood_of_tagged_fields_is_refused_or_bounded(twin: str, message: type[Message]) -> None:
    version = message.valid_versions.high
    codec = codec_of(message, version, twin)
    [plain] = instances(message, version, (Shape.EMPTY,))
    for count, is_fine in (
        (limits.WIRE_TAGGED_FIELDS_MAX, True),
        (limits.WIRE_TAGGED_FIELDS_MAX + 1, False),
    ):
        plain.unknown_tags = dict.fromkeys(range(100, 100 + count), b"xy")
        outcome = decode_within_bounds(codec, plain.encode(version))
        assert (outcome is not None) == is_fine


@twins
def test_elements_of_a_request_are_counted_over_all_arrays(twin: str) -> None:
    half = limits.WIRE_REQUEST_ELEMENTS_MAX // 2
    for second, is_fine in ((half, True), (half + 1, False)):
        data = NumbersRequest(first=[0] * half, second=[0] * second).encode(0)
        outcome = decode_within_bounds(codec_of(NumbersRequest, 0, twin), data)
        assert (outcome is not None) == is_fine
        # What a node sends or stores may be larger than what it accepts.
        assert codec_of(Numbers, 0, twin).decode(data).second == [0] * second


@twins
def test_a_count_is_refused_before_anything_is_allocated(twin: str) -> None:
    """However large the count, a short message costs next to nothing."""
    for count in (2**31 - 1, 10**9, 1_000_000):
        data = struct.pack(">i", count) + bytes(100)
        codec = codec_of(NumbersRequest, 0, twin)
        refused_or_read(codec, b"")
        with peak_memory() as peak, pytest.raises(WireError, match="more elements"):
            codec.decode(data)
        assert peak.size_bytes < 10_000


@twins
def test_nested_counts_do_not_multiply(twin: str) -> None:
    """Each level claims as many elements as the bytes could just hold; the sum is what counts."""
    codec = codec_of(ProduceRequest, 8, twin)
    topics = 3_000
    for claimed in (10, 1_000, 1_000_000):
        element = struct.pack(">hi", 0, claimed)
        data = struct.pack(">hhii", -1, 1, 0, topics) + element * topics
        assert decode_within_bounds(codec, data) is None
        started = process_time()
        refused_or_read(codec, data)
        assert process_time() - started <= seconds_max(len(data))


@twins
def test_random_bytes_stay_within_bounds(twin: str) -> None:
    random = Random(4)
    for message, version in message_versions():
        codec = codec_of(message, version, twin)
        for size in (1, 7, 40):
            decode_within_bounds(codec, random.randbytes(size))
            decode_within_bounds(codec, bytes(size))


@twins
def test_a_long_string_is_refused_in_both_encodings(twin: str) -> None:
    text = b"x" * (limits.WIRE_STRING_BYTES_MAX + 1)
    data = b"\x81\x80\x02" + text + b"\x01" + b"\x00"
    with pytest.raises(WireError, match="client_software_name is too long"):
        codec_of(ApiVersionsRequest, 3, twin).decode(data)
    longest = ApiVersionsRequest(client_software_name="x" * limits.WIRE_STRING_BYTES_MAX)
    assert codec_of(ApiVersionsRequest, 3, twin).decode(longest.encode(3)) == longest
