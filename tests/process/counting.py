"""Load that counts: an idempotent producer that numbers its records, and a group that reads and
commits, so that whatever is lost or doubled is found.

It tells how long the longest pause between two acknowledgements of a partition was: that is how
long nobody led it, as a client sees it.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place

from kaa.client import Consumer as KaaConsumer
from kaa.model.topics import TopicPartition
from kaa.records.batch import iter_batches
from tests.clients.librdkafka import create_topic
from tests.support.pace import PATIENCE_SECONDS

PARTITIONS = 6
TOPIC = "counted"


class Counting:
    """See the module's text. Works in threads from `start` to `finish`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, daemon=True),
            *(threading.Thread(target=self._consume, daemon=True) for _ in range(2)),
        ]
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self.consumed: set[int] = set()
        self._last_ack = dict.fromkeys(range(PARTITIONS), 0.0)
        self._longest_pause = 0.0

    def start(self) -> None:
        create_topic(self._bootstrap, TOPIC, PARTITIONS, replicas=3)
        for thread in self._threads:
            thread.start()

    def take_longest_pause(self) -> float:
        """Seconds, since the last time somebody asked."""
        found, self._longest_pause = self._longest_pause, 0.0
        return found

    def finish(self) -> None:
        """Ends the load; raises if something was lost or doubled."""
        ends = time.monotonic() + PATIENCE_SECONDS
        self._is_over.set()
        self._threads[0].join()
        wanted = set(self.acknowledged)
        while not wanted <= self.consumed and time.monotonic() < ends:
            threading.Event().wait(0.1)
        self._bootstrap, bootstrap = "", self._bootstrap
        for thread in self._threads:
            thread.join()
        stored = _stored(bootstrap)
        assert self.failures == []
        assert wanted <= self.consumed, "the group did not get every acknowledged record"
        doubled = {number: places for number, places in stored.items() if len(places) > 1}
        doubled = _under_one_epoch(bootstrap, doubled)
        assert not doubled, f"records by their places (partition, offset), twice: {doubled}"
        assert wanted <= stored.keys(), "an acknowledged record is lost"

    def _produce(self) -> None:
        producer = Producer(
            {
                **_settings(self._bootstrap),
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 300_000,
            }
        )

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.failures.append(str(error))
                return
            now, partition = time.monotonic(), message.partition()
            before = self._last_ack[partition] or now
            self._longest_pause = max(self._longest_pause, now - before)
            self._last_ack[partition] = now
            self.acknowledged.append(int(message.value()))

        for number in itertools.count(1):
            if self._is_over.is_set():
                break
            producer.produce(
                TOPIC, value=b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered
            )
            producer.poll(0.004)
        if producer.flush(PATIENCE_SECONDS):
            self.failures.append("records were not acknowledged at the end")

    def _consume(self) -> None:
        consumer = Consumer(
            {
                **_settings(self._bootstrap),
                "group.id": "counting",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
            }
        )
        consumer.subscribe([TOPIC])
        while self._bootstrap:
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    self.consumed.add(int(message.value() or b""))
        consumer.close()


def _stored(bootstrap: str) -> dict[int, list[tuple[int, int]]]:
    """Every number that is in the topic, with the partitions and offsets where it was read."""
    consumer = Consumer(
        {**_settings(bootstrap), "group.id": "not used", "enable.partition.eof": True}
    )
    consumer.assign([Place(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    unfinished, found = set(range(PARTITIONS)), dict[int, list[tuple[int, int]]]()
    ends = time.monotonic() + PATIENCE_SECONDS
    while unfinished:
        assert time.monotonic() < ends, f"the end of {sorted(unfinished)} was not reached"
        for message in consumer.consume(500, 1):
            error = message.error()
            if error is None:
                place = message.partition() or 0, message.offset() or 0
                found.setdefault(int(message.value() or b""), []).append(place)
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
    consumer.close()
    return found


def _under_one_epoch(
    bootstrap: str, doubled: dict[int, list[tuple[int, int]]]
) -> dict[int, list[tuple[int, int]]]:
    """Those of them that a broker had to recognise: twice in one epoch of the producer.

    A leader that steps down answers NOT_LEADER_OR_FOLLOWER for what it has appended and what its
    followers may have. librdkafka takes that for not written, and once it has raised its epoch,
    because of another partition, it sends such records again under new numbers.
    """
    if not doubled:
        return {}

    async def find() -> dict[int, list[tuple[int, int]]]:
        async with KaaConsumer({"bootstrap.servers": bootstrap}) as consumer:
            found = {}
            for number, places in doubled.items():
                epochs = {await _epoch(consumer, *place) for place in places}
                if len(epochs) < len(places):
                    found[number] = places
            return found

    return asyncio.run(find())


async def _epoch(consumer: KaaConsumer, partition: int, offset: int) -> int:
    fetched = await consumer.fetch_batches(TopicPartition(TOPIC, partition), offset, 1)
    batch = next(iter_batches(fetched.data))
    assert batch.base_offset <= offset <= batch.last_offset
    return batch.producer_epoch


def _settings(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "log_level": 0,
    }
