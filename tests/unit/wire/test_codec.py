"""Codecs: what they keep of the input, what they copy, and how failures are reported."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from random import Random
from typing import Any

import pytest

from kaa.wire.codec import Codec
from kaa.wire.decoder import has_records
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k59_fetch_snapshot import FetchSnapshotResponse
from kaa.wire.messages.k78_share_fetch import ShareFetchResponse
from kaa.wire.primitives import WireError
from kaa.wire.schema import RECORDS, Message, Struct, fields_of
from tests.support.wire.bounds import outcome
from tests.support.wire.instances import Shape, instances, message_versions
from tests.support.wire.twins import TWINS, codec_of
from tests.unit.wire.samples import FLEXIBLE, OLD, Leaf, Sample, flexible_sample, old_sample

twins = pytest.mark.parametrize("twin", TWINS)


def records_of(struct: Struct) -> list[Any]:
    """The records fields of a message, at any depth, in wire order."""
    found = []
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if field.element is RECORDS and value is not None:
            found.append(value)
        elif field.is_struct and value is not None:
            for nested in value if field.is_array else [value]:
                found += records_of(nested)
    return found


def with_records() -> list[tuple[type[Message], int]]:
    return [
        (message, version)
        for message, version in message_versions()
        if has_records(message, version)
    ]


def test_four_messages_carry_records() -> None:
    names = {message for message, _ in with_records()}
    assert names == {ProduceRequest, FetchResponse, FetchSnapshotResponse, ShareFetchResponse}


@twins
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_are_slices_of_the_input(twin: str, kind: Any) -> None:
    for message, version in with_records():
        [instance] = instances(message, version, (Shape.FULL,))
        buffer = kind(instance.encode(version))
        decoded = codec_of(message, version, twin).decode(buffer)
        found = records_of(decoded)
        assert found
        base = buffer.obj if isinstance(buffer, memoryview) else buffer
        assert all(type(view) is memoryview and view.obj is base for view in found)
        assert decoded == instance


@twins
def test_nothing_but_records_keeps_the_buffer(twin: str) -> None:
    """A bytearray cannot be resized while anything has a view of it."""
    for message, version in message_versions():
        for instance in instances(message, version, (Shape.FULL, Shape.DRAWN)):
            buffer = bytearray(instance.encode(version))
            decoded = codec_of(message, version, twin).decode(buffer)
            views = records_of(decoded)
            if views:
                with pytest.raises(BufferError):
                    buffer.append(0)
            for view in views:
                view.release()
            del views
            # What is left of the message is whole without the buffer.
            buffer.extend(b"\xff" * len(buffer))
            buffer[:] = b"\xff" * len(buffer)
            if not records_of(instance):
                assert decoded == instance, (message, version)


@twins
def test_a_refused_message_keeps_nothing_of_the_buffer(twin: str) -> None:
    for message, version in with_records():
        [instance] = instances(message, version, (Shape.FULL,))
        buffer = bytearray(instance.encode(version))[:-1]
        with pytest.raises(WireError):
            codec_of(message, version, twin).decode(buffer)
        buffer.append(0)


class NotBytes:
    """A region of a file, say: it has a length, and its bytes are never asked for."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def fetch_response(*records: Any) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, records=each) for index, each in enumerate(records)
    ]
    return FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=partitions)], session_id=7
    )


@pytest.mark.parametrize("version", [7, 12])
def test_records_are_sent_by_reference(version: int) -> None:
    first, second = bytearray(b"first"), memoryview(b"second")
    response = fetch_response(first, None, b"", second)
    parts = FetchResponse.codec(version).encode_parts(response, b"prefix")
    assert [part is first for part in parts].count(True) == 1
    assert [part is second for part in parts].count(True) == 1
    assert b"".join(parts) == b"prefix" + response.encode(version)
    assert bytes(parts[0]).startswith(b"prefix")


@pytest.mark.parametrize("version", [7, 12])
def test_records_may_be_anything_with_a_length(version: int) -> None:
    region = NotBytes(300)
    parts = FetchResponse.codec(version).encode_parts(fetch_response(b"x" * 300, region))
    whole = fetch_response(b"x" * 300, b"y" * 300).encode(version)
    [position] = [index for index, part in enumerate(parts) if part is region]
    parts[position] = b"y" * 300
    assert b"".join(parts) == whole


def test_a_message_without_records_is_one_part() -> None:
    sample = Sample(string="x")
    assert Sample.codec(0).encode_parts(sample) == [b"\x00\x01x"]


def test_records_at_the_very_end_leave_no_empty_part() -> None:
    """The old encoding has no tagged fields after the records."""
    data = PartitionProduceData(index=1, records=b"batch")
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[data])])
    parts = ProduceRequest.codec(8).encode_parts(request)
    assert len(parts) == 2
    assert parts[1] == b"batch"
    assert len(ProduceRequest.codec(9).encode_parts(request)) == 3


