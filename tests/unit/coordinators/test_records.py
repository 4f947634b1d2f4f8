from __future__ import annotations

import pytest

from kaa.coordinators.machine import NewRecord
from kaa.coordinators.records import RecordType, RecordTypes, encode_key
from kaa.wire.messages.offsets_classic import OffsetCommitKey, OffsetCommitValue
from kaa.wire.primitives import WireError

TYPES = RecordTypes([RecordType(OffsetCommitKey, OffsetCommitValue)])
KEY = OffsetCommitKey(group="g", topic="t", partition=3)
VALUE = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)


@pytest.mark.parametrize("version", range(5))
def test_what_is_written_is_read(version: int) -> None:
    record = NewRecord(KEY, VALUE, version)
    assert TYPES.decode(encode_key(KEY), record.encode()[1]) == (KEY, VALUE)


def test_bytes_are_those_of_the_format() -> None:
    assert encode_key(KEY) == b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\3"
    value = NewRecord(KEY, VALUE, 0).encode()[1]
    assert value == b"\0\0" + (7).to_bytes(8, "big") + b"\0\1m" + (9).to_bytes(8, "big")


def test_a_tombstone_has_no_value() -> None:
    assert NewRecord(KEY, None).encode()[1] is None
    assert TYPES.decode(encode_key(KEY), None) == (KEY, None)


def test_a_type_of_a_newer_version_is_passed_over() -> None:
    assert TYPES.decode(b"\x7f\xff" + b"whatever", b"\0\0") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", None),
        (b"\0", None),
        (encode_key(KEY), b""),
        (encode_key(KEY), b"\0\x63" + b"unknown version"),
        (encode_key(KEY)[:-1], None),
    ],
)
def test_what_makes_no_sense_is_an_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(WireError):
        TYPES.decode(key, value)
