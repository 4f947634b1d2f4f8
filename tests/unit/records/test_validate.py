"""Validation of produced batches with both kernels: verdict, error code, facts and patches."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, RECORD_ERRORS_MAX
from kaa.model.kinds import AppendOrigin
from kaa.records import (
    AppendRules,
    BatchBuilder,
    CompressionType,
    ControlRecordType,
    EndTransactionMarker,
    RecordBatch,
    RecordError,
    Refusal,
    TimestampType,
    Validated,
    build_end_transaction_batch,
    compressor,
    encode_record,
    iter_records,
    parse_produced,
    validate_batch,
    validate_produced,
)
from kaa.records.errors import WorkLimitError
from kaa.records.varint import encode_varint
from kaa.wire.errors import Errors
from tests.unit.records.samples import (
    CODECS,
    NOW_MS,
    SCANNERS,
    build,
    damaged,
    expanded,
    random_batch,
    simple_batch,
    validate_by,
    with_crc,
    with_records,
)

RULES = AppendRules(message_bytes_max=1 << 20)
APPEND_TIME_RULES = RULES._replace(timestamp_type=TimestampType.LOG_APPEND_TIME)
COMPRESSED = CODECS[1:]
VERSION = 12


@pytest.fixture(params=SCANNERS, autouse=True)
def scanner_class(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test of this file runs on each kernel there is."""
    validate_by(request.param, monkeypatch)


def accepted(
    records: bytearray, rules: AppendRules = RULES, version: int = VERSION, now_ms: int = NOW_MS
) -> Validated:
    outcome = validate_produced(records, version, rules, now_ms)
    assert isinstance(outcome, Validated), outcome
    return outcome


def refused(records: bytearray, rules: AppendRules = RULES, version: int = VERSION) -> Refusal:
    outcome = validate_produced(records, version, rules, NOW_MS)
    assert isinstance(outcome, Refusal), outcome
    assert outcome.reason
    return outcome


def error_of(records: bytearray, rules: AppendRules = RULES, version: int = VERSION) -> Errors:
    return refused(records, rules, version).error


def patched(batch: bytearray, position: int, value: int, size: int) -> bytearray:
    batch[position : position + size] = value.to_bytes(size, "big", signed=value < 0)
    return with_crc(batch)


# --- the produce request


@pytest.mark.parametrize("codec", CODECS)
def test_accepted_in_place(codec: CompressionType) -> None:
    records = simple_batch(5, codec)
    outcome = accepted(records)
    assert outcome.batch.buffer is records
    assert outcome.record_count == 5
    assert outcome.max_timestamp == NOW_MS + 4
    assert outcome.max_timestamp_offset_delta == 4
    assert outcome.append_time_ms == -1
    assert not outcome.is_rewritten
    assert outcome.expanded_bytes == 61 + len(expanded(records))
    batch = outcome.assign(1000, 7)
    assert (batch.base_offset, batch.last_offset) == (1000, 1004)
    assert batch.partition_leader_epoch == 7
    again = RecordBatch(records)
    assert again.is_valid_crc()
    assert [record.offset for record in iter_records(again)] == list(range(1000, 1005))


def test_no_batch() -> None:
    for size in (0, 11, 12, 16, 17, 60):
        assert error_of(simple_batch()[:size]) is Errors.INVALID_RECORD


def test_two_batches() -> None:
    assert error_of(simple_batch() + simple_batch()) is Errors.INVALID_RECORD


def test_a_partial_batch_at_the_end_is_dropped() -> None:
    batch = simple_batch()
    for tail in (b"x", b"x" * 11, bytes(simple_batch()[:-1])):
        outcome = accepted(batch + tail)
        assert outcome.batch.size_in_bytes == len(batch)


