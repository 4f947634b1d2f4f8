"""The record scanner, both twins: rules of records, lengths, canonical form, any chunking."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kaa.records import BatchBuilder, RecordBatch, encode_record
from kaa.records._pure_validate import (
    ERROR_APPEND_TIME,
    ERROR_NO_KEY,
    ERROR_TIMESTAMP,
    SCAN_DONE,
    SCAN_ILLEGAL_LENGTH,
    SCAN_INVALID,
    SCAN_MORE,
    RecordScanner,
)
from kaa.records.varint import encode_varint
from tests.unit.records.samples import NOW_MS, SCANNERS
from tests.unit.records.test_record import HEAD, MALFORMED, NULL, body

RULES: dict[str, Any] = {
    "record_count": 1,
    "base_timestamp": NOW_MS,
    "append_time": None,
    "now_ms": NOW_MS,
    "before_max_ms": 2**63 - 1,
    "after_max_ms": 1000,
    "is_create_time_topic": True,
    "requires_key": False,
    "checks_lengths": True,
    "tracks_canonical": False,
    "error_count_max": 100,
    "unlocked_bytes_min": 1 << 15,
}

pytestmark = pytest.mark.parametrize("scanner_class", SCANNERS.values(), ids=SCANNERS.keys())
ScannerClass = type[RecordScanner]


def scan(
    scanner_class: ScannerClass, records: bytes, count: int, **rules: Any
) -> tuple[int, RecordScanner]:
    scanner = scanner_class(**{**RULES, "record_count": count, **rules})
    scanner.feed(records)
    return scanner.finish(), scanner


def test_counts_and_greatest_timestamp(scanner_class: ScannerClass) -> None:
    deltas = [0, 7, -3, 7, 2]
    records = b"".join(
        encode_record(index, delta, None, b"v" * 200) for index, delta in enumerate(deltas)
    )
    status, scanner = scan(scanner_class, records, 5)
    assert status == SCAN_DONE
    assert scanner.record_index == 5
    assert scanner.max_timestamp == NOW_MS + 7
    assert scanner.max_timestamp_offset_delta == 1
    assert scanner.is_consecutive
    assert scanner.scanned_bytes == len(records)
    assert scanner.errors == []
    assert not scanner.has_timestamp_error


def test_no_timestamp_is_below_all_and_always_allowed(scanner_class: ScannerClass) -> None:
    record = encode_record(0, -1 - NOW_MS, None, None)
    status, scanner = scan(scanner_class, record, 1, before_max_ms=5)
    assert (status, scanner.errors, scanner.max_timestamp) == (SCAN_DONE, [], -1)
    assert scanner.max_timestamp_offset_delta == -1


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 2**31 - 1])
def test_declared_count(scanner_class: ScannerClass, count: int) -> None:
    records = b"".join(encode_record(index, 0, None, b"v") for index in range(3))
    status, _ = scan(scanner_class, records, count)
    assert status == SCAN_INVALID
    assert scan(scanner_class, records, 3)[0] == SCAN_DONE


def test_keys_are_required_on_demand(scanner_class: ScannerClass) -> None:
    records = b"".join(
        encode_record(index, 0, key, b"v") for index, key in enumerate((b"", None, b"k", None))
    )
    _, scanner = scan(scanner_class, records, 4, requires_key=True)
    assert scanner.errors == [(1, ERROR_NO_KEY, NOW_MS), (3, ERROR_NO_KEY, NOW_MS)]
    assert not scanner.has_timestamp_error
    assert scan(scanner_class, records, 4)[1].errors == []


def test_timestamps_around_now(scanner_class: ScannerClass) -> None:
    deltas = (0, 1000, 1001, -50, -51)
    records = b"".join(encode_record(i, delta, b"k", b"v") for i, delta in enumerate(deltas))
    _, scanner = scan(scanner_class, records, 5, before_max_ms=50)
    assert scanner.errors == [
        (2, ERROR_TIMESTAMP, NOW_MS + 1001),
        (4, ERROR_TIMESTAMP, NOW_MS - 51),
    ]
    assert scanner.has_timestamp_error
    _, unchecked = scan(scanner_class, records, 5, before_max_ms=50, is_create_time_topic=False)
    assert unchecked.errors == []


def test_timestamp_arithmetic_wraps_as_in_java(scanner_class: ScannerClass) -> None:
    delta = 2**63 - 1
    _, scanner = scan(scanner_class, encode_record(0, delta, None, None), 1)
    wrapped = NOW_MS + delta - 2**64
    assert scanner.max_timestamp == -1
    # The age wraps too: a timestamp far in the past looks as if it were in the future.
    assert scanner.errors == [(0, ERROR_TIMESTAMP, wrapped)]


def test_append_time_of_the_batch(scanner_class: ScannerClass) -> None:
    record = encode_record(0, 5, b"k", b"v")
    _, allowed = scan(scanner_class, record, 1, append_time=NOW_MS + 9)
    assert (allowed.errors, allowed.max_timestamp) == ([], NOW_MS + 9)
    _, late = scan(scanner_class, record, 1, append_time=NOW_MS + 5000)
    assert late.errors == [(0, ERROR_TIMESTAMP, NOW_MS + 5000)]
    _, none = scan(scanner_class, record, 1, append_time=-1)
    assert none.errors == [(0, ERROR_APPEND_TIME, -1)]
    _, topic = scan(scanner_class, record, 1, append_time=NOW_MS, is_create_time_topic=False)
    assert topic.errors == [(0, ERROR_APPEND_TIME, NOW_MS)]
    assert topic.has_timestamp_error


def test_errors_are_bounded_but_none_is_forgotten(scanner_class: ScannerClass) -> None:
    records = b"".join(encode_record(index, 0, None, b"v") for index in range(500))
    late = encode_record(500, 5000, b"k", b"v")
    _, scanner = scan(scanner_class, records + late, 501, requires_key=True, error_count_max=300)
    assert len(scanner.errors) == 300
    assert scanner.has_timestamp_error


def test_offsets_with_gaps(scanner_class: ScannerClass) -> None:
    records = encode_record(0, 0, None, b"") + encode_record(2, 0, None, b"")
    status, scanner = scan(scanner_class, records, 2)
    assert (status, scanner.is_consecutive) == (SCAN_DONE, False)


@pytest.mark.parametrize("records", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_records(scanner_class: ScannerClass, records: bytes) -> None:
    for chunk_size in (1, 2, 3, 1000):
        scanner = scanner_class(**RULES)
        for start in range(0, len(records), chunk_size):
            scanner.feed(records[start : start + chunk_size])
        assert scanner.finish() in {SCAN_INVALID, SCAN_ILLEGAL_LENGTH}


def test_length_that_is_no_varint(scanner_class: ScannerClass) -> None:
    assert scan(scanner_class, b"\xff" * 20, 1)[0] == SCAN_ILLEGAL_LENGTH
    scanner = scanner_class(**RULES)
    statuses = [scanner.feed(b"\xff") for _ in range(6)]
    assert statuses == [SCAN_MORE] * 4 + [SCAN_ILLEGAL_LENGTH] * 2


def test_lengths_are_ignored_on_demand(scanner_class: ScannerClass) -> None:
    fields = HEAD + NULL + NULL + b"\0"
    for length in (-5, 0, 1, 6, 100, 2**31 - 1):
        records = encode_varint(length) + fields
        expected = SCAN_DONE if length == 6 else SCAN_INVALID
        assert scan(scanner_class, records, 1)[0] == expected
        assert scan(scanner_class, records, 1, checks_lengths=False)[0] == SCAN_DONE


CANONICAL = {
    "plain": (True, encode_record(0, 0, b"k", b"v", (("h", b"x"), ("i", None)))),
    "nulls": (True, encode_record(0, 0, None, None)),
    "two-byte lengths": (True, encode_record(0, 0, b"k" * 100, b"v" * 10_000)),
    "attributes": (False, body(b"\1\0\0", NULL, NULL, b"\0")),
    "first timestamp": (False, encode_record(0, 1, None, None)),
    "negative timestamp": (False, encode_record(0, -2 - NOW_MS, None, None)),
    "long form of the length": (False, b"\x8c\x00" + HEAD + NULL + NULL + b"\0"),
    "long form of the timestamp": (False, body(b"\0\x80\x00\0", NULL, NULL, b"\0")),
    "long form of the offset": (False, body(b"\0\0\x80\x00", NULL, NULL, b"\0")),
    "long form of a key length": (False, body(HEAD, b"\x82\x00k", NULL, b"\0")),
    "other null": (False, body(HEAD, encode_varint(-2), NULL, b"\0")),
    "long form of the header count": (False, body(HEAD, NULL, NULL, b"\x80\x00")),
    "long form of a header length": (False, body(HEAD, NULL, NULL, b"\2\x82\x00h\1")),
    "header key beyond ASCII": (False, encode_record(0, 0, None, None, (("é", None),))),
}


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 100_000])
@pytest.mark.parametrize(("expected", "records"), CANONICAL.values(), ids=CANONICAL.keys())
def test_canonical_form(
    scanner_class: ScannerClass, expected: bool, records: bytes, chunk_size: int
) -> None:
    scanner = scanner_class(**{**RULES, "tracks_canonical": True})
    for start in range(0, len(records), chunk_size):
        scanner.feed(records[start : start + chunk_size])
    assert scanner.finish() == SCAN_DONE
    assert scanner.is_canonical is expected


def test_canonical_form_is_not_claimed_unless_asked_for(scanner_class: ScannerClass) -> None:
    assert not scan(scanner_class, encode_record(0, 0, None, None), 1)[1].is_canonical


def test_statuses_while_feeding(scanner_class: ScannerClass) -> None:
    record = encode_record(0, 0, b"key", b"value")
    scanner = scanner_class(**RULES)
    assert scanner.feed(b"") == SCAN_MORE
    assert scanner.feed(record[:4]) == SCAN_MORE
    assert scanner.feed(memoryview(record)[4:]) == SCAN_DONE
    assert scanner.feed(b"") == SCAN_DONE
    assert scanner.feed(bytearray(b"\0")) == SCAN_INVALID
    assert scanner.feed(record) == SCAN_INVALID
    assert scanner.finish() == SCAN_INVALID


def test_no_records_wanted(scanner_class: ScannerClass) -> None:
    scanner = scanner_class(**{**RULES, "record_count": 0})
    assert scanner.finish() == SCAN_DONE


@pytest.mark.parametrize("checks_lengths", [False, True])
def test_any_chunking_gives_the_same_result(
    scanner_class: ScannerClass, checks_lengths: bool
) -> None:
    rng = random.Random(5)
    builder = BatchBuilder()
    for _ in range(40):
        headers = [("h" * rng.randrange(100), rng.randbytes(rng.randrange(3)))] * rng.randrange(4)
        builder.append(NOW_MS + rng.randrange(50), None, rng.randbytes(rng.randrange(200)), headers)
    batch = RecordBatch(builder.build())
    records = bytes(batch.payload)
    rules = {
        "base_timestamp": batch.base_timestamp,
        "checks_lengths": checks_lengths,
        "tracks_canonical": True,
    }
    whole_status, whole = scan(scanner_class, records, 40, **rules)
    assert whole_status == SCAN_DONE
    for chunk_size in (1, 2, 3, 7, 50, 333):
        scanner = scanner_class(**{**RULES, "record_count": 40, **rules})
        for start in range(0, len(records), chunk_size):
            scanner.feed(records[start : start + chunk_size])
        assert scanner.finish() == SCAN_DONE
        assert scanner.is_canonical
        assert scanner.max_timestamp == whole.max_timestamp
        assert scanner.max_timestamp_offset_delta == whole.max_timestamp_offset_delta
