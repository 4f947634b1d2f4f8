from __future__ import annotations

from collections import Counter
from random import Random

from kaa.client.metadata import NO_NODE, Partition, Topic
from kaa.client.producer.partitioner import Partitioner
from kaa.records.partitioner import partition_of_key
from kaa.wire.primitives import UUID_ZERO


def topic(*leaders: int) -> Topic:
    partitions = tuple(Partition(index, leader, 0) for index, leader in enumerate(leaders))
    return Topic("t", UUID_ZERO, False, partitions)


def test_keys_go_by_their_hash() -> None:
    partitioner = Partitioner(100, Random(1))
    for number in range(50):
        key = b"key %d" % number
        assert partitioner.choose(topic(1, 1, 1), key, 10) == partition_of_key(key, 3)


def test_records_without_a_key_stick_and_then_move_on() -> None:
    partitioner = Partitioner(100, Random(1))
    chosen = [partitioner.choose(topic(1, 1, 1), None, 10) for _ in range(3000)]
    for start in range(0, 3000, 10):
        assert len(set(chosen[start : start + 10])) == 1
    counts = Counter(chosen)
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 800


def test_partitions_without_a_leader_are_left_out_if_others_have_one() -> None:
    partitioner = Partitioner(1, Random(1))
    assert {partitioner.choose(topic(NO_NODE, 1), None, 1) for _ in range(20)} == {1}
    assert partitioner.choose(topic(NO_NODE), None, 1) == 0


def test_keys_may_be_ignored() -> None:
    partitioner = Partitioner(1, Random(1), ignores_keys=True)
    assert len({partitioner.choose(topic(1, 1, 1), b"key", 1) for _ in range(50)}) == 3