def test_a_corrupt_length_behind_the_batch() -> None:
    assert error_of(simple_batch() + bytes(12)) is Errors.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_corrupt_lengths(length: int) -> None:
    assert error_of(patched(simple_batch(), 8, length, 4)) is Errors.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("length", "error"),
    [
        (14, Errors.UNKNOWN_SERVER_ERROR),
        (15, Errors.CORRUPT_MESSAGE),
        (48, Errors.CORRUPT_MESSAGE),
        (2**31 - 12, Errors.UNKNOWN_SERVER_ERROR),
        (2**31 - 13, Errors.INVALID_RECORD),
    ],
)
def test_lengths_that_end_inside_the_header_or_beyond_java(length: int, error: Errors) -> None:
    records = simple_batch(1)
    records[8:12] = length.to_bytes(4, "big")
    assert error_of(records[: max(26, min(length + 12, len(records)))]) is error


def test_short_batch_with_an_offset() -> None:
    records = simple_batch(1)[:40]
    records[7] = 1
    records[8:12] = (28).to_bytes(4, "big")
    assert error_of(records) is Errors.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magic(magic: int) -> None:
    records = simple_batch()
    records[16] = magic
    assert error_of(records) is Errors.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_unknown_magic(magic: int) -> None:
    records = simple_batch()
    records[16] = magic
    assert error_of(records) is Errors.CORRUPT_MESSAGE


def test_zstd_needs_version_7() -> None:
    records = simple_batch(1, CompressionType.ZSTD)
    assert error_of(records, version=6) is Errors.UNSUPPORTED_COMPRESSION_TYPE
    assert accepted(records, version=7).record_count == 1
    two = simple_batch(1, CompressionType.ZSTD) + simple_batch()
    assert error_of(two, version=6) is Errors.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("version", [3, VERSION])
def test_unknown_codec(version: int) -> None:
    for codec in (5, 6, 7):
        records = patched(simple_batch(), 21, codec, 2)
        assert error_of(records, version=version) is Errors.UNKNOWN_SERVER_ERROR


def test_parsing_alone_looks_at_no_checksum() -> None:
    records = simple_batch()
    records[17] ^= 1
    assert isinstance(parse_produced(records, VERSION), RecordBatch)


# --- the frame and the header


def test_base_offset_must_be_zero() -> None:
    assert error_of(patched(simple_batch(), 0, 1, 8)) is Errors.INVALID_RECORD


def test_size() -> None:
    records = simple_batch()
    assert accepted(records, RULES._replace(message_bytes_max=len(records)))
    rules = RULES._replace(message_bytes_max=len(records) - 1)
    assert error_of(records, rules) is Errors.MESSAGE_TOO_LARGE


def test_checksum() -> None:
    records = simple_batch()
    for position in (17, 21, 60, len(records) - 1):
        records[position] ^= 0x80
        assert error_of(records) is Errors.CORRUPT_MESSAGE
        records[position] ^= 0x80
    assert accepted(records)


@pytest.mark.parametrize("count", [-1, 0, 2, 4])
def test_count_must_fit_the_offsets(count: int) -> None:
    assert error_of(patched(simple_batch(3), 57, count, 4)) is Errors.INVALID_RECORD


@pytest.mark.parametrize("delta", [-1, 0, 1, 3, -(2**31), 2**31 - 1])
def test_offsets_must_fit_the_count(delta: int) -> None:
    assert error_of(patched(simple_batch(3), 23, delta, 4)) is Errors.INVALID_RECORD


def test_clients_write_no_control_batches() -> None:
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 1)
    records = build_end_transaction_batch(marker, producer_id=1, producer_epoch=0, timestamp=1)
    assert error_of(records) is Errors.INVALID_RECORD
    outcome = validate_batch(RecordBatch(records), RULES, NOW_MS, AppendOrigin.COORDINATOR)
    assert isinstance(outcome, Validated)


def test_a_producer_id_needs_a_sequence() -> None:
    builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=0)
    builder.append(NOW_MS, None, b"")
    records = builder.build()
    assert accepted(bytearray(records))
    assert error_of(patched(records, 53, -1, 4)) is Errors.INVALID_RECORD


