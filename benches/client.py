"""Kaa's Python client beside aiokafka: produce, consume, and consume in a group.

A node of Kaa runs as a process of its own; both clients take turns against it, on topics of three
partitions, with the same settings (acks of all replicas, idempotence, batches of 16 KiB, 5 ms of
linger, polls of at most 500 records). Each figure is the best of several rounds. Beside records per
second of the clock stand records per second of the client's own processor time, which a busy
machine does not blur.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiokafka

from benches.brokers import KaaNode
from benches.figure import Figure
from kaa.client import Admin, Consumer, NewTopic, Producer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PARTITIONS = 3
ROUNDS = 3
POLL_RECORDS = 500
RECORDS = {100: 60_000, 1024: 30_000}
UNIT = "records/s"


class Speed(NamedTuple):
    """Records per second of the clock and of the processor."""

    wall: float
    cpu: float


class Load(NamedTuple):
    """What one round moves; its number makes a name for its group."""

    servers: str
    topic: str
    record_count: int
    value: bytes
    number: int = 0


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, KaaNode(Path(folder)) as node:
        return asyncio.run(_measure(node.bootstrap_servers))


async def _measure(servers: str) -> list[Figure]:
    figures: list[Figure] = []
    for size, count in RECORDS.items():
        topic = f"bytes-{size}"
        async with Admin({"bootstrap.servers": servers}) as admin:
            await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        value = bytes(range(256)) * 4
        load = Load(servers, topic, count, value[:size])
        for name, ours, theirs in (
            ("produce", _produce, _aiokafka_produce),
            ("consume", _consume, _aiokafka_consume),
            ("consume in a group", _consume_in_group, _aiokafka_consume_in_group),
        ):
            mine, peer = await _compare(ours, theirs, load)
            title = f"{name}, {size} bytes"
            figures += [
                Figure(title, mine.wall, UNIT, {"aiokafka": peer.wall}),
                Figure(f"{title}, of processor time", mine.cpu, UNIT, {"aiokafka": peer.cpu}),
            ]
    return figures


async def _compare(
    ours: Callable[[Load], Awaitable[Speed]],
    theirs: Callable[[Load], Awaitable[Speed]],
    load: Load,
) -> tuple[Speed, Speed]:
    """The best rounds of each, in turns, so that a busy moment hits both alike."""
    mine: list[Speed] = []
    peer: list[Speed] = []
    for number in range(ROUNDS):
        mine.append(await ours(load._replace(number=number)))
        peer.append(await theirs(load._replace(number=number)))
    return tuple(  # type: ignore[return-value]
        Speed(max(one.wall for one in some), max(one.cpu for one in some)) for some in (mine, peer)
    )


class Watch:
    """Measures from its making until it is asked."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def speed(self, count: int) -> Speed:
        return Speed(
            count / (time.perf_counter() - self.wall), count / (time.process_time() - self.cpu)
        )


async def _produce(load: Load) -> Speed:
    async with Producer({"bootstrap.servers": load.servers, "linger.ms": "5"}) as producer:
        await (await producer.send(load.topic, load.value))
        watch = Watch()
        for _ in range(load.record_count):
            await producer.send(load.topic, load.value)
        await producer.flush()
        return watch.speed(load.record_count)


async def _aiokafka_produce(load: Load) -> Speed:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=load.servers, acks="all", enable_idempotence=True, linger_ms=5
    )
    await producer.start()
    try:
        await producer.send_and_wait(load.topic, load.value)
        watch = Watch()
        for _ in range(load.record_count):
            await producer.send(load.topic, load.value)
        await producer.flush()
        return watch.speed(load.record_count)
    finally:
        await producer.stop()


async def _consume(load: Load) -> Speed:
    settings = {"bootstrap.servers": load.servers, "auto.offset.reset": "earliest"}
    async with Consumer(settings) as consumer:
        consumer.assign(await consumer.partitions_for(load.topic))
        return await _poll(consumer, load.record_count)


async def _consume_in_group(load: Load) -> Speed:
    settings = {
        "bootstrap.servers": load.servers,
        "auto.offset.reset": "earliest",
        "group.id": f"kaa-{load.topic}-{load.number}",
    }
    async with Consumer(settings) as consumer:
        consumer.subscribe([load.topic])
        return await _poll(consumer, load.record_count)


async def _poll(consumer: Consumer, count: int) -> Speed:
    """From the first records on, so that joining a group does not count."""
    await consumer.poll()
    watch = Watch()
    read = 0
    while read < count - POLL_RECORDS:
        for records in (await consumer.poll(max_records=POLL_RECORDS)).values():
            read += len(records)
    return watch.speed(read)


async def _aiokafka_consume(load: Load) -> Speed:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=load.servers, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        numbers = consumer.partitions_for_topic(load.topic) or range(PARTITIONS)
        consumer.assign([aiokafka.TopicPartition(load.topic, one) for one in numbers])
        await consumer.seek_to_beginning()
        return await _getmany(consumer, load.record_count)
    finally:
        await consumer.stop()


async def _aiokafka_consume_in_group(load: Load) -> Speed:
    consumer = aiokafka.AIOKafkaConsumer(
        load.topic,
        bootstrap_servers=load.servers,
        auto_offset_reset="earliest",
        group_id=f"aiokafka-{load.topic}-{load.number}",
    )
    await consumer.start()
    try:
        return await _getmany(consumer, load.record_count)
    finally:
        await consumer.stop()


async def _getmany(consumer: Any, count: int) -> Speed:
    while not await consumer.getmany(timeout_ms=1000, max_records=POLL_RECORDS):
        pass
    watch = Watch()
    read = 0
    while read < count - POLL_RECORDS:
        found = await consumer.getmany(timeout_ms=1000, max_records=POLL_RECORDS)
        for records in found.values():
            read += len(records)
    return watch.speed(read)
