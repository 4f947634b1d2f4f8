"""Batches read as Arrow columns: the rows Kafka's consumer would return, in bounded pieces."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaa.records import (
    BatchBuilder,
    CompressionType,
    CorruptRecordsError,
    InvalidRecordError,
    Record,
    RecordBatch,
    TimestampType,
    iter_batches,
    iter_records,
)
from kaa.records.arrow import OFFSET_MAX, BinaryBuffers, ColumnBuffers, ColumnReader, Columns
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from tests.unit.records.arrow_twins import KERNELS, Kernel, use

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.records.batch import Buffer

Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    """One row of the columns, as Python values."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name, autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    chosen: Kernel = request.param
    use(chosen, monkeypatch)
    return chosen


def batch_of(
    *records: tuple[bytes | None, bytes | None],
    base_offset: int = 0,
    timestamp: int = 1_000,
    codec: CompressionType = CompressionType.NONE,
    producer_id: int = -1,
    is_transactional: bool = False,
    headers: Headers = (),
    last_offset: int | None = None,
) -> bytes:
    builder = BatchBuilder(
        base_offset=base_offset,
        compression_type=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=is_transactional,
    )
    for index, (key, value) in enumerate(records):
        builder.append(timestamp + index, key, value, headers)
    return bytes(builder.build(last_offset))


def marker(kind: ControlRecordType, producer_id: int, offset: int) -> bytes:
    return bytes(
        build_end_transaction_batch(
            EndTransactionMarker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=0,
            base_offset=offset,
        )
    )


def binary_values(column: BinaryBuffers, count: int) -> list[bytes | None]:
    offsets = array("i", bytes(column.offsets))
    assert len(offsets) == count + 1
    assert offsets[-1] == len(column.data)
    values: list[bytes | None] = []
    for row in range(count):
        is_valid = column.validity is None or column.validity[row >> 3] >> (row & 7) & 1
        values.append(bytes(column.data[offsets[row] : offsets[row + 1]]) if is_valid else None)
    assert values.count(None) == column.null_count
    return values


def header_values(columns: ColumnBuffers) -> list[Headers]:
    assert columns.headers is not None
    entry_count, lists, keys, values = columns.headers
    names = binary_values(keys, entry_count)
    contents = binary_values(values, entry_count)
    ends = array("i", bytes(lists.offsets))
    assert len(ends) == columns.row_count + 1
    rows: list[Headers] = []
    for row in range(columns.row_count):
        entries = range(ends[row], ends[row + 1])
        is_valid = lists.validity is None or lists.validity[row >> 3] >> (row & 7) & 1
        assert bool(is_valid) == bool(entries)
        rows.append(tuple(((names[entry] or b"").decode(), contents[entry]) for entry in entries))
    return rows


def rows_of(columns: ColumnBuffers) -> list[Row]:
    count = columns.row_count
    assert columns.key
    assert columns.value
    assert columns.offset is not None
    assert columns.timestamp is not None
    return [
        Row(*row)
        for row in zip(
            array("q", bytes(columns.offset)),
            array("q", bytes(columns.timestamp)),
            binary_values(columns.key, count),
            binary_values(columns.value, count),
            header_values(columns),
            strict=True,
        )
    ]


def read_all(
    buffer: Buffer,
    start: int = 0,
    end: int = OFFSET_MAX,
    aborted: Iterable[tuple[int, int]] = (),
) -> list[Row]:
    reader = ColumnReader(buffer, partition=7, start_offset=start, end_offset=end, aborted=aborted)
    rows = rows_of(reader.read())
    assert reader.is_exhausted
    assert reader.read().row_count == 0
    return rows


# --- the columns


