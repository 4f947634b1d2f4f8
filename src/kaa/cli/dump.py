"""What stands in the files of a partition: rows for `kaa debug`.

Files are mapped, not read: a segment may be larger than memory. A damaged batch is a row of its
own, and ends the file, since nobody knows where the next one starts.
"""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kaa.log.errors import CorruptFileError
from kaa.log.names import base_offset_of, parse_folder_name
from kaa.records.batch import MAGIC_V2, RecordBatch, TimestampType
from kaa.records.errors import CompressionError, CorruptRecordsError, InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC_POSITION: Final = 16
_LENGTH: Final = Struct(">i")
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_LOG_OVERHEAD_BYTES: Final = 12

BATCH_COLUMNS: Final = (
    "base_offset",
    "last_offset",
    "position",
    "size_bytes",
    "records",
    "codec",
    "max_timestamp_ms",
    "producer_id",
    "flags",
    "valid",
)
BATCH_COLUMNS_WIDE: Final = (
    "leader_epoch",
    "producer_epoch",
    "base_sequence",
    "timestamp_type",
    "crc",
    "file",
    "error",
)


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """The content of a file, without a copy."""
    if path.stat().st_size == 0:
        yield memoryview(b"")
        return
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        memoryview(content) as view,
    ):
        yield view


def segments_of(path: Path, suffix: str) -> list[Path]:
    """The file itself, or the files of a partition folder in order."""
    if path.is_dir():
        return sorted(path.glob(f"*{suffix}"))
    return [path]


def topic_of(path: Path) -> str:
    """The topic of a file by the folder it is in; empty where that says nothing."""
    found = parse_folder_name(path.resolve().parent.name)
    return "" if found is None else found.partition.topic


def batches(path: Path, content: memoryview) -> Iterator[tuple[dict[str, Any], RecordBatch | None]]:
    """Each batch as a row, and the batch itself if it can be read."""
    position = 0
    while position < len(content):
        try:
            batch = _batch_at(content, position)
        except CorruptRecordsError as error:
            yield _damaged(path, position, len(content), str(error)), None
            return
        yield _row(path, batch), batch
        position = batch.end


def _batch_at(content: memoryview, position: int) -> RecordBatch:
    left = len(content) - position
    if left > _MAGIC_POSITION and content[position + _MAGIC_POSITION] < MAGIC_V2:
        raise CorruptRecordsError("a message of the format before Kafka 0.11, or not a batch")
    if left >= _LOG_OVERHEAD_BYTES:
        length = _LENGTH.unpack_from(content, position + 8)[0]
        if length + _LOG_OVERHEAD_BYTES > left:
            raise CorruptRecordsError(f"cut short: {left} of {length + _LOG_OVERHEAD_BYTES} bytes")
    return RecordBatch(content, position)


def _row(path: Path, batch: RecordBatch) -> dict[str, Any]:
    error = None
    try:
        codec = batch.compression_type.name.lower()
    except CorruptRecordsError as problem:
        codec, error = "unknown", str(problem)
    is_valid = batch.is_valid_crc()
    flags = [
        name
        for name, is_set in (
            ("transactional", batch.is_transactional),
            ("control", batch.is_control),
            ("delete-horizon", batch.has_delete_horizon),
        )
        if is_set
    ]
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "position": batch.position,
        "size_bytes": batch.size_in_bytes,
        "records": batch.record_count,
        "codec": codec,
        "max_timestamp_ms": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "flags": flags,
        "valid": is_valid and error is None,
        "leader_epoch": batch.partition_leader_epoch,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "timestamp_type": TimestampType(batch.timestamp_type).name.lower(),
        "crc": batch.crc,
        "file": path.name,
        "error": error or (None if is_valid else "the checksum does not match"),
    }


