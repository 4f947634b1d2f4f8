"""The offset map of a cleaner, flags of records against it, batches with records left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaa.limits import OFFSET_MAP_BYTES_MAX
from kaa.records import (
    BatchBuilder,
    CompressionType,
    InvalidRecordError,
    RecordBatch,
    RecordsError,
    TimestampType,
    iter_records,
)
from kaa.records._pure_compaction import siphash
from kaa.records.compaction import (
    RECORD_HAS_KEY,
    RECORD_HAS_VALUE,
    RECORD_IS_BEHIND_MAP,
    RECORD_IS_LATEST,
    OffsetMap,
    empty_batch,
    expanded_records,
    keep_table,
    retain,
)
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from tests.unit.records.arrow_twins import KERNELS, Kernel, use

SEED = bytes(range(16))
KEY, VALUE, LATEST, BEHIND = (
    RECORD_HAS_KEY,
    RECORD_HAS_VALUE,
    RECORD_IS_LATEST,
    RECORD_IS_BEHIND_MAP,
)


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name, autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    chosen: Kernel = request.param
    use(chosen, monkeypatch)
    return chosen


def batch_of(
    *records: tuple[bytes | None, bytes | None],
    base_offset: int = 0,
    codec: CompressionType = CompressionType.NONE,
    last_offset: int | None = None,
) -> RecordBatch:
    builder = BatchBuilder(base_offset=base_offset, compression_type=codec)
    for index, (key, value) in enumerate(records):
        builder.append(1_000 + index, key, value)
    return RecordBatch(builder.build(last_offset))


# --- the map


def test_the_hash_is_siphash_with_128_bits() -> None:
    """The first vectors that the authors of SipHash publish."""
    vectors = ("a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45")
    for size, expected in enumerate(vectors):
        low, high = siphash(SEED, bytes(range(size)))
        assert (low.to_bytes(8, "little") + high.to_bytes(8, "little")).hex() == expected


@pytest.mark.parametrize("codec", list(CompressionType))
def test_the_latest_offset_of_each_key(codec: CompressionType) -> None:
    offset_map = OffsetMap(24 * 100, SEED)
    first = batch_of((b"a", b"1"), (b"b", b"1"), (None, b"1"), (b"a", None), codec=codec)
    assert not offset_map.scan(first)
    assert not offset_map.scan(batch_of((b"b", b"2"), base_offset=10, last_offset=17, codec=codec))
    assert [offset_map.get(key) for key in (b"a", b"b", b"c", b"")] == [3, 10, -1, -1]
    assert (offset_map.size, offset_map.latest_offset) == (2, 17)
    offset_map.clear()
    assert (offset_map.size, offset_map.latest_offset, offset_map.get(b"a")) == (0, -1, -1)


def test_records_before_the_start_do_not_count() -> None:
    offset_map = OffsetMap(24 * 100, SEED)
    offset_map.scan(batch_of((b"a", b""), (b"b", b""), base_offset=5), start_offset=6)
    assert [offset_map.get(key) for key in (b"a", b"b")] == [-1, 6]
    offset_map.scan(batch_of((b"c", b""), base_offset=0), start_offset=6)
    assert (offset_map.size, offset_map.latest_offset) == (1, 6)


def test_control_batches_and_aborted_ones_only_move_the_end() -> None:
    offset_map = OffsetMap(24 * 100, SEED)
    marker = build_end_transaction_batch(
        EndTransactionMarker(ControlRecordType.COMMIT, 0),
        producer_id=1,
        producer_epoch=0,
        timestamp=0,
        base_offset=8,
    )
    assert not offset_map.scan(RecordBatch(marker))
    assert not offset_map.scan(batch_of((b"a", b""), base_offset=9), is_aborted=True)
    assert (offset_map.size, offset_map.latest_offset) == (0, 9)


def test_a_full_map_knows_how_far_it_came() -> None:
    offset_map = OffsetMap(24 * 10, SEED)
    assert offset_map.size_max == 9
    keys = [b"%d" % (n % 8) for n in range(16)] + [b"x", b"y"]
    assert offset_map.scan(batch_of(*((key, b"") for key in keys)))
    assert (offset_map.size, offset_map.latest_offset) == (9, 16)
    assert offset_map.get(b"y") == -1
    assert offset_map.scan(batch_of((b"0", b""), base_offset=20))
    assert (offset_map.size, offset_map.latest_offset) == (9, 16)


def test_a_map_that_met_a_bad_batch_is_full() -> None:
    offset_map = OffsetMap(24 * 10, SEED)
    good = batch_of((b"a", b""), (b"b", b""))
    bad = bytearray(good.view)
    bad[-1] = 0x7E
    with pytest.raises(InvalidRecordError):
        offset_map.scan(RecordBatch(bad))
    assert offset_map.scan(good)
    offset_map.clear()
    assert not offset_map.scan(good)


def test_a_crowded_table_still_finds_every_key() -> None:
    offset_map = OffsetMap(24 * 1_000, SEED, load_factor=1.0)
    keys = [b"key-%d" % n for n in range(1_200)]
    assert offset_map.scan(batch_of(*((key, b"") for key in keys)))
    assert offset_map.size == 999
    assert [offset_map.get(key) for key in keys] == [*range(999), *[-1] * 201]


def test_bounds_of_a_map() -> None:
    for memory_bytes in (0, 47, OFFSET_MAP_BYTES_MAX + 1):
        with pytest.raises(ValueError, match="bytes"):
            OffsetMap(memory_bytes, SEED)
    for load_factor in (0, 1.1):
        with pytest.raises(ValueError, match="load factor"):
            OffsetMap(480, SEED, load_factor)
    with pytest.raises(ValueError, match="seed"):
        OffsetMap(480, b"short")


# --- flags


def test_flags_tell_what_a_rule_needs() -> None:
    offset_map = OffsetMap(24 * 100, SEED)
    batch = batch_of((b"a", b"1"), (b"b", None), (None, b"1"), (None, None), (b"a", b"2"))
    offset_map.scan(batch)
    later = batch_of((b"a", None), (b"new", b"1"), base_offset=5)
    assert list(offset_map.flags(batch, expanded_records(batch))) == [
        KEY | VALUE,
        KEY | LATEST,
        VALUE,
        0,
        KEY | VALUE | LATEST,
    ]
    assert list(offset_map.flags(later, expanded_records(later))) == [
        KEY | LATEST | BEHIND,
        KEY | VALUE | LATEST | BEHIND,
    ]


def test_a_lookup_leaves_the_map_alone() -> None:
    offset_map = OffsetMap(24 * 100, SEED)
    offset_map.scan(batch_of((b"a", b"")))
    before = bytes(offset_map._table)
    other = batch_of((b"b", b""), (b"c", b""))
    offset_map.flags(other, expanded_records(other))
    offset_map.get(b"d")
    assert bytes(offset_map._table) == before


def kafka_rule(flags: int) -> bool:
    """Kafka's, while tombstones stay."""
    return bool(flags & BEHIND) or flags & (KEY | LATEST) == KEY | LATEST


