"""librdkafka, through confluent-kafka, with its own defaults: throughput and transactions.

But for one: a consumer that has 100,000 records waiting pauses for a second
(`fetch.queue.backoff.ms`) and would mostly measure that.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benches.drivers.program import payloads, run
from benches.histogram import Latencies

if TYPE_CHECKING:
    from collections.abc import Callable

CALL_RECORDS: Final = 500
CONSUME_RECORDS: Final = 5_000
# A call ends with so many records or after so long: the rest of a topic is not waited for.
CONSUME_SECONDS: Final = 0.02
STATISTICS_MS: Final = 100
FLUSH_SECONDS_MAX: Final = 60


class _Requests:
    """Counts the requests that were sent, from the statistics of the library."""

    count = 0

    def __call__(self, text: str) -> None:
        self.count = sum(broker["tx"] for broker in json.loads(text)["brokers"].values())


def produce(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    """So many records as fast as it goes; a record counts when it is acknowledged."""
    requests, failures = _Requests(), list[str]()
    producer = Producer(
        {
            "bootstrap.servers": task["bootstrap_servers"],
            "acks": task["acks"],
            "compression.type": task["compression"],
            "message.max.bytes": 2_000_000,
            "queue.buffering.max.kbytes": 262_144,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(str(error)),
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": requests,
        }
    )
    producer.list_topics(task["topic"], 10)
    values = payloads(task["record_bytes"])
    messages = [{"value": values[number % len(values)]} for number in range(CALL_RECORDS)]
    topic, left = task["topic"], task["count"]
    deadline = time.monotonic() + task["seconds_max"]
    begin()
    requests_before = requests.count
    started = time.perf_counter()
    while left > 0 and time.monotonic() < deadline:
        queued = producer.produce_batch(
            topic, messages if left >= CALL_RECORDS else messages[:left]
        )
        left -= queued
        producer.poll(0 if queued == CALL_RECORDS else 0.005)
    unsent = producer.flush(FLUSH_SECONDS_MAX)
    seconds = time.perf_counter() - started
    if unsent or failures:
        raise AssertionError(
            f"{unsent} records were not sent, {len(failures)} failed: {failures[:1]}"
        )
    producer.poll(STATISTICS_MS / 1e3 * 2)
    return _throughput(task, task["count"] - left, seconds, requests.count - requests_before)


def consume(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    """Reads all partitions from their start to so many records."""
    requests = _Requests()
    consumer = Consumer(
        {
            "bootstrap.servers": task["bootstrap_servers"],
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 2,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": requests,
        }
    )
    consumer.list_topics(task["topic"], 10)
    begin()
    requests_before = requests.count
    started = time.perf_counter()
    consumer.assign(
        [TopicPartition(task["topic"], number, 0) for number in range(task["partitions"])]
    )
    read, target = 0, task["count"]
    deadline = time.monotonic() + task["seconds_max"]
    while read < target:
        messages = consumer.consume(CONSUME_RECORDS, CONSUME_SECONDS)
        read += len(messages)
        if messages and messages[0].error():
            raise KafkaException(messages[0].error())
        if time.monotonic() > deadline:
            break
    seconds = time.perf_counter() - started
    consumer.poll(0)
    result = _throughput(task, read, seconds, requests.count - requests_before)
    consumer.close()
    return result


def _throughput(task: dict[str, Any], count: int, seconds: float, requests: int) -> dict[str, Any]:
    size = count * task["record_bytes"]
    return {
        "records": count,
        "bytes": size,
        "seconds": seconds,
        "requests": requests,
        "mb_per_second": size / seconds / 1e6,
        "records_per_second": count / seconds,
    }


def transactions(task: dict[str, Any], begin: Callable[[], None]) -> dict[str, Any]:
    """One transaction after the other, each with so many records, for a while."""
    producer = Producer(
        {
            "bootstrap.servers": task["bootstrap_servers"],
            "transactional.id": task["transactional_id"],
            "linger.ms": 0,
        }
    )
    producer.init_transactions(30)
    value = payloads(task["record_bytes"], 1)[0]
    latencies, count = list[float](), 0
    _transaction(producer, task, value)
    begin()
    started = time.perf_counter()
    while (now := time.perf_counter()) - started < task["seconds"]:
        _transaction(producer, task, value)
        latencies.append((time.perf_counter() - now) * 1e6)
        count += 1
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "records": count * task["records_each"],
        "transactions_per_second": count / seconds,
        "latencies": Latencies(latencies).to_text(),
    }


def _transaction(producer: Any, task: dict[str, Any], value: bytes) -> None:
    producer.begin_transaction()
    for number in range(task["records_each"]):
        producer.produce(task["topic"], value, partition=number % task["partitions"])
    producer.commit_transaction(30)


if __name__ == "__main__":
    run({"produce": produce, "consume": consume, "transactions": transactions})
