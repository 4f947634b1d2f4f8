"""Any bytes as record batches: only declared exceptions, twins that agree, memory in bounds.

The bytes are tried as they are, and then with a frame that holds (length, magic, checksum), so that
what lies after the checksum is reached as well.
"""

from __future__ import annotations

import contextlib
import tracemalloc
from unittest.mock import patch

from crc32c import crc32c

from kaa.limits import DECOMPRESSION_CHUNK_BYTES
from kaa.model.kinds import AppendOrigin
from kaa.records import (
    HEADER_BYTES,
    AppendRules,
    CompressionType,
    LegacyBatch,
    RecordBatch,
    RecordsError,
    Refusal,
    TimestampType,
    Validated,
    analyze_replicated,
    iter_any_batches,
    iter_legacy_records,
    iter_records,
    read_end_transaction_marker,
    validate,
    validate_batch,
    validate_produced,
)
from kaa.records._pure_validate import RecordScanner, scan_plain
from kaa.records.kernel import RecordScanner as ChosenScanner
from kaa.records.kernel import scan_plain as chosen_scan_plain

NOW_MS = 1_700_000_000_000
EXPANDED_BYTES_MAX = 1 << 20
# What a chunk, a record, a rewritten batch and the objects around them may take together. One lz4
# block may have 4 MiB, and is copied once.
MEMORY_BYTES_MAX = 16 * EXPANDED_BYTES_MAX + 64 * DECOMPRESSION_CHUNK_BYTES
# Declared records are bounded so that a few bytes cannot keep the Python twin busy for minutes.
RECORD_COUNT_MASK = 0x3FFF

RULES = (
    AppendRules(message_bytes_max=EXPANDED_BYTES_MAX),
    AppendRules(
        message_bytes_max=EXPANDED_BYTES_MAX,
        compression_type=CompressionType.LZ4,
        timestamp_before_max_ms=1000,
        is_compacted=True,
    ),
    AppendRules(
        message_bytes_max=EXPANDED_BYTES_MAX,
        compression_type=CompressionType.NONE,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    ),
)


def fuzz_record_batch(data: bytes) -> None:
    """Tries everything that reads record bytes on `data`; raises where an invariant breaks."""
    tracemalloc.start()
    try:
        _try_readers(data)
        _try_verdicts(data)
        if len(data) >= HEADER_BYTES:
            framed = _with_frame(data)
            _try_readers(framed)
            _try_verdicts(framed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= MEMORY_BYTES_MAX + 64 * len(data), f"{peak} bytes of memory"


def _with_frame(data: bytes) -> bytes:
    """The bytes with length, magic, offset, count and checksum as a client would have them."""
    batch = bytearray(data)
    batch[0:8] = bytes(8)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[16] = 2
    count = int.from_bytes(batch[57:61], "big") & RECORD_COUNT_MASK
    batch[57:61] = count.to_bytes(4, "big")
    batch[23:27] = (count - 1).to_bytes(4, "big", signed=True)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def _try_readers(data: bytes) -> None:
    with contextlib.suppress(RecordsError):
        analyze_replicated(data, 5)
    with contextlib.suppress(RecordsError):
        for batch in iter_any_batches(data):
            batch.is_valid_crc()
            with contextlib.suppress(RecordsError):
                _read(batch)


def _read(batch: RecordBatch | LegacyBatch) -> None:
    if isinstance(batch, LegacyBatch):
        assert list(iter_legacy_records(batch, EXPANDED_BYTES_MAX))
        return
    size = 0
    for record in iter_records(batch, EXPANDED_BYTES_MAX):
        size += len(record.key or b"") + len(record.value or b"")
        if size > EXPANDED_BYTES_MAX:
            break
    if batch.is_control:
        read_end_transaction_marker(batch)


def _try_verdicts(data: bytes) -> None:
    for rules in RULES:
        ours = _verdict(data, rules, ChosenScanner, chosen_scan_plain)
        assert _comparable(ours) == _comparable(_verdict(data, rules, RecordScanner, scan_plain))
        if isinstance(ours, Validated):
            _check_accepted(ours)


def _verdict(
    data: bytes, rules: AppendRules, scanner_class: type[RecordScanner], plain: object
) -> Validated | Refusal:
    # The module looks its scanner up when it needs one, so both twins can be asked in turn.
    with (
        patch.object(validate, "RecordScanner", scanner_class),
        patch.object(validate, "scan_plain", plain),
    ):
        outcome = validate_produced(bytearray(data), 12, rules, NOW_MS)
        with contextlib.suppress(RecordsError):
            validate_batch(RecordBatch(data), rules, NOW_MS, AppendOrigin.COORDINATOR)
    return outcome


def _comparable(outcome: Validated | Refusal) -> tuple[object, ...]:
    if isinstance(outcome, Validated):
        return (bytes(outcome.batch.view), *outcome[1:])
    return tuple(outcome)


def _check_accepted(outcome: Validated) -> None:
    batch = outcome.assign(1000, 3)
    assert batch.is_valid_crc()
    assert batch.next_offset == 1000 + outcome.record_count
    if not batch.is_compressed or outcome.is_rewritten:
        # Every length was checked, so every record can be read.
        assert sum(1 for _ in iter_records(batch)) == outcome.record_count