keys = st.one_of(st.none(), st.integers(0, 20).map(lambda number: b"key-%d" % number))
Drawn = list[list[tuple[bytes | None, bytes | None]]]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.tuples(keys, st.one_of(st.none(), st.binary(max_size=3))), min_size=1),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(CompressionType),
)
def test_a_cleaned_log_has_the_latest_record_of_each_key(
    kernel: Kernel, drawn: Drawn, codec: CompressionType
) -> None:
    batches = []
    offset = 0
    for pairs in drawn:
        batches.append(batch_of(*pairs, base_offset=offset, codec=codec))
        offset += len(pairs)
    offset_map = OffsetMap(24 * 50, SEED)
    assert not any(offset_map.scan(batch) for batch in batches)
    expected = {
        record.key: record
        for batch in batches
        for record in iter_records(batch)
        if record.key is not None
    }
    cleaned = []
    for batch in batches:
        records = expanded_records(batch)
        flags = offset_map.flags(batch, records)
        kept = retain(batch, records, flags.translate(keep_table(kafka_rule)))
        if kept is not None:
            view = RecordBatch(kept)
            view.ensure_valid()
            assert (view.base_offset, view.last_offset) == (batch.base_offset, batch.last_offset)
            cleaned += list(iter_records(view))
    assert cleaned == sorted(expected.values(), key=lambda record: record.offset)


@given(
    st.lists(st.binary(max_size=12), min_size=1, max_size=60), st.binary(min_size=16, max_size=16)
)
def test_both_kernels_fill_the_same_table(drawn: list[bytes], seed: bytes) -> None:
    batch = batch_of(*((key, b"") for key in drawn))
    tables = []
    for each in KERNELS:
        table = bytearray(24 * 40)
        result = each.compaction.offset_map_scan(
            table, seed, 0, 36, batch.payload, batch.record_count, 7, 9
        )
        tables.append((table, result))
    assert all(table == tables[0] for table in tables)


# --- leaving records out