@pytest.mark.parametrize("codec", list(CompressionType))
def test_columns_hold_what_records_hold(codec: CompressionType) -> None:
    headers: Headers = (("trace", b"12"), ("trace", None), ("", b""), ("naïve", b"\0"))
    data = batch_of((b"a", b"1"), (None, b"2"), (b"", None), codec=codec, headers=headers)
    data += batch_of((b"x" * 300, b"y" * 5_000), base_offset=10, codec=codec)
    assert read_all(data) == [
        Row(0, 1_000, b"a", b"1", headers),
        Row(1, 1_001, None, b"2", headers),
        Row(2, 1_002, b"", None, headers),
        Row(10, 1_000, b"x" * 300, b"y" * 5_000),
    ]


def test_a_column_without_nulls_has_no_validity() -> None:
    columns = ColumnReader(batch_of((b"a", b"1"), (b"b", None)), partition=0).read()
    assert columns.key
    assert columns.key.validity is None
    assert columns.value
    assert columns.value.validity == bytearray(b"\x01")


def test_only_the_wanted_columns_are_made() -> None:
    reader = ColumnReader(batch_of((b"a", b"1")), partition=3)
    columns = reader.read(Columns.VALUE | Columns.PARTITION)
    assert columns.partition == array("i", [3]).tobytes()
    assert columns.value == BinaryBuffers(
        0, None, bytearray(array("i", [0, 1]).tobytes()), bytearray(b"1")
    )
    others = (columns.key, columns.headers, columns.offset, columns.timestamp)
    assert [*others, columns.timestamp_type] == [None] * 5


def test_timestamps_follow_their_type_and_unit() -> None:
    create = BatchBuilder()
    create.append(5_000, None, b"1")
    create.append(2_000, None, b"2")
    append = BatchBuilder(
        timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=9_000, base_offset=2
    )
    append.append(1, None, b"3")
    horizon = BatchBuilder(delete_horizon_ms=77_000, base_offset=3)
    horizon.append(2**62, None, None)
    data = bytes(create.build() + append.build() + horizon.build())
    columns = ColumnReader(data, partition=0, timestamp_unit="us").read()
    assert array("q", bytes(columns.timestamp or b"")).tolist() == [
        5_000_000,
        2_000_000,
        9_000_000,
        2**63 - 1,
    ]
    assert array("i", bytes(columns.timestamp_type or b"")).tolist() == [0, 0, 1, 0]


def test_a_header_key_that_is_no_utf8_reads_as_replacement_characters() -> None:
    data = bytearray(batch_of((None, b""), headers=(("ab?cd", b"v"),)))
    for bad, good in (
        (b"\xff", "\ufffd"),
        (b"\xc3(", "\ufffd("),
        (b"\xe2\x82", "\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0z", "\ufffdz"),
        (b"\xe0\x80\xaf", "\ufffd\ufffd\ufffd"),
        (b"\xf4\x90", "\ufffd\ufffd"),
        (b"\xe2\x82\xac", "€"),
    ):
        name = (b"a" + bad + b"zzzzz")[:5]
        changed = data.replace(b"ab?cd", name)
        [row] = rows_of(ColumnReader(changed, partition=0, check_crcs=False).read())
        assert row.headers == (("a" + good + "z" * (4 - len(bad)), b"v"),)


# --- pieces

TEN = b"".join(
    batch_of(*((b"k%d" % n, b"v" * 10) for n in range(5)), base_offset=base) for base in (0, 5)
)


def test_rows_come_in_pieces_that_join_across_batches() -> None:
    reader = ColumnReader(TEN, partition=0)
    pieces = []
    while not reader.is_exhausted:
        pieces.append([row.offset for row in rows_of(reader.read(rows_max=3))])
        if pieces[-1]:
            assert reader.next_offset == pieces[-1][-1] + 1
    assert pieces == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert reader.next_offset == 10


def test_bytes_bound_a_piece_but_never_its_first_row() -> None:
    reader = ColumnReader(TEN, partition=0)
    assert [reader.read(bytes_max=24).row_count for _ in range(5)] == [2] * 5
    reader = ColumnReader(TEN, partition=0)
    assert [reader.read(bytes_max=1).row_count for _ in range(10)] == [1] * 10
    assert reader.read().row_count == 0


