"""A well-behaved client that must not notice what others do to its node."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.clients.librdkafka import create_topic
from tests.support.raw import RawClient
from tests.unit.log.batches import batch

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess

TOPIC = "healthy"
PAUSE_SECONDS = 0.01
# Far above what a calm machine needs, far below what a stalled loop would show.
LATENCY_SECONDS_MAX = 2.0
GROWTH_BYTES_MAX = 48 << 20

PRODUCE_VERSION = 9
FETCH_VERSION = 12


def produce_request(
    topic: str, *records: bytes | bytearray, acks: int = 1, first_partition: int = 0
) -> ProduceRequest:
    """One batch for each partition."""
    partitions = [
        PartitionProduceData(index=index, records=content)
        for index, content in enumerate(records, first_partition)
    ]
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
    )


def fetch_request(topic: str, offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


class HealthyClient:
    """Writes and reads all the time; at the end of the block all must have gone well."""

    def __init__(self, broker: BrokerProcess, growth_bytes_max: int = GROWTH_BYTES_MAX) -> None:
        self._broker = broker
        self._growth_bytes_max = growth_bytes_max
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None
        self.rounds = 0
        self.slowest_seconds = 0.0
        self.resident_bytes = 0
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self.resident_bytes = self.peak_bytes = self._broker.resident_bytes
        self._thread.start()
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        self._is_ending.set()
        self._thread.join()
        if kind is None:
            self.check()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure
        assert self.rounds > 0
        assert self.slowest_seconds < LATENCY_SECONDS_MAX
        growth = self.peak_bytes - self.resident_bytes
        assert growth < self._growth_bytes_max, f"the node grew by {growth >> 20} MiB"
        self._broker.check_health()

    def _run(self) -> None:
        try:
            with RawClient(self._broker.bootstrap_servers) as client:
                while not self._is_ending.is_set() or self.rounds < 3:
                    self._round(client)
                    self._is_ending.wait(PAUSE_SECONDS)
        except BaseException as error:  # noqa: BLE001  The test's own thread raises it.
            self._failure = error

    def _round(self, client: RawClient) -> None:
        started = time.monotonic()
        produced = client.ask(produce_request(TOPIC, batch(1)), PRODUCE_VERSION)
        (topic,) = produced.responses
        (partition,) = topic.partition_responses
        assert partition.error_code == Errors.NONE
        fetched = client.ask(fetch_request(TOPIC, partition.base_offset), FETCH_VERSION)
        assert len(fetched.responses[0].partitions[0].records) >= len(batch(1))
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
        self.peak_bytes = max(self.peak_bytes, self._broker.resident_bytes)
        self.rounds += 1


def prepare(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap_servers, TOPIC)
