from __future__ import annotations

import pytest

from kaa.client.group.consumer_protocol import (
    Assignment,
    Subscription,
    by_topic,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kaa.model.topics import TopicPartition
from kaa.wire.primitives import WireError
from tests.oracle import Oracle

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_subscription_comes_back() -> None:
    given = Subscription(("a", "b"), b"\x01", (A0, A1, B0), 7, "rack")
    assert decode_subscription(encode_subscription(given)) == given
    assert decode_subscription(encode_subscription(Subscription(("a",)))) == Subscription(("a",))


def test_assignment_comes_back() -> None:
    given = Assignment((A0, A1, B0), b"x")
    assert decode_assignment(encode_assignment(given)) == given
    assert decode_assignment(b"") == Assignment()


def test_newer_versions_are_read_as_far_as_they_are_known() -> None:
    data = encode_assignment(Assignment((B0,)))
    assert decode_assignment(b"\x00\x09" + data[2:] + b"more") == Assignment((B0,))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00", b"\x00\x03\x00"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_subscription(data)


def test_partitions_by_topic() -> None:
    assert by_topic([B0, A1, A0]) == {"b": [0], "a": [1, 0]}


@pytest.mark.oracle
def test_bytes_are_those_of_java(oracle: Oracle) -> None:
    data = encode_subscription(Subscription(("a",), None, (A0, A1), 3, "r"))
    read = oracle.read_message("ConsumerProtocolSubscription", 3, data[2:])
    assert read.data == data[2:]
    assert read.json["generationId"] == 3
    data = encode_assignment(Assignment((A0, B0)))
    assert oracle.read_message("ConsumerProtocolAssignment", 3, data[2:]).data == data[2:]
