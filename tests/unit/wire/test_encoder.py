"""Encoders against bytes written by hand, and what a version cannot carry."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kaa.wire import UUID_ZERO, Uuid
from kaa.wire.codec import Codec
from kaa.wire.messages.k61_describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kaa.wire.primitives import WireError
from kaa.wire.schema import RECORDS, Field, Fixed, Message, Struct, fields_of
from tests.support.wire.instances import InstanceMaker, Shape, message_versions
from tests.support.wire.twins import TWINS, codec_of
from tests.unit.wire.samples import (
    FLEXIBLE,
    OLD,
    ROWS,
    TEXT,
    Leaf,
    Sample,
    flexible_sample,
    old_sample,
)


@pytest.fixture(autouse=True, params=TWINS)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs on the compiled encoder and on the generated one."""

    def codec(message: type[Message], version: int) -> Codec:
        return codec_of(message, version, request.param)

    monkeypatch.setattr(Message, "codec", classmethod(codec))
    return str(request.param)


def test_every_type_in_the_old_encoding() -> None:
    sample, data = old_sample()
    assert sample.encode(OLD) == data


def test_every_type_and_tagged_fields_in_the_flexible_encoding() -> None:
    sample, data = flexible_sample()
    assert sample.encode(FLEXIBLE) == data


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.field))
def test_each_field_stands_where_it_belongs(row: Any) -> None:
    """With all other fields at their defaults, so that a swap of two fields cannot hide."""
    plain = Sample().encode(FLEXIBLE)
    data = Sample(**{row.field: row.value}).encode(FLEXIBLE)
    assert bytes.fromhex(row.flexible) in data
    assert Sample.decode(data, FLEXIBLE) == Sample(**{row.field: row.value})
    assert (data == plain) == (Sample() == Sample(**{row.field: row.value}))


def test_tagged_fields_at_their_defaults_are_left_out() -> None:
    sample = Sample(tagged_leaf=Leaf(), tagged_leaf_or_null=Leaf(), tagged_strings=None)
    assert sample.encode(FLEXIBLE) == Sample().encode(FLEXIBLE)
    assert sample.encode(FLEXIBLE).endswith(b"\x00")


def test_unknown_tags_need_a_flexible_version() -> None:
    sample = Sample(unknown_tags={9: b"x"})
    assert sample.encode(FLEXIBLE).endswith(b"\x01\x09\x01x")
    with pytest.raises(WireError, match="this version has no tagged fields"):
        sample.encode(OLD)
    nested = Sample(leaf=Leaf(unknown_tags={1: b""}))
    with pytest.raises(WireError, match="this version has no tagged fields"):
        nested.encode(OLD)


def test_empty_unknown_tags_are_none_at_all() -> None:
    assert Sample(unknown_tags={}).encode(FLEXIBLE) == Sample().encode(FLEXIBLE)
    assert Sample(unknown_tags={}) == Sample()


@pytest.mark.parametrize("length", [126, 127, 16_382, 16_383, 32_767])
def test_lengths_at_the_borders_of_the_varint(length: int) -> None:
    sample = Sample(string="s" * length, data=b"d" * length, int32s=[length] * length)
    for version in (OLD, FLEXIBLE):
        assert Sample.decode(sample.encode(version), version) == sample


@pytest.mark.parametrize(
    "values",
    [
        {"string": "s" * 32_768},
        {"string": "ž" * 16_384},
        {"strings": ["s" * 32_768]},
        {"string": None},
        {"string": 5},
        {"string": "\ud800"},
        {"strings": [None]},
        {"strings": None},
        {"data": None},
        {"data": "text"},
        {"datas": [None]},
        {"int8": 128},
        {"int16": -32_769},
        {"int32": 2**31},
        {"int64": -(2**63) - 1},
        {"uint16": -1},
        {"uint32": 2**32},
        {"int32": "1"},
        {"int32": 1.0},
        {"float64": "1.0"},
        {"int32s": [2**31]},
        {"int32s": None},
        {"uuids": [None]},
        {"leaf": None},
        {"leaves": [None]},
        {"leaves": None},
    ],
    ids=str,
)
def test_a_value_that_its_type_cannot_hold_is_refused(values: dict[str, Any]) -> None:
    for version in (OLD, FLEXIBLE):
        with pytest.raises(WireError):
            Sample(**values).encode(version)


def test_nan_is_carried() -> None:
    data = Sample(float64=math.nan).encode(OLD)
    assert math.isnan(Sample.decode(data, OLD).float64)


def test_ignorable_fields_are_dropped_and_others_refused() -> None:
    plain = Sample().encode(FLEXIBLE)
    assert Sample(ignored=6, ignored_struct=Leaf(number=1)).encode(FLEXIBLE) == plain
    with pytest.raises(WireError, match="this version cannot carry wanted"):
        Sample(wanted="x").encode(FLEXIBLE)
    assert Sample.decode(Sample(wanted="x").encode(3), 3).wanted == "x"


def different(field: Field) -> Any:
    """A value of the field's type that is not its default."""
    if field.is_array:
        return None if field.default else [_element(field)]
    return _element(field)


def _element(field: Field) -> Any:
    element = field.element
    if isinstance(element, Fixed):
        if element.name == "bool":
            return not field.default
        return Uuid(b"\x01" * 16) if element.name == "uuid" else 1 if field.default != 1 else 2
    if element is str:
        return TEXT
    if element is bytes or element is RECORDS:
        return b"\x01"
    struct = element()
    # Of a struct every field that the version carries may be absent elsewhere, so one with a value
    # that nothing drops is set.
    first = next(each for each in fields_of(element) if not each.is_struct)
    setattr(struct, first.name, different(first))
    return struct


