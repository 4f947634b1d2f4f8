"""Producers at work while their node is killed and started again, over and over.

Kills come at moments drawn from a seed. Afterwards everything that was acknowledged must be there,
at the offset that was answered, and an idempotent producer's records exactly once and in order.
"""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Producer, TopicPartition

from tests.clients.librdkafka import (
    Delivery,
    consumer,
    create_topic,
    dotted,
    send,
    take,
    watermarks,
)
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess

PARTITIONS = 3
TOPIC = "killed"
# Enough to roll segments of a mebibyte.
RECORD_BYTES = 2_000


class Load:
    """A producer that sends numbered records to every partition until it is asked to end."""

    def __init__(self, bootstrap: str, seed: int, **settings: Any) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 1,
                "acks": "all",
                "batch.num.messages": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
                **dotted(settings),
            }
        )
        self._filler = Random(seed).randbytes(RECORD_BYTES)
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        # By partition, in the order of sending.
        self.deliveries: list[list[Delivery]] = [[] for _ in range(PARTITIONS)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_ending.is_set():
            for partition, sent in enumerate(self.deliveries):
                value = b"%d " % len(sent) + self._filler
                sample = Sample(None, value, FIRST_TIMESTAMP_MS + len(sent))
                sent.append(send(self._producer, TOPIC, sample, partition))
            self._producer.poll(0.001)
            # So much on the way at most that the last records do not have to wait for long.
            while len(self._producer) > 500:
                self._producer.poll(0.05)
        assert self._producer.flush(PATIENCE_SECONDS) == 0


def run(broker: BrokerProcess, seed: int, kills: int, **settings: Any) -> Load:
    """Kills the node `kills` times under load; it runs when this returns."""
    random = Random(seed)
    create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS, segment_bytes=1_048_576)
    with Load(broker.bootstrap_servers, seed, **settings) as load:
        for _ in range(kills):
            threading.Event().wait(random.uniform(0.05, 0.6))
            broker.kill()
            if random.random() < 0.3:
                # Once more while it recovers.
                broker.launch()
                threading.Event().wait(random.uniform(0.1, 0.6))
                broker.kill()
            broker.start()
        threading.Event().wait(0.2)
    return load


def numbers(bootstrap: str, partition: int) -> dict[int, int]:
    """The numbers of the records in a partition by their offset."""
    with consumer(bootstrap, check_crcs=True) as reader:
        where = TopicPartition(TOPIC, partition, 0)
        low, high = watermarks(reader, where)
        assert low == 0
        reader.assign([where])
        found = take(reader, high)
    return {message.offset(): int(message.value().split()[0]) for message in found}


def check_nothing_lost(broker: BrokerProcess, load: Load) -> None:
    """Whatever was acknowledged is where the answer to the producer said."""
    for partition, deliveries in enumerate(load.deliveries):
        found = numbers(broker.bootstrap_servers, partition)
        acknowledged = {
            delivery.offset: number
            for number, delivery in enumerate(deliveries)
            if delivery.offset is not None
        }
        assert acknowledged
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged


def check_nothing_twice(broker: BrokerProcess, load: Load) -> None:
    """Every record is there once, in the order of sending."""
    for partition, deliveries in enumerate(load.deliveries):
        assert [delivery.error for delivery in deliveries] == [None] * len(deliveries)
        found = numbers(broker.bootstrap_servers, partition)
        assert list(found.values()) == list(range(len(deliveries)))
