"""Varints: known bytes, round trips, and the two ways they can be wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.records.varint import (
    VarintLongError,
    VarintShortError,
    encode_varint,
    read_varint,
    read_varlong,
    varint_size,
)

KNOWN = {
    0: "00",
    -1: "01",
    1: "02",
    -64: "7f",
    64: "8001",
    -65: "8101",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
KNOWN_LONG = {2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize(("value", "encoded"), KNOWN.items())
def test_known_values(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert encode_varint(value) == data
    assert varint_size(value) == len(data)
    assert read_varint(data, 0, len(data)) == (value, len(data))
    assert read_varlong(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("value", "encoded"), KNOWN_LONG.items())
def test_known_long_values(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert encode_varint(value) == data
    assert read_varlong(data, 0, len(data)) == (value, len(data))


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3))
def test_round_trip(value: int, before: bytes) -> None:
    data = before + encode_varint(value) + b"\x81"
    end = len(data) - 1
    assert read_varint(data, len(before), len(data)) == (value, end)
    assert varint_size(value) == end - len(before)


@given(st.integers(-(2**63), 2**63 - 1))
def test_long_round_trip(value: int) -> None:
    data = encode_varint(value)
    assert read_varlong(data, 0, len(data)) == (value, len(data))
    assert varint_size(value) == len(data)


def test_longer_forms_are_read() -> None:
    assert read_varint(b"\x80\x00", 0, 2) == (0, 2)
    assert read_varint(b"\x82\x80\x80\x80\x00", 0, 5) == (1, 5)


def test_bits_beyond_the_width_are_dropped() -> None:
    assert read_varint(b"\x82\x80\x80\x80\x70", 0, 5) == (1, 5)
    assert read_varlong(b"\x82" + b"\x80" * 8 + b"\x7e", 0, 10) == (1, 10)


@pytest.mark.parametrize("size", [0, 1, 4])
def test_short(size: int) -> None:
    with pytest.raises(VarintShortError):
        read_varint(b"\x80" * 4 + b"\x01", 0, size)
    with pytest.raises(VarintShortError):
        read_varlong(b"\x80" * 9 + b"\x01", 0, size)


def test_long() -> None:
    with pytest.raises(VarintLongError):
        read_varint(b"\xff" * 10, 0, 10)
    with pytest.raises(VarintLongError):
        read_varlong(b"\xff" * 20, 0, 20)