def struct_paths(struct: Struct) -> Iterator[Struct]:
    """A struct and all that it holds."""
    yield struct
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if field.is_struct and value is not None:
            for nested in value if field.is_array else [value]:
                yield from struct_paths(nested)


def test_every_field_of_every_message_is_refused_or_dropped_by_versions_without_it() -> None:
    refused = dropped = 0
    for message, version in message_versions():
        full = InstanceMaker(Random(0), message, version).make(Shape.FULL)
        data = full.encode(version)
        for struct in struct_paths(full):
            for field in fields_of(type(struct)):
                if version in field.versions:
                    continue
                default = getattr(struct, field.name)
                setattr(struct, field.name, different(field))
                if field.ignorable:
                    assert full.encode(version) == data, (message, version, field.name)
                    dropped += 1
                else:
                    with pytest.raises(WireError, match=f"cannot carry {field.name}$"):
                        full.encode(version)
                    refused += 1
                setattr(struct, field.name, default)
    assert refused > 500
    assert dropped > 500


def test_null_is_refused_by_versions_that_cannot_say_it() -> None:
    checked = 0
    for message, version in message_versions():
        full = InstanceMaker(Random(0), message, version).make(Shape.FULL)
        for struct in struct_paths(full):
            for field in fields_of(type(struct)):
                if not can_be_null_elsewhere(field, message, version):
                    continue
                value = getattr(struct, field.name)
                setattr(struct, field.name, None)
                with pytest.raises(WireError):
                    full.encode(version)
                setattr(struct, field.name, value)
                checked += 1
    assert checked > 5


def can_be_null_elsewhere(field: Field, message: type[Message], version: int) -> bool:
    nullable = field.nullable.within(message.valid_versions)
    return version in field.versions and nullable.high >= 0 and version not in nullable


def test_a_uuid_of_zeros_is_the_default() -> None:
    assert Sample().uuid == UUID_ZERO
    assert Sample(uuid=UUID_ZERO).encode(0) == Sample().encode(0)
    with pytest.raises(WireError, match="cannot carry uuid"):
        Sample(uuid=Uuid(b"\x01" * 16)).encode(0)


@pytest.mark.parametrize("shape", Shape)
def test_twins_write_the_same_bytes_and_splices(shape: Shape) -> None:
    for number, (message, version) in enumerate(message_versions()):
        made = InstanceMaker(Random(number), message, version).make(shape)
        written = []
        for twin in TWINS:
            out, splices = bytearray(b"before"), list[tuple[int, Any]]()
            codec_of(message, version, twin).encode_into(made, out, splices)
            written.append((out, splices))
        assert written == [written[0]] * len(TWINS), (message, version)


@pytest.mark.parametrize("shape", Shape)
def test_twins_cut_the_same_frames(shape: Shape) -> None:
    head = b"size" + b"head"
    for number, (message, version) in enumerate(message_versions()):
        made = InstanceMaker(Random(number), message, version).make(shape)
        frames = [codec_of(message, version, twin).encode_frame(made, head) for twin in TWINS]
        whole = [[bytes(part) for part in parts] for parts in frames]
        assert whole == [whole[0]] * len(TWINS), (message, version)
        frame = b"".join(whole[0])
        assert frame[:4] == (len(frame) - 4).to_bytes(4, "big")
        assert frame[4:] == b"head" + codec_of(message, version, TWINS[0]).encode(made)


def test_a_frame_keeps_the_records_of_the_caller() -> None:
    records = memoryview(b"r" * 1000)
    parts = Sample.codec(FLEXIBLE).encode_frame(Sample(records=records), bytes(8))
    assert sum(part is records for part in parts) == 1


def test_a_frame_that_is_too_long_is_refused() -> None:
    class Endless:
        def __len__(self) -> int:
            return 2**31 - 1

    with pytest.raises(WireError, match="wrong type"):
        Sample.codec(FLEXIBLE).encode_frame(Sample(records=Endless()), bytes(8))


def test_a_frame_of_what_does_not_fit_is_refused() -> None:
    with pytest.raises(WireError, match="Sample v"):
        Sample.codec(FLEXIBLE).encode_frame(Sample(int8=128), bytes(8))
    with pytest.raises(WireError, match="this version cannot carry uuid"):
        Sample.codec(0).encode_frame(Sample(uuid=Uuid(b"\x01" * 16)), bytes(8))


def test_what_is_refused_leaves_no_splice(twin: str) -> None:
    out, splices = bytearray(b"before"), list[tuple[int, Any]]()
    with pytest.raises(WireError):
        Sample.codec(FLEXIBLE).encode_into(Sample(records=b"r", int8=128), out, splices)
    assert twin == "python" or (bytes(out), splices) == (b"before", [])


@pytest.mark.parametrize("is_encoded", [True, False], ids=["encoded", "decoded"])
def test_other_threads_have_turns_meanwhile(is_encoded: bool) -> None:
    """A large message is encoded and decoded by a thread, so that the loop goes on."""
    producers = [ProducerState(producer_id=number) for number in range(50_000)]
    partition = PartitionResponse(partition_index=0, active_producers=producers)
    topic = TopicResponse(name="t", partitions=[partition])
    message = DescribeProducersResponse(topics=[topic])
    data = message.encode(0)
    turns, is_done = 0, False

    def run() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            time.sleep(0)  # noqa: TID251  Another thread.

    other = threading.Thread(target=run)
    other.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:

        def turns_during_one() -> int:
            before = turns
            if is_encoded:
                message.encode(0)
            else:
                DescribeProducersResponse.decode(data, 0)
            return turns - before

        # A busy machine may keep the other thread from running in some of them.
        assert any(turns_during_one() > 3 for _ in range(20))
    finally:
        sys.setswitchinterval(interval)
        is_done = True
        other.join()
