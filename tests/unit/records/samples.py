"""Batches for tests: seeded random ones, hypothesis strategies, and ways to damage them."""

from __future__ import annotations

import random

import pytest
from crc32c import crc32c
from hypothesis import strategies as st

from kaa.records import (
    HEADER_BYTES,
    BatchBuilder,
    CompressionType,
    Header,
    RecordBatch,
    TimestampType,
    _pure_objects,
    compress,
    decompress_all,
    kernel,
    validate,
)
from kaa.records._pure_validate import RecordScanner, scan_plain

NOW_MS = 1_700_000_000_000

SCANNERS: dict[str, type[RecordScanner]] = {"python": RecordScanner}
DECODERS = {"python": _pure_objects.decode_records}
ENCODERS = {"python": _pure_objects.encode_record}
PLAIN_SCANS = {"python": scan_plain}
if kernel.KERNEL_NAME == "cython":
    SCANNERS["cython"] = kernel.RecordScanner
    DECODERS["cython"] = kernel.decode_records
    ENCODERS["cython"] = kernel.encode_record
    PLAIN_SCANS["cython"] = kernel.scan_plain


def validate_by(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are validated by this kernel from now on."""
    monkeypatch.setattr(validate, "RecordScanner", SCANNERS[name])
    monkeypatch.setattr(validate, "scan_plain", PLAIN_SCANS[name])


CODECS = tuple(CompressionType)
NewRecord = tuple[int, bytes | None, bytes | None, tuple[Header, ...]]
"""Timestamp, key, value and headers."""

_optional_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=10), _optional_bytes), max_size=4).map(tuple)
new_records: st.SearchStrategy[NewRecord] = st.tuples(
    st.integers(-1, NOW_MS * 2), _optional_bytes, _optional_bytes, headers
)
record_lists = st.lists(new_records, min_size=1, max_size=12)
codecs = st.sampled_from(CODECS)


def build(
    records: list[NewRecord], compression_type: CompressionType = CompressionType.NONE
) -> bytearray:
    builder = BatchBuilder(compression_type=compression_type)
    for timestamp, key, value, record_headers in records:
        builder.append(timestamp, key, value, record_headers)
    return builder.build()


def simple_batch(
    count: int = 3, compression_type: CompressionType = CompressionType.NONE
) -> bytearray:
    """Records with key, value and timestamps that rise by one."""
    return build(
        [(NOW_MS + index, b"k%d" % index, b"value" * 5, ()) for index in range(count)],
        compression_type,
    )


def random_batch(rng: random.Random) -> bytearray:
    """Any legal batch a client may send, and a few it may not."""
    builder = BatchBuilder(compression_type=rng.choice(CODECS))
    if rng.random() < 0.3:
        builder.set_producer_state(rng.randrange(1 << 40), 0, rng.choice((0, 5, 2**31 - 1)), False)
    if rng.random() < 0.1:
        builder.timestamp_type = TimestampType.LOG_APPEND_TIME
        builder.append_time_ms = rng.choice((-1, NOW_MS, NOW_MS + 10**9))
    for index in range(rng.choice((1, 1, 2, 3, 10, 50))):
        timestamp = NOW_MS + index
        if rng.random() < 0.3:
            timestamp = rng.choice((0, -1, NOW_MS - rng.randrange(1000), NOW_MS + 4_000_000))
        builder.append(
            timestamp,
            rng.choice((None, random_bytes(rng, 20))),
            rng.choice((None, random_bytes(rng, 200), random_bytes(rng, 2000))),
            [
                (rng.choice(("a", "bé", "")), rng.choice((None, random_bytes(rng, 5))))
                for _ in range(rng.choice((0, 0, 0, 1, 3)))
            ],
        )
    return builder.build()


def random_bytes(rng: random.Random, size_max: int) -> bytes:
    return rng.randbytes(rng.randrange(size_max))


def with_crc(batch: bytearray) -> bytearray:
    """The batch with a checksum that fits whatever was done to it."""
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def with_records(batch: bytearray, records: bytes) -> bytearray:
    """The batch with these expanded records instead of its own, its header as it is."""
    codec = RecordBatch(batch).compression_type
    changed = batch[:HEADER_BYTES] + compress(codec, records)
    changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
    return with_crc(changed)


def expanded(batch: bytearray) -> bytes:
    view = RecordBatch(batch)
    return decompress_all(view.compression_type, view.payload)


def damaged(batch: bytearray, rng: random.Random) -> bytearray:
    """The batch, harmed in its header, its records, its compressed bytes or its frame."""
    kind = rng.randrange(7)
    if kind == 0:
        batch[rng.randrange(HEADER_BYTES)] ^= 1 << rng.randrange(8)
        return batch
    if kind == 1:
        batch[rng.randrange(21, HEADER_BYTES)] = rng.randrange(256)
        return with_crc(batch)
    if kind == 2:
        batch[rng.randrange(HEADER_BYTES, len(batch))] = rng.randrange(256)
        return with_crc(batch)
    if kind == 3:
        return _with_damaged_frame(batch, rng)
    records = bytearray(expanded(batch))
    for _ in range(rng.choice((1, 1, 2))):
        damage_records(records, rng)
    return with_records(batch, bytes(records))


def damage_records(records: bytearray, rng: random.Random) -> None:
    position = rng.randrange(min(len(records), 24) if rng.random() < 0.7 else len(records))
    kind = rng.randrange(5)
    if kind == 0:
        records[position] ^= 1 << rng.randrange(8)
    elif kind == 1:
        records[position] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    elif kind == 2:
        inserted = (b"\x80", b"\xff" * 5, b"\x80\x80\x80\x80\x10", b"\0", b"\xff\xff\x03")
        records[position:position] = rng.choice(inserted)
    elif kind == 3 and len(records) > 8:
        del records[position : position + rng.randrange(1, 5)]
    else:
        records += random_bytes(rng, 10)


def _with_damaged_frame(batch: bytearray, rng: random.Random) -> bytearray:
    kind = rng.randrange(4)
    if kind == 0:
        return batch + random_bytes(rng, 30)
    if kind == 1:
        return batch + batch
    if kind == 2:
        return batch[: rng.randrange(len(batch))]
    lengths = (0, 13, 14, 15, 20, 48, 49, len(batch), len(batch) - 20, 2**31 - 1)
    batch[8:12] = rng.choice(lengths).to_bytes(4, "big")
    return batch