def test_encode_into_appends() -> None:
    sample, data = old_sample()
    out, splices = bytearray(b"before"), []  # type: ignore[var-annotated]
    Sample.codec(OLD).encode_into(sample, out, splices)
    [(position, records)] = splices
    assert bytes(out[:position] + records + out[position:]) == b"before" + data


@twins
def test_bytes_after_a_message_are_refused_by_decode_alone(twin: str) -> None:
    sample, data = flexible_sample()
    codec = codec_of(Sample, FLEXIBLE, twin)
    with pytest.raises(WireError, match="Sample v2 is followed by 2 bytes"):
        codec.decode(data + b"..")
    assert codec.decode_prefix(data + b"..") == (sample, len(data))


@twins
def test_every_failure_names_the_message_and_version(twin: str) -> None:
    codec = codec_of(Sample, FLEXIBLE, twin)
    _, data = flexible_sample()
    broken = {
        "cut short": data[:30],
        "not UTF-8": data.replace(b"\x03\xc5\xbe", b"\x03\xff\xff", 1),
        "negative length": data.replace(b"\x03\xc5\xbe", b"\x00", 1),
    }
    for complaint, bad in broken.items():
        with pytest.raises(WireError, match=f"^Sample v2.*{complaint}"):
            codec.decode(bad)
    with pytest.raises(WireError, match=r"^Sample v2 has a field of the wrong type: "):
        Sample(int8=1000).encode(2)
    with pytest.raises(WireError, match=r"^Sample v0: this version cannot carry int8"):
        Sample(int8=1).encode(0)


def test_a_codec_is_compiled_once_per_version() -> None:
    assert Sample.codec(1) is Sample.codec(1)
    assert Sample.codec(1) is not Sample.codec(2)
    assert isinstance(Sample.codec(1), Codec)


@pytest.mark.parametrize("version", [-1, 4, 32_768, 2**70])
def test_a_version_that_the_message_does_not_have_is_refused(version: int) -> None:
    for use in (Sample.codec, Sample().encode, lambda version: Sample.decode(b"", version)):
        with pytest.raises(WireError, match=f"Sample has no version {version} \\(it has 0-3\\)"):
            use(version)
    assert version not in Sample.codecs


def mutated(random: Random, data: bytes) -> bytes:
    """The bytes with a few changed, inserted or cut off."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        position = random.randrange(len(changed) + 1)
        kind = random.randrange(4)
        if kind == 0:
            changed[position : position + 1] = random.randbytes(1)
        elif kind == 1:
            changed[position:position] = random.randbytes(random.randint(1, 4))
        elif kind == 2:
            del changed[position:]
        else:
            edge = random.choice((b"\xff", b"\x7f\xff\xff\xff", b"\x80\x80\x80\x80\x80", b"\x00"))
            changed[position : position + len(edge)] = edge
    return bytes(changed)


def test_the_twins_give_the_same_message_or_both_refuse() -> None:
    random = Random(2)
    accepted = refused = 0
    for message, version in message_versions():
        codecs = [codec_of(message, version, twin) for twin in TWINS]
        for instance in instances(message, version, unknown_tags=True):
            data = instance.encode(version)
            assert all(codec.decode(data) == instance for codec in codecs)
            for _ in range(4):
                bad = mutated(random, data)
                outcomes = {outcome(codec, bad) for codec in codecs}
                assert len(outcomes) == 1, (message, version, bad.hex())
                refused += outcomes == {None}
                accepted += outcomes != {None}
    assert accepted > 1_000
    assert refused > 1_000


@twins
def test_decoding_again_and_again_keeps_no_memory(twin: str) -> None:
    """Neither of messages that were read nor of those that were refused halfway."""
    _, data = flexible_sample()
    codec = codec_of(Sample, FLEXIBLE, twin)
    inputs = [data, data + b".", *(data[:end] for end in range(0, len(data), 7))]

    def decode_all() -> None:
        for each in inputs:
            outcome(codec, each)

    decode_all()
    gc.collect()
    references = sys.getrefcount(Sample) + sys.getrefcount(Leaf)
    tracemalloc.start()
    decode_all()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(100):
        decode_all()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A single object kept by each message would be ten times as much.
    assert after - before < 10_000
    assert sys.getrefcount(Sample) + sys.getrefcount(Leaf) <= references


def test_the_collector_does_not_find_a_large_message_all_at_once() -> None:
    """It would walk tens of thousands of objects in one go, on whichever thread comes next."""
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(20_000)]
    request = MetadataRequest(topics=topics)
    data = request.encode(13)
    gc.collect()
    decoded = MetadataRequest.decode(data, 13)
    young, *_ = gc.get_count()
    assert young <= gc.get_threshold()[0] + 100
    assert decoded == request
