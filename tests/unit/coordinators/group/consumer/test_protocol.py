from __future__ import annotations

import pytest

from kaa.coordinators.group.consumer.protocol import (
    protocol_version,
    read_assignment,
    read_subscription,
    write_assignment,
)
from kaa.wire.messages.embedded import ConsumerProtocolSubscription
from kaa.wire.primitives import Uuid, WireError
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_there_and_back(version: int) -> None:
    topics = ConsumerBench().topics
    message = ConsumerProtocolSubscription(topics=["t"], rack_id="r")
    metadata = version.to_bytes(2, "big") + message.encode(version)
    subscription = read_subscription(metadata)
    assert subscription.topics == ["t"]
    assert subscription.rack_id == ("r" if version >= 3 else None)
    data = write_assignment({topic_id("t"): [2, 0], Uuid(16): [1]}, topics, metadata)
    assert protocol_version(data) == version
    (topic,) = read_assignment(data).assigned_partitions
    assert (topic.topic, topic.partitions) == ("t", [0, 2])


def test_newer_versions_are_read_as_far_as_they_are_known() -> None:
    body = ConsumerProtocolSubscription(topics=["t"]).encode(3)
    assert read_subscription(b"\0\x09" + body + b"more").topics == ["t"]


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0", b"\0\0\0\0\0\1"])
def test_nonsense(data: bytes) -> None:
    with pytest.raises(WireError):
        read_subscription(data)
