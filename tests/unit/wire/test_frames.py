"""Frames: headers read by hand against the header classes, and whole requests and responses."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa import limits
from kaa.wire import ApiKey, api
from kaa.wire.frames import (
    EncodedResponse,
    RequestFrame,
    UnknownApiError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from kaa.wire.messages.headers import RequestHeader, ResponseHeader
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from kaa.wire.primitives import WireError
from tests.support.wire.instances import Shape, instances

CLIENT_IDS = [None, "", "kaa", "ž🐍", "c" * 32_767]
KEYS = st.sampled_from(ApiKey)
INT32S = st.integers(-(2**31), 2**31 - 1)


def header_bytes(header: RequestHeader) -> bytes:
    version = api(header.request_api_key).request_header_version(header.request_api_version)
    return header.encode(version)


def test_headers_of_every_api_and_version_equal_the_header_class() -> None:
    for key in ApiKey:
        low, high = api(key).served_versions(unstable=True)
        # One below and one above as well: an unknown version still has a header to be read.
        for version in range(low - 1, high + 2):
            for client_id in CLIENT_IDS:
                header = RequestHeader(
                    request_api_key=key,
                    request_api_version=version,
                    correlation_id=-7,
                    client_id=client_id,
                )
                data = header_bytes(header)
                read = read_request_header(data + b"body")
                assert read == RequestFrame(key, version, -7, client_id, len(data))


@given(
    KEYS,
    st.integers(0, 30),
    INT32S,
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.dictionaries(st.integers(0, 2**31 - 1), st.binary(max_size=300), max_size=5),
)
def test_any_header_is_read_as_the_header_class_reads_it(
    key: ApiKey, version: int, correlation_id: int, client_id: str | None, tags: dict[int, bytes]
) -> None:
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
        unknown_tags=tags if api(key).request_header_version(version) == 2 else None,
    )
    data = header_bytes(header)
    for buffer in (data, bytearray(data), memoryview(data + b"body")):
        read = read_request_header(buffer)
        assert read == RequestFrame(key, version, correlation_id, client_id, len(data))


@given(KEYS, st.integers(0, 30), st.binary(max_size=60))
def test_hostile_headers_are_refused_or_read_as_the_header_class_reads_them(
    key: ApiKey, version: int, rest: bytes
) -> None:
    frame = struct.pack(">hhi", key, version, 1) + rest
    codec = RequestHeader.codec(api(key).request_header_version(version))
    try:
        _, expected = codec.decode_prefix(
            frame, tagged_fields_max=limits.WIRE_HEADER_TAGGED_FIELDS_MAX
        )
    except WireError:
        with pytest.raises(WireError):
            read_request_header(frame)
    else:
        assert read_request_header(frame).body_position == expected


HEADER = struct.pack(">hhih", 18, 3, 1, 2) + b"id"


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "header is cut short"),
        (HEADER[:9], "header is cut short"),
        (HEADER[:11], "client id is cut short"),
        (HEADER[:12], "tagged fields .* cut short"),
        (HEADER + b"\x01", "tagged fields .* cut short"),
        (HEADER + b"\x01\x00", "tagged fields .* cut short"),
        (HEADER + b"\x01\x00\x05abcd", "a tagged field of a request header is cut short"),
        (HEADER + b"\x02\x00\x7fabcd", "tagged fields .* cut short"),
        (HEADER + b"\x01\x00\xff\xff\xff\xff\x0f", "a tagged field .* is cut short"),
        (HEADER + b"\x41" + b"\x00\x00" * 65, "more tagged fields than allowed"),
        (HEADER + b"\xff\xff\xff\xff\x0f", "more tagged fields than allowed"),
        (HEADER + b"\x80\x80\x80\x80\x80\x00", "longer than 5 bytes"),
        (struct.pack(">hhih", 18, 3, 1, -2), "negative length"),
        (struct.pack(">hhih", 18, 3, 1, 1) + b"\xff", "not UTF-8"),
        (struct.pack(">hhih", 18, 3, 1, 32_767) + b"x" * 32_766, "client id is cut short"),
    ],
)
def test_malformed_headers_are_refused(frame: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        read_request_header(frame)


@pytest.mark.parametrize("key", [-32_768, -1, 4, 7, 93, 32_767])
def test_an_unknown_key_is_told_apart(key: int) -> None:
    with pytest.raises(UnknownApiError, match=f"no API with key {key}"):
        read_request_header(struct.pack(">hhih", key, 0, 1, -1))


def test_as_many_tagged_fields_as_the_limit_are_passed_over() -> None:
    count = limits.WIRE_HEADER_TAGGED_FIELDS_MAX
    frame = HEADER + bytes([count]) + b"\x00\x01x" * count
    assert read_request_header(frame + b"body").body_position == len(frame)


def test_a_request_goes_through_a_frame_in_every_version() -> None:
    for key in ApiKey:
        low, high = api(key).served_versions(unstable=True)
        for version in range(low, high + 1):
            [request] = instances(api(key).request, version, (Shape.FULL,))
            whole = b"".join(encode_request(request, version, 99, "kaa"))
            (size,) = struct.unpack_from(">i", whole)
            assert size == len(whole) - 4
            header = read_request_header(whole[4:])
            assert header[:4] == (key, version, 99, "kaa")
            assert decode_request(whole[4:], header) == request


def test_a_response_goes_through_a_frame_in_every_version() -> None:
    for key in ApiKey:
        low, high = api(key).served_versions(unstable=True)
        for version in range(low, high + 1):
            [response] = instances(api(key).response, version, (Shape.FULL,))
            whole = b"".join(encode_response(response, version, -5))
            (size,) = struct.unpack_from(">i", whole)
            assert size == len(whole) - 4
            assert decode_response(whole[4:], api(key), version) == (-5, response)
            header, position = ResponseHeader.codec(
                api(key).response_header_version(version)
            ).decode_prefix(whole, 4)
            assert header.correlation_id == -5
            assert api(key).response.decode(whole[position:], version) == response


@pytest.mark.parametrize("version", [8, 9])
def test_a_response_that_was_encoded_before_is_framed_as_any_other(version: int) -> None:
    [response] = instances(MetadataResponse, version, (Shape.FULL,))
    codec = MetadataResponse.codec(version)
    encoded = EncodedResponse(codec, codec.encode(response))
    parts = encode_response(encoded, version, -5)
    assert b"".join(parts) == b"".join(encode_response(response, version, -5))
    assert parts[-1] is encoded.body
    assert encoded.decoded() == response


def test_records_are_sent_by_reference() -> None:
    records = memoryview(b"batch")
    data = PartitionProduceData(records=records)
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[data])])
    assert any(part is records for part in encode_request(request, 9, 1, None))
    partition = PartitionData(records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    assert any(part is records for part in encode_response(response, 12, 1))


def test_records_of_a_request_are_views_of_the_frame() -> None:
    data = PartitionProduceData(records=b"batch")
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[data])])
    frame = bytearray(b"".join(encode_request(request, 9, 1, None))[4:])
    decoded = decode_request(frame, read_request_header(frame))
    [records] = [part.records for topic in decoded.topic_data for part in topic.partition_data]
    assert records.obj is frame
    records.release()
    frame.append(0)


def test_bytes_after_a_request_are_passed_over() -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    frame = b"".join(encode_request(request, 3, 1, None))[4:] + b"more"
    assert decode_request(frame, read_request_header(frame)) == request


def test_a_version_that_the_api_does_not_have_is_refused_after_the_header() -> None:
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 1, -1) + b"\x00"
    header = read_request_header(frame)
    assert header.api_version == 99
    with pytest.raises(WireError, match="has no version 99"):
        decode_request(frame, header)


def test_limits_are_small_before_authentication() -> None:
    tags = limits.WIRE_UNAUTHENTICATED_TAGGED_FIELDS_MAX
    for count, is_fine in ((tags, True), (tags + 1, False)):
        request = ApiVersionsRequest(unknown_tags=dict.fromkeys(range(count), b""))
        frame = b"".join(encode_request(request, 3, 1, None))[4:]
        header = read_request_header(frame)
        assert decode_request(frame, header) == request
        if is_fine:
            assert decode_request(frame, header, authenticated=False) == request
        else:
            with pytest.raises(WireError, match="more tagged fields than allowed"):
                decode_request(frame, header, authenticated=False)


def test_array_elements_are_few_before_authentication() -> None:
    count = limits.WIRE_UNAUTHENTICATED_ELEMENTS_MAX + 1
    request = MetadataRequest(topics=[MetadataRequestTopic() for _ in range(count)])
    frame = b"".join(encode_request(request, 12, 1, None))[4:]
    header = read_request_header(frame)
    assert decode_request(frame, header) == request
    with pytest.raises(WireError, match="more elements"):
        decode_request(frame, header, authenticated=False)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "response header is cut short"),
        (b"\x00\x00\x00", "response header is cut short"),
        (b"\x00\x00\x00\x01", "cut short"),
        (b"\x00\x00\x00\x01\x00\x00\x01", "cut short"),
    ],
)
def test_malformed_responses_are_refused(frame: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_response(frame, api(ApiKey.API_VERSIONS), 3)
    with pytest.raises(WireError, match="cut short"):
        decode_response(frame[:4], api(ApiKey.FETCH), 12)


def test_bytes_after_a_response_are_refused() -> None:
    frame = b"".join(encode_response(ApiVersionsResponse(), 3, 1))[4:]
    assert decode_response(frame, api(ApiKey.API_VERSIONS), 3) == (1, ApiVersionsResponse())
    with pytest.raises(WireError, match="followed by 1 bytes"):
        decode_response(frame + b"\x00", api(ApiKey.API_VERSIONS), 3)


def test_client_id_that_no_header_can_carry_is_refused() -> None:
    with pytest.raises(WireError, match="too long"):
        encode_request(ApiVersionsRequest(), 0, 1, "x" * 32_768)
