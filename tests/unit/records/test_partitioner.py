"""murmur2 as Java computes it: known hashes, and both kernels on any key."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.records import InvalidRecordError, partitioner
from tests.unit.records.arrow_twins import KERNELS, Kernel, use


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    chosen: Kernel = request.param
    use(chosen, monkeypatch)
    return chosen


# As Kafka 4.3.1's client answers.
KNOWN = [
    (b"", 275646681),
    (b"\xff", -311467685),
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
    ("ünï".encode(), -570454509),
]


@pytest.mark.parametrize(("key", "hashed"), KNOWN)
def test_known_hashes(kernel: Kernel, key: bytes, hashed: int) -> None:
    assert partitioner.murmur2(key) == hashed
    assert partitioner.murmur2(memoryview(bytearray(key))) == hashed
    assert partitioner.partition_of_key(key, 1_000) == (hashed & 0x7FFFFFFF) % 1_000


def test_a_topic_has_partitions(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="at least one"):
        partitioner.partition_of_key(b"", 0)
    with pytest.raises(ValueError, match="at least one"):
        partitioner.partitions_of_keys((None, b"", b"", 0, False), 0, 0, -1)


def test_keys_of_a_column(kernel: Kernel) -> None:
    offsets = array("q", [0, 2, 2, 8, 8])
    column = (b"\x0d", offsets.tobytes(), b"21foobar", 0, True)
    expected = [partitioner.partition_of_key(key, 13) for key in (b"21", b"foobar", b"")]
    expected.insert(1, -1)
    partitions = partitioner.partitions_of_keys(column, 4, 13, -1)
    assert array("i", bytes(partitions)).tolist() == expected
    sliced = partitioner.partitions_of_keys((*column[:3], 2, True), 2, 13, -1)
    assert array("i", bytes(sliced)).tolist() == expected[2:]


def test_offsets_outside_of_the_data_are_refused(kernel: Kernel) -> None:
    with pytest.raises(InvalidRecordError, match="row 0"):
        partitioner.partitions_of_keys((None, array("i", [0, 3]).tobytes(), b"", 0, False), 1, 1, 0)


@given(st.binary(max_size=100))
def test_both_kernels_hash_alike(key: bytes) -> None:
    assert len({kernel.murmur2.murmur2(key) for kernel in KERNELS}) == 1