def test_transactional_batches_are_accepted() -> None:
    builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(NOW_MS, None, b"")
    assert accepted(builder.build()).batch.is_transactional


def test_coordinators_may_leave_gaps_and_send_nothing() -> None:
    def outcome(records: bytearray) -> Validated | Refusal:
        return validate_batch(RecordBatch(records), RULES, NOW_MS, AppendOrigin.COORDINATOR)

    gap = outcome(patched(simple_batch(3), 23, 9, 4))
    assert isinstance(gap, Validated)
    assert gap.assign(100, 1).last_offset == 102
    negative = outcome(patched(simple_batch(3), 57, -1, 4))
    assert isinstance(negative, Refusal)
    assert negative.error is Errors.INVALID_RECORD
    empty = outcome(patched(patched(simple_batch(1), 57, 0, 4), 23, -1, 4))
    assert isinstance(empty, Validated)
    assert empty.record_count == 0


# --- records


def test_keys_on_compacted_topics() -> None:
    records = build([(NOW_MS, key, b"v", ()) for key in (b"a", None, b"", None)])
    refusal = refused(records, RULES._replace(is_compacted=True))
    assert refusal.error is Errors.INVALID_RECORD
    assert [error.batch_index for error in refusal.record_errors] == [1, 3]
    assert all("key" in error.message for error in refusal.record_errors)
    assert refusal.message
    assert accepted(records)


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_out_of_range(codec: CompressionType) -> None:
    stamps = (NOW_MS, NOW_MS + 3_600_001, -1, NOW_MS - 1001)
    records = build([(stamp, None, b"v", ()) for stamp in stamps], codec)
    rules = RULES._replace(timestamp_before_max_ms=1000)
    refusal = refused(records, rules)
    assert refusal.error is Errors.INVALID_TIMESTAMP
    assert [error.batch_index for error in refusal.record_errors] == [1, 3]
    assert str(NOW_MS + 3_600_001) in refusal.record_errors[0].message
    assert accepted(records, RULES._replace(timestamp_after_max_ms=3_600_001))


def test_timestamp_errors_outweigh_missing_keys() -> None:
    records = build([(NOW_MS, None, b"v", ()), (NOW_MS + 10**8, b"k", b"v", ())])
    refusal = refused(records, RULES._replace(is_compacted=True))
    assert refusal.error is Errors.INVALID_TIMESTAMP
    assert [error.batch_index for error in refusal.record_errors] == [0, 1]


def test_a_malformed_record_outweighs_all_record_errors() -> None:
    records = with_records(
        simple_batch(2), encode_record(0, 0, None, b"v") + encode_varint(50) + bytes(3)
    )
    refusal = refused(records, RULES._replace(is_compacted=True))
    assert (refusal.error, refusal.record_errors) == (Errors.INVALID_RECORD, ())
    assert refusal.message is None


def test_record_errors_are_bounded() -> None:
    records = build([(NOW_MS, None, b"", ()) for _ in range(RECORD_ERRORS_MAX + 5)])
    refusal = refused(records, RULES._replace(is_compacted=True))
    # They are made, and put into an answer, in one turn of the loop.
    assert len(refusal.record_errors) == RECORD_ERRORS_MAX <= NAMES_ANSWERED_PER_SLICE_MAX
    assert isinstance(refusal.record_errors[0], RecordError)


def test_append_time_from_a_client() -> None:
    builder = BatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=NOW_MS)
    builder.append(5, b"k", b"v")
    records = builder.build()
    refusal = refused(bytearray(records), APPEND_TIME_RULES)
    assert refusal.error is Errors.INVALID_TIMESTAMP
    assert len(refusal.record_errors) == 1
    # On a topic with create time Kafka takes the append time for the timestamp of the records.
    batch = accepted(records).assign(0, 0)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.max_timestamp == NOW_MS
    assert batch.is_valid_crc()