# A batch, which records stay, and what Kafka 4.3.1 makes of it at 60,000 ms with a retention of
# tombstones of 1,000 ms.
JAVA = {
    "of a transaction": (
        (
            "0000000000000028000000510000000202dd6f6aea00100000000500000000000003e800000000000005dc"
            "0000000000000005000100000007000000031000000002610231001800e807020262023202026801120"
            "0c701080261023300"
        ),
        "011",
        None,
        (
            "0000000000000028000000470000000202a932032c00100000000500000000000005dc00000000000005dc"
            "0000000000000005000100000007000000021600000202620232020268011200af09080261023300"
        ),
    ),
    "with a new tombstone": (
        (
            "00000000000000280000004300000002028f5b195800000000000100000000000003e800000000000005dc"
            "ffffffffffffffffffffffffffff000000021000000002610231001000e8070202620100"
        ),
        "11",
        61_000,
        (
            "000000000000002800000046000000020211ffb997004000000001000000000000ee4800000000000005dc"
            "ffffffffffffffffffffffffffff000000021400bfa9070002610231001200d7a1070202620100"
        ),
    ),
    "with append time": (
        (
            "0000000000000028000000420000000202cc37fdd400080000000100000000000000010000000000002328"
            "ffffffffffffffffffffffffffff000000021000000002610231000e00020202620100"
        ),
        "01",
        61_000,
        (
            "00000000000000280000003b00000002025123324f004800000001000000000000ee480000000000002328"
            "ffffffffffffffffffffffffffff000000011200bfac060202620100"
        ),
    ),
    "with an old tombstone": (
        (
            "000000000000002800000046000000020258dfb4b6004000000001000000000000c35000000000000005dc"
            "ffffffffffffffffffffffffffff000000021200cffd0500026101001400e7f505020262023200"
        ),
        "10",
        None,
        (
            "00000000000000280000003b000000020224191495004000000001000000000000c35000000000000003e8"
            "ffffffffffffffffffffffffffff000000011200cffd050002610100"
        ),
    ),
}


@pytest.mark.parametrize("name", JAVA)
def test_a_batch_is_rewritten_as_kafka_rewrites_it(name: str) -> None:
    before, keep, horizon, after = JAVA[name]
    batch = RecordBatch(bytes.fromhex(before))
    batch.ensure_valid()
    kept = retain(batch, batch.payload, bytes(int(bit) for bit in keep), horizon)
    assert bytes(kept or b"").hex() == after


def test_a_batch_without_records_keeps_its_header_as_kafka_keeps_it() -> None:
    batch = RecordBatch(
        bytes.fromhex(
            "00000000000000280000003a000000020228ee920200000000000000000000000003e800000000000003e8"
            "000000000000000500010000000700000001100000000261023100"
        )
    )
    assert retain(batch, batch.payload, b"\0") is None
    assert empty_batch(batch).hex() == (
        "000000000000002800000031000000020252321272000000000000ffffffffffffffff00000000000003e8"
        "000000000000000500010000000700000000"
    )


def test_a_batch_that_keeps_everything_stays_as_it_is() -> None:
    batch = batch_of((b"a", b"1"), (b"b", None), codec=CompressionType.ZSTD)
    assert retain(batch, expanded_records(batch), b"\1\1") == batch.view


def test_timestamps_stay_whatever_their_base() -> None:
    builder = BatchBuilder(timestamp_type=TimestampType.CREATE_TIME)
    for timestamp in (2**62, 0, 77):
        builder.append(timestamp, b"k", b"v")
    batch = RecordBatch(builder.build())
    kept = retain(batch, batch.payload, b"\0\1\1", 2**61)
    view = RecordBatch(kept or b"")
    assert [record.timestamp for record in iter_records(view)] == [0, 77]
    assert (view.max_timestamp, view.delete_horizon_ms) == (77, 2**61)


def test_one_decision_per_record() -> None:
    batch = batch_of((b"a", b""), (b"b", b""))
    with pytest.raises(InvalidRecordError):
        retain(batch, batch.payload, b"\0")


# --- bytes that are not records


def outcome(call: Any, *arguments: object) -> object:
    try:
        return call(*arguments)
    except RecordsError as error:
        return isinstance(error, InvalidRecordError)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    st.integers(-1, 9),
    st.integers(-(2**63), 2**63 - 1),
)
def test_mutated_records_are_treated_alike(
    changes: list[tuple[int, int]], count: int, base_offset: int
) -> None:
    records = bytearray(
        batch_of(*((b"key-%d" % n, b"v" * n) for n in range(5)), (None, None)).payload
    )
    for place, byte in changes:
        records[place % len(records)] = byte
    outcomes = []
    for each in KERNELS:
        loops = each.compaction
        table = bytearray(24 * 8)
        outcomes.append(
            (
                outcome(loops.offset_map_scan, table, SEED, 0, 4, records, count, base_offset, 2),
                outcome(loops.offset_map_flags, table, SEED, records, count, base_offset, 4),
                outcome(loops.retain_records, records, count, b"\1\0" * 5, 5, None, base_offset),
                outcome(loops.retain_records, records, count, b"\0\1" * 5, base_offset, 9, None),
                table,
            )
        )
    assert all(each == outcomes[0] for each in outcomes)
