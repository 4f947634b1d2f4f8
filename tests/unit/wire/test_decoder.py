"""Decoders, both twins, against bytes written by hand; and the sizes that bound counts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kaa.wire.decoder import has_records, smallest_size
from kaa.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from kaa.wire.messages.k01_fetch import FetchRequest, FetchResponse
from kaa.wire.primitives import WireError
from kaa.wire.schema import Field, Message, Struct, StructType, annotations_of, fields_of
from tests.support.wire.instances import InstanceMaker, Shape, message_versions
from tests.support.wire.twins import TWINS, codec_of
from tests.unit.wire.samples import (
    FLEXIBLE,
    OLD,
    ROWS,
    TAGGED_ROWS,
    Leaf,
    Row,
    Sample,
    flexible_sample,
    old_sample,
)

twins = pytest.mark.parametrize("twin", TWINS)


@twins
def test_every_type_in_the_old_encoding(twin: str) -> None:
    sample, data = old_sample()
    assert codec_of(Sample, OLD, twin).decode(data) == sample


@twins
def test_every_type_and_tagged_fields_in_the_flexible_encoding(twin: str) -> None:
    sample, data = flexible_sample()
    decoded = codec_of(Sample, FLEXIBLE, twin).decode(data)
    assert decoded == sample
    assert decoded.unknown_tags == {3: b"??"}
    assert decoded.tagged_leaf_or_null is None


@twins
def test_absent_tagged_fields_have_their_defaults(twin: str) -> None:
    data = bytes.fromhex("".join(row.flexible for row in ROWS)) + b"\x00"
    decoded = codec_of(Sample, FLEXIBLE, twin).decode(data)
    assert decoded.tagged_int == -1
    assert decoded.tagged_leaf is None
    assert decoded.tagged_leaf_or_null == Leaf()
    assert decoded.tagged_strings is None
    assert decoded.unknown_tags is None


@twins
def test_fields_that_the_version_lacks_have_fresh_defaults(twin: str) -> None:
    decode = codec_of(Sample, 0, twin).decode
    first, second = decode(b"\x00\x01a"), decode(b"\x00\x01a")
    assert first == second == Sample(string="a")
    assert first.leaf is not second.leaf
    first.strings.append("mine")
    assert second.strings == []
    assert first.leaf.later == 7


@twins
def test_a_message_is_read_in_the_middle_of_a_buffer(twin: str) -> None:
    sample, data = flexible_sample()
    codec = codec_of(Sample, FLEXIBLE, twin)
    assert codec.decode_prefix(b"before" + data + b"after", 6) == (sample, 6 + len(data))


def with_row(name: str, old: str, flexible: str) -> dict[int, bytes]:
    """The bytes of both versions with those of one field replaced."""
    rows = [Row(name, None, old, flexible) if row.field == name else row for row in ROWS]
    return {
        OLD: bytes.fromhex("".join(row.old for row in rows)),
        FLEXIBLE: bytes.fromhex("".join(row.flexible for row in rows) + "00"),
    }


@twins
@pytest.mark.parametrize(
    ("name", "old", "flexible", "value"),
    [
        ("flag", "02", "02", True),
        ("string", "0000", "01", ""),
        ("string", "0000", "818000", ""),
        ("string_or_null", "0000", "01", ""),
        ("data", "00000000", "01", b""),
        ("data_or_null", "00000000", "01", b""),
        ("records", "ffffffff", "00", None),
        ("records", "00000000", "01", b""),
        ("int32s", "00000000", "01", []),
        ("int32s_or_null", "00000000", "01", []),
        ("leaf_or_null", "ff", "ff", None),
        ("leaf_or_null", "80", "80", None),
        ("leaf_or_null", "7f 0000 0000", "7f 0000 01 00", Leaf()),
        ("strings", "00000080" + "0000" * 128, "8101" + "01" * 128, [""] * 128),
        ("float64", "7ff0000000000000", "7ff0000000000000", float("inf")),
    ],
)
def test_other_forms(twin: str, name: str, old: str, flexible: str, value: Any) -> None:
    for version, data in with_row(name, old, flexible).items():
        assert getattr(codec_of(Sample, version, twin).decode(data), name) == value


@twins
@pytest.mark.parametrize(
    ("name", "old", "flexible", "complaint"),
    [
        ("string", "ffff", "00", "string is null or has a negative length"),
        ("string", "8000", "8080808010", "negative|larger than 32 bits"),
        ("string_or_null", "fffe", "ffffffff0f", "negative|too long"),
        ("string", "0001 ff", "02 ff", "not UTF-8"),
        ("string", "0003 eda080", "04 eda080", "not UTF-8"),
        ("string", "0002 c080", "03 c080", "not UTF-8"),
        ("data", "ffffffff", "00", "data is null or has a negative length"),
        ("data_or_null", "fffffffe", "ffffffff0f", "negative|cut short"),
        ("data", "7fffffff", "ffffffff07", "cut short"),
        ("records", "fffffffe", "ffffffff0f", "negative|cut short"),
        ("int32s", "ffffffff", "00", "int32s is null or has a negative length"),
        ("int32s", "7fffffff", "ffffffff07", "more elements than its bytes can hold"),
        ("uuids", "00001000", "8020", "more elements than its bytes can hold"),
        ("int32s_or_null", "80000000", "ffffffff0f", "negative|more elements"),
        ("strings", "00000001 ffff", "02 00", "null"),
        ("datas", "00000001 ffffffff", "02 00", "null"),
        ("leaves", "ffffffff", "00", "leaves is null"),
        ("leaves", "00010000", "818004", "more elements than its bytes can hold"),
    ],
)
def test_malformed_fields_are_refused(
    twin: str, name: str, old: str, flexible: str, complaint: str
) -> None:
    for version, data in with_row(name, old, flexible).items():
        with pytest.raises(WireError, match=complaint):
            codec_of(Sample, version, twin).decode(data)


@twins
@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ("01 00 05 0000000100", "tagged_int has a wrong size"),
        ("01 00 03 000000", "tagged_int has a wrong size|cut short"),
        ("01 01 05 0009 03 c5be", "cut short|wrong size"),
        ("01 04 01 02", "cut short|more elements"),
        ("01 63 7f", "cut short"),
        ("01 63 ffffffff0f", "cut short"),
        ("02 63 00", "more tagged fields than allowed|cut short"),
        ("ff7f", "more tagged fields than allowed"),
        ("ffffffff0f", "more tagged fields than allowed"),
        ("808080808000", "longer than 5 bytes"),
        ("01 ffffffff10 00", "larger than 32 bits"),
    ],
)
def test_malformed_tag_sections_are_refused(twin: str, section: str, complaint: str) -> None:
    untagged = bytes.fromhex("".join(row.flexible for row in ROWS))
    with pytest.raises(WireError, match=complaint):
        codec_of(Sample, FLEXIBLE, twin).decode(untagged + bytes.fromhex(section))


@twins
def test_a_repeated_tag_counts_once_and_the_last_wins(twin: str) -> None:
    untagged = bytes.fromhex("".join(row.flexible for row in ROWS))
    section = bytes.fromhex("04 00 04 00000001 63 01 61 00 04 00000002 63 01 62")
    decoded = codec_of(Sample, FLEXIBLE, twin).decode(untagged + section)
    assert decoded.tagged_int == 2
    assert decoded.unknown_tags == {0x63: b"b"}


@twins
def test_budgets_are_those_of_the_caller(twin: str) -> None:
    sample, data = flexible_sample()
    codec = codec_of(Sample, FLEXIBLE, twin)
    elements = sum(len(row.value) for row in ROWS if isinstance(row.value, list))
    elements += len(TAGGED_ROWS) + len(sample.tagged_strings or [])
    assert codec.decode_prefix(data, elements_max=elements, tagged_fields_max=5)[0] == sample
    with pytest.raises(WireError, match=r"more elements|more tagged fields"):
        codec.decode_prefix(data, elements_max=elements - 1)
    with pytest.raises(WireError, match="more tagged fields"):
        codec.decode_prefix(data, tagged_fields_max=4)


def test_only_messages_with_records_are_read_as_views() -> None:
    assert has_records(ProduceRequest, 3)
    assert has_records(FetchResponse, 18)
    assert not has_records(ProduceResponse, 3)
    assert not has_records(FetchRequest, 18)
    assert not has_records(Sample, 0)


def arrays_of(struct: type[Struct], version: int) -> list[tuple[type[Struct], Field]]:
    """The struct and field of every array that a version carries, at any depth."""
    found = []
    for field in fields_of(struct):
        if version in field.versions:
            if field.is_array:
                found.append((struct, field))
            if field.is_struct:
                found += arrays_of(field.element, version)
    return found


def element_size(message: type[Message], version: int, struct: type[Struct], field: Field) -> int:
    """The bytes that one more of the smallest elements adds to an array."""
    alone: Any = StructType(
        struct.__name__,
        (Message,),
        {"__annotations__": annotations_of(struct), **struct.specs},
        versions=str(message.valid_versions),
        flexible=str(message.flexible_versions),
    )
    maker = InstanceMaker(Random(0), alone, version)
    instance = maker.make(Shape.EMPTY)
    sizes = []
    for shape in (Shape.EMPTY, Shape.DEFAULT):
        element = maker._value(field, shape, False, 1)
        setattr(instance, field.name, [element])
        size = len(instance.encode(version))
        setattr(instance, field.name, [element, element])
        sizes.append(len(instance.encode(version)) - size)
    return min(sizes)


def test_the_smallest_element_is_exactly_as_large_as_its_bytes() -> None:
    """Were the size too large, honest arrays would be refused; were it too small, counts that the
    bytes cannot hold would get memory.
    """
    checked = 0
    for message, version in message_versions():
        for struct, field in arrays_of(message, version):
            is_flexible = version in message.flexible_versions and field.flexible
            smallest = smallest_size(field, version, is_flexible=is_flexible)
            size = element_size(message, version, struct, field)
            assert size == smallest > 0, (message, version, field.name)
            checked += 1
    assert checked > 1_000