@pytest.mark.parametrize("codec", CODECS)
def test_append_time_topic(codec: CompressionType) -> None:
    records = simple_batch(3, codec)
    outcome = accepted(records, APPEND_TIME_RULES, now_ms=NOW_MS + 77)
    assert outcome.append_time_ms == outcome.max_timestamp == NOW_MS + 77
    assert outcome.max_timestamp_offset_delta == 0
    batch = outcome.assign(5, 1)
    assert batch.is_valid_crc()
    assert {r.timestamp for r in iter_records(RecordBatch(records))} == {NOW_MS + 77}


@pytest.mark.parametrize("codec", CODECS)
def test_wrong_max_timestamp_is_put_right(codec: CompressionType) -> None:
    records = patched(simple_batch(3, codec), 35, 12345, 8)
    batch = accepted(records).assign(0, 0)
    assert batch.max_timestamp == NOW_MS + 2
    assert RecordBatch(records).is_valid_crc()


@pytest.mark.parametrize("codec", CODECS)
def test_malformed_and_missing_and_surplus_records(codec: CompressionType) -> None:
    batch = simple_batch(3, codec)
    records = expanded(batch)
    for changed in (records[:-1], records + b"\0", records[:10], b"\0" + records):
        assert error_of(with_records(batch, changed)) is Errors.INVALID_RECORD


def test_record_length_that_is_no_varint() -> None:
    endless = b"\xff" * 40
    assert error_of(with_records(simple_batch(1), endless)) is Errors.UNKNOWN_SERVER_ERROR
    for codec in COMPRESSED:
        records = with_records(simple_batch(1, codec), endless)
        assert error_of(records) is Errors.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED)
def test_lengths_inside_a_kept_compressed_batch_are_not_looked_at(codec: CompressionType) -> None:
    batch = simple_batch(1, codec)
    records = bytearray(expanded(batch))
    records[0] ^= 2
    assert accepted(with_records(batch, bytes(records)))
    rules = RULES._replace(compression_type=CompressionType.NONE)
    assert error_of(with_records(batch, bytes(records)), rules) is Errors.INVALID_RECORD


def test_gaps_between_offsets() -> None:
    gap = encode_record(0, 0, b"k", b"v") + encode_record(2, 0, b"k", b"v")
    assert accepted(with_records(simple_batch(2), gap))
    for codec in COMPRESSED:
        records = with_records(simple_batch(2, codec), gap)
        assert error_of(records) is Errors.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", COMPRESSED)
def test_unreadable_compressed_data(codec: CompressionType) -> None:
    records = simple_batch(3, codec)
    for changed in (records[:70], records[:61] + b"what is this"):
        changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
        assert error_of(with_crc(changed)) is Errors.UNKNOWN_SERVER_ERROR


# --- compression.type


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_compression_type(source: CompressionType, target: CompressionType) -> None:
    records = simple_batch(100, source)
    outcome = accepted(records, RULES._replace(compression_type=target))
    assert outcome.is_rewritten == (source is not target)
    assert (outcome.batch.buffer is records) == (source is target)
    batch = outcome.assign(40, 2)
    assert batch.compression_type is target
    assert batch.is_valid_crc()
    assert (batch.base_offset, batch.last_offset) == (40, 139)
    values = [(r.timestamp, r.key, r.value) for r in iter_records(batch)]
    assert values == [(r.timestamp, r.key, r.value) for r in iter_records(RecordBatch(records))]


def test_rewritten_batch_above_the_size() -> None:
    records = build([(NOW_MS, None, bytes(100_000), ())], CompressionType.GZIP)
    rules = AppendRules(message_bytes_max=50_000, compression_type=CompressionType.NONE)
    assert error_of(records, rules) is Errors.MESSAGE_TOO_LARGE
    assert accepted(records, rules._replace(compression_type=None))


