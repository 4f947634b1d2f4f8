"""Both kernels on the same hostile bytes: equal rows, equal errors, memory in proportion."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.records import (
    BatchBuilder,
    CompressionError,
    CompressionType,
    CorruptRecordsError,
    InvalidRecordError,
    RecordsError,
)
from kaa.records.arrow import _expand, _upgrade
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_batch,
)
from tests.unit.records.arrow_twins import KERNELS

pytestmark = pytest.mark.skipif(len(KERNELS) < 2, reason="the compiled kernel is not built")


def _seeds() -> list[bytes]:
    """Small logs with every feature; what is around a mutation should stay readable."""
    logs = []
    for codec in CompressionType:
        builder = BatchBuilder(
            compression_type=codec,
            base_offset=3,
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        for index in range(6):
            headers = (("h" * index, b"v"), ("é", None))[: index % 3]
            value = None if index == 4 else bytes([index]) * 30
            builder.append(100 * index, None if index == 2 else b"key", value, headers)
        marker = build_end_transaction_batch(
            EndTransactionMarker(ControlRecordType.ABORT, 0),
            producer_id=1,
            producer_epoch=0,
            timestamp=0,
            base_offset=9,
        )
        plain = BatchBuilder(base_offset=10)
        plain.append(5, b"k", b"plain")
        logs.append(bytes(builder.build() + marker + plain.build()))
    return logs


SEEDS = _seeds()
DECLARED = (CorruptRecordsError, InvalidRecordError, CompressionError)


def decode(
    arrow: Any, data: bytes, columns: int, rows_max: int, bytes_max: int, start: int, end: int
) -> list[object]:
    """Everything a decoder says about `data`, with the kind of its error at the end."""
    decoder = arrow.ArrowDecoder(data, start, end, [(1, 3), (1, 7)], _expand, _upgrade)
    story: list[object] = []
    try:
        while not decoder.is_exhausted:
            story.append(decoder.read(columns, rows_max, bytes_max, 1000))
            story.append((decoder.next_offset, decoder.position))
    except RecordsError as error:
        # The twin may know a finer kind of invalid record.
        story.append([kind for kind in DECLARED if isinstance(error, kind)])
    story.append((decoder.next_offset, decoder.position, decoder.is_exhausted))
    return story


mutations = st.lists(
    st.tuples(st.integers(0, 600), st.integers(0, 255), st.integers(0, 3)), max_size=4
)


def mutate(data: bytes, changes: list[tuple[int, int, int]]) -> bytes:
    changed = bytearray(data)
    for place, byte, kind in changes:
        position = place % len(changed)
        if kind == 0:
            changed[position] = byte
        elif kind == 1:
            changed.insert(position, byte)
        elif kind == 2 and len(changed) > 1:
            del changed[position]
        else:
            changed[position] ^= 1 << byte % 8
    return bytes(changed)


@given(
    st.sampled_from(SEEDS),
    mutations,
    st.integers(0, 63),
    st.integers(1, 7),
    st.integers(0, 80),
    st.integers(0, 12),
    st.sampled_from((5, 11, 2**63 - 1)),
)
def test_mutated_logs_read_alike(
    seed: bytes,
    changes: list[tuple[int, int, int]],
    columns: int,
    rows_max: int,
    bytes_max: int,
    start: int,
    end: int,
) -> None:
    data = mutate(seed, changes)
    python, cython = (
        decode(kernel.arrow, data, columns, rows_max, bytes_max, start, end) for kernel in KERNELS
    )
    assert cython == python


@given(st.binary(max_size=200), st.integers(0, 63))
def test_any_record_bytes_read_alike(area: bytes, columns: int) -> None:
    header = bytearray(SEEDS[0][:61])
    header[8:12] = (len(area) + 49).to_bytes(4, "big")
    header[22] = 0
    header[57:61] = (1 + len(area) // 20).to_bytes(4, "big")
    data = bytes(header) + area
    python, cython = (decode(k.arrow, data, columns, 100, 1000, 0, 2**63 - 1) for k in KERNELS)
    assert cython == python


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_count_that_cannot_be_true_costs_nothing(kernel: Any) -> None:
    data = bytearray(SEEDS[0])
    data[57:61] = b"\x7f\xff\xff\xff"
    tracemalloc.start()
    try:
        decode(kernel.arrow, bytes(data), 63, 2**31 - 1, 2**31 - 1, 0, 2**63 - 1)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_memory_stays_in_proportion_to_the_bytes_read(kernel: Any) -> None:
    builder = BatchBuilder()
    for _ in range(2_000):
        builder.append(0, b"", b"", (("", None),) * 20)
    data = bytes(builder.build())
    decode(kernel.arrow, data, 63, 10, 10**9, 0, 2**63 - 1)
    tracemalloc.start()
    try:
        decode(kernel.arrow, data, 63, 10**9, 10**9, 0, 2**63 - 1)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(data)
    finally:
        tracemalloc.stop()
