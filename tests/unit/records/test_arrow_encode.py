"""Arrow columns written as record batches: every row once, in order, within the bounds."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaa.records import (
    BatchBuilder,
    CompressionType,
    InvalidRecordError,
    Record,
    RecordBatch,
    iter_records,
)
from kaa.records.arrow_encode import EncodedBatches, ProducerFields, RowColumns, encode
from tests.unit.records.arrow_twins import KERNELS, Kernel, use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.records._pure_arrow_types import BinaryInput, FixedInput, HeadersInput

Headers = tuple[tuple[str, bytes | None], ...]
NOW_MS = 1_700_000_000_000


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name, autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    chosen: Kernel = request.param
    use(chosen, monkeypatch)
    return chosen


class Slice(NamedTuple):
    """What lies before and after a slice in the buffers it is taken from."""

    before: int = 0
    behind: int = 0


WHOLE = Slice()


def bits(flags: Sequence[bool]) -> bytes | None:
    if all(flags):
        return None
    packed = bytearray((len(flags) + 7) // 8)
    for index, flag in enumerate(flags):
        packed[index >> 3] |= flag << (index & 7)
    return bytes(packed)


def binary(
    values: Sequence[bytes | None], cut: Slice = WHOLE, *, is_large: bool = False
) -> BinaryInput:
    padded = [b"before"] * cut.before + list(values) + [None] * cut.behind
    offsets = array("q" if is_large else "i", [0])
    for value in padded:
        offsets.append(offsets[-1] + len(value or b""))
    data = b"".join(value or b"" for value in padded)
    return (
        bits([value is not None for value in padded]),
        offsets.tobytes(),
        data,
        cut.before,
        is_large,
    )


def fixed(values: Sequence[int | None], code: str, cut: Slice = WHOLE) -> FixedInput:
    padded = [-5] * cut.before + list(values) + [None] * cut.behind
    numbers = array(code, [value if value is not None else -9 for value in padded])
    return bits([value is not None for value in padded]), numbers.tobytes(), cut.before


def header_lists(
    values: Sequence[Headers | None], cut: Slice = WHOLE, *, is_large: bool = False
) -> HeadersInput:
    padded = [(("x", b"y"),)] * cut.before + list(values) + [None] * cut.behind
    entries = [entry for headers in padded for entry in headers or ()]
    offsets = array("q" if is_large else "i", [0])
    for headers in padded:
        offsets.append(offsets[-1] + len(headers or ()))
    return (
        bits([headers is not None for headers in padded]),
        offsets.tobytes(),
        cut.before,
        is_large,
        None,
        0,
        len(entries),
        binary([name.encode() for name, _ in entries], Slice(3, 1), is_large=is_large),
        binary([content for _, content in entries], Slice(1, 2)),
    )


def records_of(encoded: EncodedBatches) -> list[Record]:
    records: list[Record] = []
    for batch in encoded.batches:
        view = RecordBatch(batch.data)
        view.ensure_valid()
        assert view.size_in_bytes == len(batch.data)
        assert view.record_count == batch.row_count == view.last_offset_delta + 1
        inside = list(iter_records(view))
        assert view.base_timestamp == inside[0].timestamp
        assert view.max_timestamp == max(record.timestamp for record in inside)
        records += inside
    return records


def values_of(encoded: EncodedBatches) -> list[bytes | None]:
    return [record.value for record in records_of(encoded)]


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_batch_is_what_a_builder_builds(codec: CompressionType) -> None:
    headers: Headers = (("a", b"1" * 90), ("a", None), ("é", b""))
    rows = RowColumns(
        3,
        value=binary([b"v" * 200, None, b""]),
        key=binary([b"k", b"", None]),
        headers=header_lists([headers, None, ()]),
        timestamps=fixed([5, None, 3], "q"),
    )
    encoded = encode(rows, NOW_MS, batch_bytes_max=10_000, partition=4, compression_type=codec)
    builder = BatchBuilder(compression_type=codec)
    builder.append(5, b"k", b"v" * 200, headers)
    builder.append(NOW_MS, b"", None)
    builder.append(3, None, b"")
    assert encoded.order is None
    [batch] = encoded.batches
    assert (batch.partition, batch.first_row, batch.row_count) == (4, 0, 3)
    assert batch.data == builder.build()


def test_a_codec_that_makes_a_batch_larger_is_left_out() -> None:
    encoded = encode(
        RowColumns(1, value=binary([b"x"])),
        NOW_MS,
        batch_bytes_max=100,
        compression_type=CompressionType.GZIP,
    )
    assert RecordBatch(encoded.batches[0].data).compression_type is CompressionType.NONE


def test_levels_reach_the_codec() -> None:
    rows = RowColumns(1, value=binary([bytes(range(256)) * 40]))
    sizes = {
        level: len(
            encode(
                rows,
                NOW_MS,
                batch_bytes_max=20_000,
                compression_type=CompressionType.GZIP,
                compression_level=level,
            )
            .batches[0]
            .data
        )
        for level in (1, 9)
    }
    assert sizes[9] < sizes[1]


def test_a_batch_ends_before_it_would_be_too_large() -> None:
    rows = RowColumns(5, value=binary([b"v" * 30] * 5))
    record_bytes = 30 + 7
    for extra, counts in ((0, [2, 2, 1]), (record_bytes - 1, [2, 2, 1]), (record_bytes, [3, 2])):
        encoded = encode(rows, NOW_MS, batch_bytes_max=61 + 2 * record_bytes + extra)
        assert [batch.row_count for batch in encoded.batches] == counts
        assert [batch.first_row for batch in encoded.batches] == [
            sum(counts[:index]) for index in range(len(counts))
        ]
        assert values_of(encoded) == [b"v" * 30] * 5


def test_a_row_that_no_batch_can_hold_is_named() -> None:
    rows = RowColumns(2, value=binary([b"", b"v" * 100]))
    with pytest.raises(InvalidRecordError, match="row 1: the record is larger"):
        encode(rows, NOW_MS, batch_bytes_max=100)
    with pytest.raises(InvalidRecordError, match="row 0"):
        encode(rows, NOW_MS, batch_bytes_max=0)


def test_many_rows_need_many_chunks() -> None:
    values: list[bytes | None] = [b"%d" % n * (1 + n % 90) for n in range(20_000)]
    encoded = encode(RowColumns(20_000, value=binary(values)), NOW_MS, batch_bytes_max=7_000)
    assert values_of(encoded) == values
    assert all(len(batch.data) <= 7_000 for batch in encoded.batches)
    assert max(len(batch.data) for batch in encoded.batches[:-1]) > 6_500


def test_no_rows_make_no_batches() -> None:
    empty: BinaryInput = (None, b"", b"", 0, False)
    rows = RowColumns(0, value=empty, key=empty, partitions=(None, b"", 0))
    assert encode(rows, NOW_MS, batch_bytes_max=100) == EncodedBatches([], bytearray())


# --- partitions and producers


def test_rows_go_to_their_partitions_in_order() -> None:
    values = [b"%d" % n for n in range(7)]
    rows = RowColumns(
        7, value=binary(values), partitions=fixed([2, 0, 2, 1, 0, 2, 2], "i", Slice(3, 1))
    )
    encoded = encode(rows, NOW_MS, batch_bytes_max=61 + 3 * 8, partition_count=3)
    order = array("i", bytes(encoded.order or b""))
    assert order.tolist() == [1, 4, 3, 0, 2, 5, 6]
    assert [(batch.partition, batch.first_row, batch.row_count) for batch in encoded.batches] == [
        (0, 0, 2),
        (1, 2, 1),
        (2, 3, 3),
        (2, 6, 1),
    ]
    assert values_of(encoded) == [values[row] for row in order]


def test_an_error_names_the_row_by_its_number_in_the_columns() -> None:
    values = [b"v" * 1_000, b"", b""]
    rows = RowColumns(3, value=binary(values), partitions=fixed([1, 0, 0], "i"))
    with pytest.raises(InvalidRecordError, match="row 0: the record is larger"):
        encode(rows, NOW_MS, batch_bytes_max=500, partition_count=2)
    rows = RowColumns(
        3,
        value=binary(values),
        partitions=fixed([1, 0, 0], "i"),
        timestamps=fixed([-1, 0, 0], "q"),
    )
    with pytest.raises(InvalidRecordError, match="row 0: the timestamp"):
        encode(rows, NOW_MS, batch_bytes_max=5_000, partition_count=2)


@pytest.mark.parametrize("partition", [None, -1, 3, 2**31 - 1])
def test_a_partition_must_exist(partition: int | None) -> None:
    rows = RowColumns(2, value=binary([b"", b""]), partitions=fixed([0, partition], "i"))
    with pytest.raises(InvalidRecordError, match="row 1: the partition"):
        encode(rows, NOW_MS, batch_bytes_max=1_000, partition_count=3)


def test_sequences_go_on_within_each_partition() -> None:
    rows = RowColumns(6, value=binary([b""] * 6), partitions=fixed([0, 1, 0, 0, 1, 0], "i"))
    producer = ProducerFields(77, 3, {0: 2**31 - 2, 1: 40}, is_transactional=True)
    encoded = encode(rows, NOW_MS, batch_bytes_max=61 + 2 * 7, partition_count=2, producer=producer)
    views = [RecordBatch(batch.data) for batch in encoded.batches]
    assert [view.base_sequence for view in views] == [2**31 - 2, 0, 40]
    assert {(view.producer_id, view.producer_epoch) for view in views} == {(77, 3)}
    assert all(view.is_transactional for view in views)


# --- columns that do not hold


def test_a_negative_timestamp_is_refused() -> None:
    rows = RowColumns(2, value=binary([b"", b""]), timestamps=fixed([0, -1], "q"))
    with pytest.raises(InvalidRecordError, match="row 1: the timestamp"):
        encode(rows, NOW_MS, batch_bytes_max=1_000)
    with pytest.raises(ValueError, match="default timestamp"):
        encode(rows, -1, batch_bytes_max=1_000)


def test_a_header_needs_a_key() -> None:
    validity, offsets, first, is_large, _, entry_first, count, keys, values = header_lists(
        [(("a", b""),)]
    )
    without_key = binary([None])
    for entries, names in ((None, without_key), (b"\0", keys)):
        headers: HeadersInput = (
            validity,
            offsets,
            first,
            is_large,
            entries,
            entry_first,
            count,
            names,
            values,
        )
        with pytest.raises(InvalidRecordError, match="row 0: a header or its key is null"):
            encode(RowColumns(1, binary([b""]), headers=headers), NOW_MS, batch_bytes_max=1_000)


@pytest.mark.parametrize(
    "value",
    [
        (None, array("i", [0, 9]).tobytes(), b"short", 0, False),
        (None, array("i", [-1, 3]).tobytes(), b"short", 0, False),
        (None, array("i", [3, 2]).tobytes(), b"short", 0, False),
        (None, array("i", [0]).tobytes(), b"short", 0, False),
        (None, array("i", [0, 1]).tobytes(), b"short", 1, False),
        (None, array("i", [0, 1]).tobytes(), b"short", -1, False),
        (None, array("i", [0, 1]).tobytes(), b"short", 0, True),
        (None, array("q", [0, 2**40]).tobytes(), b"short", 0, True),
        (b"", array("i", [0, 1]).tobytes(), b"short", 0, False),
    ],
)
def test_buffers_that_do_not_hold_their_rows(value: BinaryInput) -> None:
    with pytest.raises(InvalidRecordError):
        encode(RowColumns(1, value=value), NOW_MS, batch_bytes_max=1_000)
    with pytest.raises(InvalidRecordError):
        encode(RowColumns(1, value=binary([b""]), key=value), NOW_MS, batch_bytes_max=1_000)


def test_offsets_that_go_back_behind_nulls_are_refused() -> None:
    offsets = array("i", [0, 200, 0, 200, 0, 200]).tobytes()
    value: BinaryInput = (b"\x15", offsets, b"x" * 200, 0, False)
    with pytest.raises(InvalidRecordError, match="go back"):
        encode(RowColumns(5, value=value), NOW_MS, batch_bytes_max=10_000)


# --- any rows

texts = st.one_of(st.none(), st.binary(max_size=150))
cuts = st.builds(Slice, st.integers(0, 17), st.integers(0, 9))
row_strategy = st.tuples(
    texts,
    texts,
    st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=5), texts), max_size=3).map(tuple)),
    st.one_of(st.none(), st.integers(0, 2**62)),
)
Row = tuple[bytes | None, bytes | None, Headers | None, int | None]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(row_strategy, max_size=30),
    st.lists(cuts, min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(1_000, 3_000),
    st.sampled_from(CompressionType),
)
def test_any_rows_come_back(
    kernel: Kernel,
    rows: list[Row],
    slices: list[Slice],
    larges: list[bool],
    batch_bytes_max: int,
    codec: CompressionType,
) -> None:
    columns = RowColumns(
        len(rows),
        value=binary([row[1] for row in rows], slices[0], is_large=larges[0]),
        key=binary([row[0] for row in rows], slices[1], is_large=larges[1]),
        headers=header_lists([row[2] for row in rows], slices[2], is_large=larges[2]),
        timestamps=fixed([row[3] for row in rows], "q", slices[3]),
    )
    encoded = encode(columns, NOW_MS, batch_bytes_max=batch_bytes_max, compression_type=codec)
    assert [
        (record.key, record.value, record.headers, record.timestamp)
        for record in records_of(encoded)
    ] == [
        (key, value, headers or (), NOW_MS if timestamp is None else timestamp)
        for key, value, headers, timestamp in rows
    ]
    assert all(len(batch.data) <= batch_bytes_max for batch in encoded.batches)