def test_what_cannot_be_written_anew_is_refused_only_then() -> None:
    negative = with_records(simple_batch(1), encode_record(0, -2 - NOW_MS, b"k", b"v"))
    rules = RULES._replace(compression_type=CompressionType.GZIP)
    assert error_of(negative, rules) is Errors.UNKNOWN_SERVER_ERROR
    assert accepted(negative)
    transactional = patched(simple_batch(1), 21, 0x10, 2)
    assert error_of(transactional, rules) is Errors.UNKNOWN_SERVER_ERROR
    assert accepted(transactional)


def test_markers_are_never_compressed() -> None:
    marker = EndTransactionMarker(ControlRecordType.ABORT, 1)
    records = build_end_transaction_batch(marker, producer_id=1, producer_epoch=0, timestamp=1)
    rules = RULES._replace(compression_type=CompressionType.ZSTD)
    outcome = validate_batch(RecordBatch(records), rules, NOW_MS, AppendOrigin.COORDINATOR)
    assert isinstance(outcome, Validated)
    assert not outcome.is_rewritten


# --- hostile input


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_a_batch_that_expands_a_thousandfold_takes_constant_memory(codec: CompressionType) -> None:
    value_bytes = 1 << 26
    head = b"\0\0\0\1" + encode_varint(value_bytes)
    stream = compressor(codec)
    payload = bytearray(stream.write(encode_varint(len(head) + value_bytes + 1) + head))
    zeros = bytes(1 << 20)
    for _ in range(64):
        payload += stream.write(zeros)
    payload += stream.write(b"\0") + stream.finish()
    records = simple_batch(1, codec)[:61] + payload
    records[8:12] = (len(records) - 12).to_bytes(4, "big")
    with_crc(records)
    tracemalloc.start()
    outcome = accepted(records, RULES._replace(timestamp_before_max_ms=1))
    target = CompressionType.GZIP if codec is CompressionType.ZSTD else CompressionType.ZSTD
    rewritten = accepted(records, RULES._replace(compression_type=target))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.expanded_bytes > value_bytes
    assert rewritten.is_rewritten
    assert peak < 20 << 20


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_batch_that_expands_too_far_is_left_for_later(codec: CompressionType) -> None:
    records = build([(NOW_MS, None, bytes(1 << 20), ())], codec)
    for room in (1 << 16, 1 << 20):
        with pytest.raises(WorkLimitError):
            validate_produced(records, VERSION, RULES, NOW_MS, room)
    outcome = validate_produced(records, VERSION, RULES, NOW_MS, (1 << 20) + 100)
    assert isinstance(outcome, Validated)


def test_rewriting_takes_more_of_the_room() -> None:
    records = build([(NOW_MS, None, bytes(1 << 16), ())])
    rules = RULES._replace(compression_type=CompressionType.GZIP)
    with pytest.raises(WorkLimitError):
        validate_produced(records, VERSION, rules, NOW_MS, 1 << 18)
    assert isinstance(validate_produced(records, VERSION, rules, NOW_MS, 1 << 20), Validated)
    # Without rewriting there is nothing to expand, whatever the size.
    assert isinstance(validate_produced(records, VERSION, RULES, NOW_MS, 1), Validated)


def test_damaged_batches_never_raise() -> None:
    rng = random.Random(23)
    outcomes = set()
    for _ in range(1500):
        records = random_batch(rng)
        if rng.random() < 0.9:
            records = damaged(records, rng)
        rules = AppendRules(
            message_bytes_max=rng.choice((300, 1 << 20)),
            compression_type=rng.choice((None, None, *CODECS)),
            timestamp_type=rng.choice(tuple(TimestampType)),
            timestamp_before_max_ms=rng.choice((500, 2**63 - 1)),
            is_compacted=rng.random() < 0.3,
        )
        outcome = validate_produced(records, rng.choice((3, 12)), rules, NOW_MS)
        if isinstance(outcome, Refusal):
            outcomes.add(outcome.error)
        else:
            outcomes.add(Errors.NONE)
            assert outcome.assign(5, 5).is_valid_crc()
    assert len(outcomes) >= 7