def test_bytes_of_columns_that_are_not_wanted_do_not_count() -> None:
    reader = ColumnReader(TEN, partition=0)
    assert reader.read(Columns.KEY, bytes_max=10).row_count == 5


def test_header_entries_count_eight_bytes_each() -> None:
    data = batch_of(*[(None, b"")] * 4, headers=(("", None),) * 10)
    assert ColumnReader(data, partition=0).read(bytes_max=160).row_count == 2
    assert ColumnReader(data, partition=0).read(bytes_max=159).row_count == 1


def test_a_read_is_for_one_row_at_least() -> None:
    with pytest.raises(ValueError, match="one row"):
        ColumnReader(TEN, partition=0).read(rows_max=0)


# --- offsets


@pytest.mark.parametrize(("start", "end"), [(0, 10), (3, 7), (5, 5), (4, 6), (9, 100), (10, 20)])
def test_a_range_of_offsets(start: int, end: int) -> None:
    reader = ColumnReader(TEN, partition=0, start_offset=start, end_offset=end)
    assert [row.offset for row in rows_of(reader.read())] == list(range(start, min(end, 10)))
    assert reader.is_exhausted
    assert reader.next_offset == min(end, 10)


def test_a_range_that_ends_before_it_starts_is_empty() -> None:
    reader = ColumnReader(TEN, partition=0, start_offset=7, end_offset=3)
    assert reader.read().row_count == 0
    assert reader.next_offset == 7


def test_offsets_that_compaction_emptied_are_passed() -> None:
    data = batch_of((b"a", b"1"), last_offset=40)
    reader = ColumnReader(data, partition=0)
    assert reader.read(rows_max=1).row_count == 1
    assert reader.read().row_count == 0
    assert reader.next_offset == 41
    within = ColumnReader(data, partition=0, end_offset=30)
    assert within.read().row_count == 1
    assert within.next_offset == 30


def test_a_partial_batch_at_the_end_is_ignored() -> None:
    for cut in (1, 12, 16, 17, 40, 61, 100):
        reader = ColumnReader(TEN[:-cut], partition=0)
        assert [row.offset for row in rows_of(reader.read())] == [0, 1, 2, 3, 4]
        assert reader.next_offset == 5


def test_an_empty_buffer_has_no_rows() -> None:
    reader = ColumnReader(b"", partition=0, start_offset=17)
    assert reader.read().row_count == 0
    assert reader.is_exhausted
    assert reader.next_offset == 17


# --- transactions


def transactional(producer_id: int, offset: int, count: int = 2) -> bytes:
    return batch_of(
        *[(None, b"t")] * count,
        base_offset=offset,
        producer_id=producer_id,
        is_transactional=True,
    )


ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def offsets_of(rows: list[Row]) -> list[int]:
    return [row.offset for row in rows]


def test_aborted_transactions_are_left_out_until_their_marker() -> None:
    data = b"".join(
        (
            transactional(1, 0),
            transactional(2, 2),
            batch_of((None, b"plain"), base_offset=4),
            batch_of((None, b"idempotent"), base_offset=5, producer_id=1),
            marker(ABORT, 1, 6),
            transactional(1, 7),
            marker(COMMIT, 2, 9),
            marker(COMMIT, 1, 10),
            batch_of((None, b"plain"), base_offset=11),
        )
    )
    assert offsets_of(read_all(data)) == [0, 1, 2, 3, 4, 5, 7, 8, 11]
    assert offsets_of(read_all(data, aborted=[(1, 0)])) == [2, 3, 4, 5, 7, 8, 11]


def test_state_of_transactions_lasts_from_one_piece_to_the_next() -> None:
    data = transactional(1, 0) + marker(ABORT, 1, 2) + transactional(1, 3) + marker(COMMIT, 1, 5)
    reader = ColumnReader(data, partition=0, aborted=[(1, 0)])
    assert [offsets_of(rows_of(reader.read(rows_max=1))) for _ in range(3)] == [[3], [4], []]
    assert reader.next_offset == 6


