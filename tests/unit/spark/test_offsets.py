"""Offsets as JSON."""

from __future__ import annotations

import json

from kaa.model.topics import TopicPartition
from kaa.spark.offsets import StreamOffset, nested

A0, A1, A10, B0 = (
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("a", 10),
    TopicPartition("b", 0),
)


def test_a_checkpoint_of_sparks_own_connector_is_read() -> None:
    read = StreamOffset.read(json.loads('{"b":{"0":4},"a":{"10":3,"1":2}}'))
    assert read == StreamOffset({B0: 4, A10: 3, A1: 2})
    assert json.dumps(read.write()) == '{"a": {"1": 2, "10": 3}, "b": {"0": 4}}'


def test_the_initial_offset_says_nothing() -> None:
    assert StreamOffset.read({}) is None


def test_all_that_an_offset_carries_comes_back() -> None:
    offset = StreamOffset({A0: 5, B0: 6}, {A0: 1, B0: 2}, {"a": "id-a", "b": "id-b"}, "group")
    written = offset.write()
    assert list(written) == ["@group", "@ids", "@start", "a", "b"]
    assert StreamOffset.read(json.loads(json.dumps(written))) == offset


def test_a_query_that_begins_without_any_partition_is_written_down() -> None:
    written = StreamOffset({}, {}).write()
    assert written == {"@start": {}}
    assert StreamOffset.read(written) == StreamOffset({}, {})


def test_keys_are_in_order_of_names_and_numbers() -> None:
    assert json.dumps(nested({A10: 1, B0: 2, A1: 3, A0: 4})) == (
        '{"a": {"0": 4, "1": 3, "10": 1}, "b": {"0": 2}}'
    )
