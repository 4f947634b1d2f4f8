"""Records as objects and back, both twins: known bytes, round trips, the same answer to damage."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.records import Record
from kaa.records._pure_objects import decode_header_key, wrap_int64
from tests.unit.records.samples import (
    DECODERS,
    ENCODERS,
    damage_records,
    expanded,
    headers,
    random_batch,
)

each_encoder = pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS.keys())
each_decoder = pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS.keys())

_fields = st.none() | st.binary(max_size=300)


@each_encoder
def test_known_bytes(encode: Any) -> None:
    record = encode(1, 5, b"k", b"vw", (("h", b"\1"), ("", None)))
    assert record.hex() == "1e000a02026b04767704026802010001"
    assert encode(0, 0, None, None).hex() == "0c000000010100"


@each_encoder
def test_any_buffer_and_any_sequence_of_headers(encode: Any) -> None:
    plain = encode(3, -9, b"key", b"value", (("é", b"x"),))
    assert encode(3, -9, bytearray(b"key"), memoryview(b"value"), [("é", b"x")]) == plain


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    _fields,
    _fields,
    headers,
)
def test_round_trip_through_every_pair_of_twins(
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    record_headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    written = {
        encode(offset, timestamp, key, value, record_headers) for encode in ENCODERS.values()
    }
    assert len(written) == 1
    (data,) = written
    expected = [(offset, timestamp, key, value, record_headers, -1)]
    for decode in DECODERS.values():
        records, position = decode(data, 0, 5, 0, 0, None, -1, Record)
        assert (records, position) == (expected, len(data))
        assert type(records[0]) is Record


@each_decoder
def test_bases(decode: Any) -> None:
    data = ENCODERS["python"](2, 7, None, b"v")
    (record,), _ = decode(data, 0, 1, 100, 1000, None, 2**31 - 1, Record)
    assert (record.offset, record.timestamp, record.sequence) == (102, 1007, 1)
    (appended,), _ = decode(data, 0, 1, 100, 1000, 55, -1, Record)
    assert (appended.timestamp, appended.sequence) == (55, -1)


@each_decoder
def test_stops_at_the_count_at_partial_and_at_malformed_records(decode: Any) -> None:
    encode = ENCODERS["python"]
    one, two = encode(0, 0, None, b"one"), encode(1, 0, None, b"two")
    assert decode(one + two, 0, 1, 0, 0, None, -1, Record)[1] == len(one)
    for size in range(len(two)):
        records, position = decode(one + two[:size], 0, 9, 0, 0, None, -1, Record)
        assert (len(records), position) == (1, len(one))
    records, position = decode(one + b"\x0a" + bytes(20), 0, 9, 0, 0, None, -1, Record)
    assert (len(records), position) == (1, len(one))
    assert decode(b"", 0, 9, 0, 0, None, -1, Record) == ([], 0)
    assert decode(one, len(one), 9, 0, 0, None, -1, Record) == ([], len(one))
    assert decode(one, 0, 0, 0, 0, None, -1, Record) == ([], 0)


def test_twins_agree_on_damage() -> None:
    rng = random.Random(31)
    for _ in range(1500):
        data = bytearray(expanded(random_batch(rng)))
        for _ in range(rng.randrange(3)):
            damage_records(data, rng)
        base = rng.choice((0, 2**63 - 3))
        answers = [
            decode(data, 0, 40, base, base, rng.choice((None, None)), 2**31 - 5, Record)
            for decode in DECODERS.values()
        ]
        assert all(answer == answers[0] for answer in answers)


def test_wrapping() -> None:
    assert wrap_int64(5) == 5
    assert wrap_int64(2**63) == -(2**63)
    assert wrap_int64(-(2**63) - 1) == 2**63 - 1


def test_header_keys() -> None:
    assert decode_header_key("é".encode()) == "é"
    assert decode_header_key(b"\xed\xa0\x80") == "�"