def test_one_producer_may_abort_twice() -> None:
    data = (
        transactional(1, 0)
        + marker(ABORT, 1, 2)
        + transactional(1, 3)
        + marker(ABORT, 1, 5)
        + transactional(1, 6)
    )
    assert offsets_of(read_all(data, aborted=[(1, 3), (1, 0)])) == [6, 7]


def test_an_aborted_transaction_begins_at_its_first_offset() -> None:
    data = transactional(1, 0) + transactional(1, 2) + transactional(1, 4)
    assert offsets_of(read_all(data, aborted=[(1, 3)])) == [0, 1]
    assert offsets_of(read_all(data, aborted=[(2, 0)])) == [0, 1, 2, 3, 4, 5]


def test_markers_give_no_rows_and_move_the_next_offset() -> None:
    reader = ColumnReader(marker(COMMIT, 1, 8), partition=0)
    assert reader.read().row_count == 0
    assert reader.next_offset == 9


def test_a_marker_without_its_key_is_invalid() -> None:
    data = bytearray(marker(ABORT, 1, 0))
    at = data.index(b"\x08\0\0\0\0", 61)
    data[at] = 3
    reader = ColumnReader(data, partition=0, aborted=[(1, 0)], check_crcs=False)
    with pytest.raises(InvalidRecordError):
        reader.read()


# --- bytes that are not batches


def test_rows_before_a_wrong_checksum_come_first() -> None:
    data = bytearray(TEN)
    data[-1] ^= 1
    reader = ColumnReader(data, partition=0)
    assert offsets_of(rows_of(reader.read())) == [0, 1, 2, 3, 4]
    assert not reader.is_exhausted
    for _ in range(2):
        with pytest.raises(CorruptRecordsError, match="offset 5"):
            reader.read()
    assert reader.next_offset == 5
    assert len(read_all(data, end=5)) == 5


def test_checksums_are_not_looked_at_unless_wanted() -> None:
    data = bytearray(TEN)
    data[17] ^= 1
    assert ColumnReader(data, partition=0, check_crcs=False).read().row_count == 10


@pytest.mark.parametrize(
    ("position", "replacement", "error"),
    [
        (8, b"\0\0\0\x0d", CorruptRecordsError),
        (8, b"\xff\xff\xff\xff", CorruptRecordsError),
        (8, b"\0\0\0\x30", CorruptRecordsError),
        (16, b"\x03", CorruptRecordsError),
        (16, b"\xff", CorruptRecordsError),
        (22, b"\x05", CorruptRecordsError),
        (57, b"\x7f\xff\xff\xff", InvalidRecordError),
        (57, b"\xff\xff\xff\xff", InvalidRecordError),
        (57, b"\0\0\0\x04", InvalidRecordError),
        (57, b"\0\0\0\x06", InvalidRecordError),
        (61, b"\x7e", InvalidRecordError),
        (61, b"\x01", InvalidRecordError),
        (61, b"\xff\xff\xff\xff\xff", InvalidRecordError),
        (65, b"\x7e", InvalidRecordError),
        (68, b"\x18", InvalidRecordError),
        (79, b"\x02", InvalidRecordError),
        (79, b"\x01", InvalidRecordError),
    ],
)
def test_bad_bytes_raise_the_declared_error(
    position: int, replacement: bytes, error: type[Exception]
) -> None:
    data = bytearray(TEN)
    data[position : position + len(replacement)] = replacement
    reader = ColumnReader(data, partition=0, check_crcs=False)
    for _ in range(2):
        with pytest.raises(error):
            read_up(reader)


def read_up(reader: ColumnReader) -> None:
    while not reader.is_exhausted:
        reader.read(rows_max=2)