def _damaged(path: Path, position: int, end: int, error: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys((*BATCH_COLUMNS, *BATCH_COLUMNS_WIDE))
    return row | {
        "position": position,
        "size_bytes": end - position,
        "flags": [],
        "valid": False,
        "file": path.name,
        "error": error,
    }


def records(batch: RecordBatch, decoder: str) -> Iterator[dict[str, Any]]:
    """The records of a batch; what cannot be read is a row with its error."""
    from kaa.cli.plain import plain_control, plain_record
    from kaa.records.record import iter_records

    try:
        for record in iter_records(batch):
            yield plain_control(record) if batch.is_control else plain_record(record, decoder)
    except (CompressionError, CorruptRecordsError, InvalidRecordError) as error:
        yield {"offset": batch.base_offset, "error": str(error)}


# --- indexes


def index_rows(path: Path) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Columns and entries of an index by the suffix of its file; raises CorruptFileError."""
    content = path.read_bytes()
    base_offset = base_offset_of(path.name) or 0
    if path.suffix == ".index":
        return ("offset", "position"), _offset_entries(path, content, base_offset)
    if path.suffix == ".timeindex":
        return ("timestamp_ms", "offset"), _time_entries(path, content, base_offset)
    if path.suffix == ".txnindex":
        return _transaction_entries(path, base_offset)
    if path.name == "leader-epoch-checkpoint":
        from kaa.log.checkpoints import decode_checkpoint

        entries = decode_checkpoint(str(path), content, 2)
        rows = [{"epoch": int(epoch), "start_offset": int(start)} for epoch, start in entries]
        return ("epoch", "start_offset"), rows
    raise CorruptFileError(
        str(path), "not an index: expected .index, .timeindex, .txnindex, leader-epoch-checkpoint"
    )


def _offset_entries(path: Path, content: bytes, base_offset: int) -> list[dict[str, Any]]:
    _check_whole(path, content, _OFFSET_ENTRY.size)
    rows = []
    for number, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(content)):
        # What was allocated and never written is zero; only the first entry may be.
        if number and not relative and not position:
            break
        rows.append({"offset": base_offset + relative, "position": position})
    return rows


def _time_entries(path: Path, content: bytes, base_offset: int) -> list[dict[str, Any]]:
    _check_whole(path, content, _TIME_ENTRY.size)
    rows = []
    for number, (timestamp_ms, relative) in enumerate(_TIME_ENTRY.iter_unpack(content)):
        if number and not relative and not timestamp_ms:
            break
        rows.append({"timestamp_ms": timestamp_ms, "offset": base_offset + relative})
    return rows


def _check_whole(path: Path, content: bytes, entry_bytes: int) -> None:
    if len(content) % entry_bytes:
        raise CorruptFileError(
            str(path), f"{len(content)} bytes are not whole entries of {entry_bytes} bytes"
        )


def _transaction_entries(
    path: Path, base_offset: int
) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    from kaa.log.files import RealFiles
    from kaa.log.transaction_index import AbortedTransaction, TransactionIndex

    index = TransactionIndex(RealFiles(), str(path), base_offset)
    return AbortedTransaction._fields, [entry._asdict() for entry in index.entries]


# --- snapshots

PRODUCER_COLUMNS: Final = (
    "producer_id",
    "epoch",
    "last_sequence",
    "last_offset",
    "timestamp_ms",
    "coordinator_epoch",
    "transaction_first_offset",
)


def producer_rows(path: Path) -> list[dict[str, Any]]:
    """The producers of a `.snapshot`; raises CorruptFileError."""
    from kaa.log.producer_snapshots import decode_producer_snapshot

    rows = []
    for entry in decode_producer_snapshot(str(path), path.read_bytes()):
        last = entry.batches[-1] if entry.batches else None
        open_at = entry.transaction_first_offset
        rows.append(
            {
                "producer_id": entry.producer_id,
                "epoch": entry.epoch,
                "last_sequence": None if last is None else last.last_sequence,
                "last_offset": None if last is None else last.last_offset,
                "timestamp_ms": entry.last_timestamp,
                "coordinator_epoch": entry.coordinator_epoch,
                "transaction_first_offset": None if open_at < 0 else open_at,
            }
        )
    return rows
