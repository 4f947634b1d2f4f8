"""Brokers that tier every closed segment within moments, for tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kaa.wire.errors import Errors
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.clients.librdkafka import consumer
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK: Final = (
    "remote.log.storage.system.enable=true",
    "remote.log.manager.task.interval.ms=100",
    "remote.log.manager.task.retry.backoff.ms=100",
    "remote.log.manager.task.retry.backoff.max.ms=500",
    "log.retention.check.interval.ms=100",
    "rlmm.config.remote.log.metadata.topic.num.partitions=3",
)
ONE_REPLICA: Final = (
    "rlmm.config.remote.log.metadata.topic.replication.factor=1",
    "rlmm.config.remote.log.metadata.topic.min.isr=1",
)
# Segments of a few batches, of which the active one alone stays on the disk.
TIERED: Final = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}
LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -4, -5, -6


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.05)  # noqa: TID251  Nobody tells a client of what it waits for.


def make_topic(
    servers: str, name: str, replicas: int = 1, config: dict[str, str] | None = None
) -> None:
    settings = TIERED if config is None else config
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(name, 1, replicas, config=settings)]).values():
        made.result(PATIENCE_SECONDS)


def value(number: int) -> bytes:
    return b"%08d" % number + bytes([number % 251]) * 2_000


def fill(servers: str, topic: str, count: int, start: int = 0, compression: str = "none") -> None:
    """Records in batches of a hundred, the Nth with the timestamp N seconds."""
    made = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "compression.type": compression}
    )
    for number in range(start, start + count):
        made.produce(topic, value=value(number), partition=0, timestamp=1_000 * number + 1)
        if number % 100 == 99:
            made.flush(PATIENCE_SECONDS)
    assert made.flush(PATIENCE_SECONDS) == 0


def read(servers: str, topic: str, start: int, end: int, **settings: Any) -> list[bytes]:
    """The values at these offsets, as far as a client shows them."""
    found: list[bytes] = []
    with consumer(servers, **settings) as made:
        made.assign([TopicPartition(topic, 0, start)])
        deadline = time.monotonic() + PATIENCE_SECONDS
        position = start
        while position < end:
            assert time.monotonic() < deadline, f"read {len(found)} values"
            found += (
                message.value()
                for message in made.consume(500, 0.5)
                if message.error() is None and message.offset() < end
            )
            (at,) = made.position([TopicPartition(topic, 0)])
            position = max(position, at.offset)
    return found


def offset_of(address: str, topic: str, timestamp: int) -> int:
    """ListOffsets, which is answered by the leader alone; one that others know of as the leader
    may hear of it a moment later.
    """
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    found: list[ListOffsetsPartitionResponse] = []

    def leads() -> bool:
        with RawClient(address) as client:
            found[:] = client.ask(request).topics[0].partitions
        return found[0].error_code != Errors.NOT_LEADER_OR_FOLLOWER

    assert wait_until(leads, PATIENCE_SECONDS), found
    assert found[0].error_code == Errors.NONE, found
    return found[0].offset


def wait_until_tiered(address: str, topic: str, tail_max: int = 600) -> int:
    """Waits until only the active segment is on the disk, which holds no more than `tail_max`
    records; returns where it begins.
    """

    def is_tiered() -> bool:
        local, end = (offset_of(address, topic, time) for time in (EARLIEST_LOCAL, LATEST))
        is_copied = 0 < local == offset_of(address, topic, LATEST_TIERED) + 1
        return is_copied and end - local <= tail_max

    until(is_tiered, f"{topic} is tiered")
    return offset_of(address, topic, EARLIEST_LOCAL)