def test_old_magic_is_read_too() -> None:
    body = b"\x01\0" + (1_234).to_bytes(8, "big") + b"\0\0\0\x01k" + b"\0\0\0\x02vv"
    length = (len(body) + 4).to_bytes(4, "big")
    message = (6).to_bytes(8, "big") + length + crc32(body).to_bytes(4, "big") + body
    data = message + batch_of((b"a", b"1"), base_offset=7)
    assert read_all(data) == [Row(6, 1_234, b"k", b"vv"), Row(7, 1_000, b"a", b"1")]
    assert offsets_of(read_all(data, start=7)) == [7]
    assert offsets_of(read_all(data, end=6)) == []
    broken = bytearray(message)
    broken[-1] ^= 1
    with pytest.raises(CorruptRecordsError, match="offset 6"):
        ColumnReader(broken, partition=0).read()


# --- any log

texts = st.one_of(st.none(), st.binary(max_size=40))
record_strategy = st.tuples(
    st.integers(1, 3),
    st.integers(0, 2_000),
    texts,
    texts,
    st.lists(st.tuples(st.text(max_size=4), texts), max_size=3).map(tuple),
)
batch_strategy = st.tuples(
    st.sampled_from(CompressionType),
    st.integers(-1, 2),
    st.booleans(),
    st.one_of(st.none(), st.sampled_from((ABORT, COMMIT))),
    st.lists(record_strategy, min_size=1, max_size=6),
    st.integers(0, 3),
)


DrawnRecord = tuple[int, int, bytes | None, bytes | None, Headers]
DrawnBatch = tuple[CompressionType, int, bool, ControlRecordType | None, list[DrawnRecord], int]


def build_log(drawn: list[DrawnBatch]) -> bytes:
    log = b""
    offset = 0
    for codec, producer_id, is_transactional, control, records, emptied in drawn:
        if control is not None and producer_id >= 0:
            log += marker(control, producer_id, offset)
            offset += 1
            continue
        builder = BatchBuilder(
            base_offset=offset,
            compression_type=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            is_transactional=is_transactional and producer_id >= 0,
        )
        for step, timestamp, key, value, headers in records:
            builder.append(timestamp, key, value, headers, builder.last_offset + step)
        last_offset = builder.last_offset + emptied
        log += bytes(builder.build(last_offset))
        offset = last_offset + 1
    return log


def consume(log: bytes, start: int, end: int, aborted: list[tuple[int, int]]) -> list[Record]:
    """What Kafka's consumer returns, batch by batch."""
    pending = sorted((first, producer_id) for producer_id, first in aborted)
    producers: set[int] = set()
    returned = []
    for batch in iter_batches(log):
        if batch.has_producer_id:
            while pending and pending[0][0] <= batch.last_offset:
                producers.add(pending.pop(0)[1])
            if batch.is_control:
                if is_abort(batch):
                    producers.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in producers:
                continue
        if not batch.is_control:
            returned += [record for record in iter_records(batch) if start <= record.offset < end]
    return returned


def is_abort(batch: RecordBatch) -> bool:
    return next(iter(iter_records(batch))).key == b"\0\0\0\0"


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(batch_strategy, max_size=8),
    st.integers(0, 12),
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 25)), max_size=4),
    st.integers(1, 5),
    st.integers(1, 200),
)
def test_any_log_reads_as_the_consumer_reads_it(
    kernel: Kernel,
    drawn: list[DrawnBatch],
    start: int,
    end: int,
    aborted: list[tuple[int, int]],
    rows_max: int,
    bytes_max: int,
) -> None:
    log = build_log(drawn)
    reader = ColumnReader(log, partition=0, start_offset=start, end_offset=end, aborted=aborted)
    rows: list[Row] = []
    while not reader.is_exhausted:
        piece = rows_of(reader.read(rows_max=rows_max, bytes_max=bytes_max))
        assert len(piece) <= rows_max
        rows += piece
    assert rows == [
        Row(record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in consume(log, start, end, aborted)
    ]
