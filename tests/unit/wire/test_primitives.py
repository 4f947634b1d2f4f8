"""Ranges of versions, uuids, varints and tagged-field sections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.wire.primitives import (
    NO_VERSIONS,
    UUID_ZERO,
    VERSION_MAX,
    Uuid,
    Versions,
    WireError,
    read_uvarint,
    write_tags,
    write_uvarint,
)

UVARINTS = {
    0: "00",
    1: "01",
    127: "7f",
    128: "8001",
    300: "ac02",
    16_383: "ff7f",
    16_384: "808001",
    2**31 - 1: "ffffffff07",
    2**32 - 1: "ffffffff0f",
}


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("3", 3, 3), ("0-4", 0, 4), ("2+", 2, VERSION_MAX), ("none", 0, -1), ("10-12", 10, 12)],
)
def test_versions_are_read_and_written_in_kafkas_notation(text: str, low: int, high: int) -> None:
    versions = Versions.parse(text)
    assert versions == (low, high)
    assert str(versions) == text


def test_a_range_contains_its_ends_and_nothing_but_integers() -> None:
    versions = Versions(2, 4)
    assert [version for version in range(7) if version in versions] == [2, 3, 4]
    text: object = "3"
    assert text not in versions
    assert 0 not in NO_VERSIONS


def test_within_is_the_intersection() -> None:
    assert Versions(0, 9).within(Versions(3, VERSION_MAX)) == Versions(3, 9)
    assert Versions(0, 2).within(Versions(3, 9)) == NO_VERSIONS
    assert NO_VERSIONS.within(Versions(0, 9)) == NO_VERSIONS


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_reads_what_it_prints(raw: bytes) -> None:
    uuid = Uuid(raw)
    assert len(str(uuid)) == 22
    assert Uuid.parse(str(uuid)) == uuid == raw
    assert Uuid.parse(f"{uuid}==") == uuid
    assert repr(uuid) == f"Uuid('{uuid}')"


def test_a_uuid_prints_as_kafka_prints_it() -> None:
    assert str(UUID_ZERO) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert str(Uuid(bytes(15) + b"\x01")) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert str(Uuid(b"\xff" * 16)) == "_____________________w"


def test_bits_after_the_last_byte_of_a_uuid_are_passed_over() -> None:
    """Kafka takes any 22 characters, so that a cluster id made up by hand is a valid one."""
    assert str(Uuid.parse("MkU3OEVBNTcwNTJENDM2Qk")) == "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.mark.parametrize(
    "text",
    [
        *("", "A" * 21, "A" * 23, "A" * 22 + "=", "A" * 22 + "===", "A" * 22 + "!"),
        *("A" * 20 + "+/", "A" * 11 + " " + "A" * 10, "é" * 22, "A" * 22 + "\n", "A" * 1000),
    ],
)
def test_what_kafka_would_not_read_as_a_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kafka uuid"):
        Uuid.parse(text)


@pytest.mark.parametrize(("value", "encoded"), UVARINTS.items())
def test_uvarint_bytes(value: int, encoded: str) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert out.hex() == encoded
    assert read_uvarint(b"\xee" + out + b"\xee", 1) == (value, 1 + len(out))


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert len(out) == max(1, -(-value.bit_length() // 7))
    assert read_uvarint(memoryview(out), 0) == (value, len(out))


def test_a_padded_uvarint_is_read_as_kafka_reads_it() -> None:
    assert read_uvarint(b"\x80\x80\x00", 0) == (0, 3)
    assert read_uvarint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)


def test_a_uvarint_is_at_most_32_bits_in_5_bytes() -> None:
    with pytest.raises(WireError, match="longer than 5 bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)
    with pytest.raises(WireError, match="larger than 32 bits"):
        read_uvarint(b"\xff\xff\xff\xff\x10", 0)


@pytest.mark.parametrize("cut", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_cut_uvarint_raises_what_a_codec_translates(cut: bytes) -> None:
    with pytest.raises(IndexError):
        read_uvarint(cut, 0)


def test_tags_are_written_in_ascending_order() -> None:
    out = bytearray(b"before")
    write_tags(out, [(5, bytearray(b"five")), (0, bytearray())], {200: b"x", 3: b"three"})
    assert out[6:] == b"\x04" + b"\x00\x00" + b"\x03\x05three" + b"\x05\x04five" + b"\xc8\x01\x01x"


def test_a_known_field_wins_over_an_unknown_one_of_its_tag() -> None:
    out = bytearray()
    write_tags(out, [(1, bytearray(b"k"))], {1: b"unknown"})
    assert out == b"\x01\x01\x01k"
    out.clear()
    write_tags(out, [], None)
    assert out == b"\x00"


@pytest.mark.parametrize("tag", [0, 127, 128])
@pytest.mark.parametrize("size", [0, 127, 128])
def test_a_single_tag(tag: int, size: int) -> None:
    out, head = bytearray(), bytearray()
    write_tags(out, [(tag, bytearray(size))], None)
    for number in (1, tag, size):
        write_uvarint(head, number)
    assert out == head + bytes(size)
