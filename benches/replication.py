"""Three brokers of Kaa beside three of Apache Kafka: topics with three replicas.

Each system by itself, equal settings, librdkafka's client with `acks=all` and `min.insync.replicas`
of 2; topics are deleted between measurements. Rates are medians of rounds. Processor seconds are
those of the three brokers for each gigabyte that a client writes, which is three on disk.

A partition counts as unavailable from the kill of its leader until the next record is confirmed to
a producer that sends one every few milliseconds; that is the session time and what comes after it.
A follower that was down while a topic was filled catches up from its start until it is in the ISR
of all; the same topic is then taken from one broker and given back while records are produced.

`KAA_BENCH_REPLICATION_GIB` says how much a follower catches up, `KAA_BENCH_REPLICATION_KILLS` how
often a leader is killed.
"""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from benches.brokers import KAA, KAFKA
from benches.clusters import Cluster, wait_until
from benches.figure import beside
from kaa.client.admin.admin import NewTopic
from kaa.client.errors import ClientError
from kaa.model.topics import TopicPartition as Partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benches.figure import Figure, Measured
    from kaa.client.metadata import Topic

ROUNDS: Final = 3
RECORD_BYTES: Final = (100, 1024, 100 * 1024)
PARTITIONS: Final = (1, 6, 100)
# Small records are slow for every client.
BYTES_OF_SMALL, BYTES_OF_LARGE = 30_000_000, 200_000_000
RATE_PER_SECOND: Final = 500
LATENCY_SECONDS: Final = 20.0
QUIET_PARTITIONS: Final = (1_000, 5_000)
QUIET_SECONDS: Final = 20.0
SETTLED_SECONDS: Final = 10.0
SHORT_SESSION: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
FLUSH_SECONDS_MAX: Final = 600.0


def run() -> list[Figure]:
    # That a broker that was killed cannot be reached is not news.
    logging.getLogger("kaa.client").setLevel(logging.ERROR)
    kaa, kafka = (_measure(side) for side in (KAA, KAFKA))
    return beside(kaa, kafka, KAFKA)


def _measure(side: str) -> Measured:
    kills = int(os.environ.get("KAA_BENCH_REPLICATION_KILLS", "20"))
    size = int(float(os.environ.get("KAA_BENCH_REPLICATION_GIB", "5")) * 2**30)
    found: Measured = {}
    with _cluster(side) as cluster:
        found |= _throughput(cluster)
        found |= _latencies(cluster)
        found |= _copies(cluster, size)
        found["memory of three brokers after that", "MiB"] = cluster.memory_mib()
        found |= _kills(cluster, kills, "default session")
        found |= _clean_stop(cluster)
    with _cluster(side, SHORT_SESSION) as cluster:
        found |= _kills(cluster, kills, "session of 3 s")
    with _cluster(side) as cluster:
        found |= _quiet(cluster)
    return found


@contextmanager
def _cluster(side: str, settings: dict[str, str] | None = None) -> Iterator[Cluster]:
    with (
        tempfile.TemporaryDirectory(prefix="kaa-replication-") as folder,
        Cluster(side, Path(folder), settings) as cluster,
    ):
        yield cluster


# --- topics


def _create(cluster: Cluster, name: str, partitions: int) -> None:
    with cluster.admin() as admin:
        outcome = admin.create_topics([NewTopic(name, partitions, 3)])
        for error in outcome.values():
            if error is not None:
                raise error
    _wait_for_replicas(cluster, name)


def _delete(cluster: Cluster, name: str) -> None:
    with cluster.admin() as admin:
        admin.delete_topics([name])


def _topic(cluster: Cluster, name: str) -> Topic | None:
    try:
        with cluster.admin() as admin:
            topic = admin.describe_topics([name])[name]
    except ClientError:
        return None
    return None if isinstance(topic, Exception) else topic


def _wait_for_replicas(cluster: Cluster, name: str, count: int = 3) -> None:
    """Until every partition has a leader and so many replicas in its ISR."""

    def is_whole() -> bool:
        topic = _topic(cluster, name)
        return topic is not None and all(
            one.leader_id >= 0 and len(one.isr) == count for one in topic.partitions
        )

    wait_until(is_whole)


# --- as much as goes


def _throughput(cluster: Cluster) -> Measured:
    found: Measured = {}
    for record_bytes in RECORD_BYTES:
        size = BYTES_OF_SMALL if record_bytes < 1024 else BYTES_OF_LARGE
        for partitions in PARTITIONS:
            rounds = [_fill_anew(cluster, partitions, record_bytes, size) for _ in range(ROUNDS)]
            noun = "partition" if partitions == 1 else "partitions"
            name = f"produce {record_bytes} B, {partitions} {noun}"
            found[name, "MB/s"] = statistics.median(rate for rate, _ in rounds)
            spent = statistics.median(spent for _, spent in rounds)
            found[f"{name}, processor", "s/GB"] = spent
    return found


def _fill_anew(
    cluster: Cluster, partitions: int, record_bytes: int, size: int
) -> tuple[float, float]:
    """Megabytes per second, and processor seconds of the brokers per gigabyte."""
    name = f"filled-{time.monotonic_ns()}"
    _create(cluster, name, partitions)
    spent, began = cluster.processor_seconds(), time.monotonic()
    _fill(cluster, name, partitions, record_bytes, size)
    seconds, spent = time.monotonic() - began, cluster.processor_seconds() - spent
    _delete(cluster, name)
    return size / seconds / 1e6, spent / size * 1e9


def _fill(cluster: Cluster, name: str, partitions: int, record_bytes: int, size: int) -> None:
    producer = _producer(cluster, **{"linger.ms": 5, "batch.size": 1_000_000})
    value = os.urandom(record_bytes)
    for number in range(size // record_bytes):
        while True:
            try:
                producer.produce(name, value, partition=number % partitions)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(FLUSH_SECONDS_MAX) == 0


def _producer(cluster: Cluster, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **settings})


# --- one record after the other


class Delivery(NamedTuple):
    """When a record was sent, and when that was confirmed."""

    sent: float
    confirmed: float

    @property
    def seconds(self) -> float:
        return self.confirmed - self.sent


class Steady:
    """A producer of records at a fixed rate."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._name = name
        self._producer = _producer(cluster, **{"linger.ms": 0, "retry.backoff.max.ms": 100})
        self.deliveries: list[Delivery] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.flush(FLUSH_SECONDS_MAX)

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._is_over.is_set():
            due = began + number / RATE_PER_SECOND
            self._producer.poll(max(0.0, due - time.monotonic()))
            if time.monotonic() < due:
                continue
            number += 1
            sent = time.monotonic()
            value = sent.hex().encode().ljust(1024)
            self._producer.produce(
                self._name, value, partition=0, on_delivery=partial(self._delivered, sent)
            )

    def _delivered(self, sent: float, error: object, _: object) -> None:
        if error is None:
            self.deliveries.append(Delivery(sent, time.monotonic()))

    def confirmed_after(self, moment: float) -> float:
        """When the first record that was sent after `moment` was confirmed; waits for it."""
        wait_until(lambda: bool(self.deliveries) and self.deliveries[-1].sent > moment)
        return next(one.confirmed for one in self.deliveries if one.sent > moment)


def _latencies(cluster: Cluster) -> Measured:
    _create(cluster, "steady", 1)
    with Steady(cluster, "steady") as steady, _reading(cluster, "steady") as read:
        time.sleep(2)
        steady.deliveries.clear()
        read.clear()
        time.sleep(LATENCY_SECONDS)
        produced, passed = [one.seconds for one in steady.deliveries], list(read)
    _delete(cluster, "steady")
    return {
        (f"{what} at {RATE_PER_SECOND}/s, {label}", "ms"): _at(times, share) * 1e3
        for what, times in (("produce", produced), ("end to end", passed))
        for label, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    }


def _at(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


@contextmanager
def _reading(cluster: Cluster, name: str) -> Iterator[list[float]]:
    """How old each record was when a consumer got it."""
    found: list[float] = []
    is_over = threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "bench",
            "fetch.wait.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition(name, 0, 0)])

    def read() -> None:
        while not is_over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                sent = float.fromhex((message.value() or b"").decode().strip())
                found.append(time.monotonic() - sent)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
        consumer.close()


# --- leaders that go


def _kills(cluster: Cluster, count: int, label: str) -> Measured:
    _create(cluster, "killed", 1)
    times = []
    with Steady(cluster, "killed") as steady:
        for _ in range(count):
            leader = _leader(cluster, "killed")
            steady.confirmed_after(time.monotonic())
            cluster.nodes[leader].kill()
            killed = time.monotonic()
            times.append(steady.confirmed_after(killed) - killed)
            cluster.start(leader)
            _wait_for_replicas(cluster, "killed")
    _delete(cluster, "killed")
    return {
        (f"kill of a leader to the next record, {label}, median", "s"): statistics.median(times),
        (f"kill of a leader to the next record, {label}, worst", "s"): max(times),
    }


def _leader(cluster: Cluster, name: str) -> int:
    topic = _topic(cluster, name)
    assert topic is not None
    return topic.partitions[0].leader_id


def _clean_stop(cluster: Cluster) -> Measured:
    _create(cluster, "stopped", 1)
    with Steady(cluster, "stopped") as steady:
        leader = _leader(cluster, "stopped")
        began = steady.confirmed_after(time.monotonic())
        seconds = cluster.nodes[leader].stop()
        steady.confirmed_after(time.monotonic())
        times = [one.confirmed for one in steady.deliveries if one.confirmed >= began]
        longest = max(after - before for before, after in pairwise(times))
    cluster.start(leader)
    return {
        ("clean stop of a leader", "s"): seconds,
        ("longest pause of its producer", "s"): longest,
    }


# --- copies


def _copies(cluster: Cluster, size: int) -> Measured:
    """A follower that was down, and one that is added under load."""
    name, partitions, gib = "copied", 6, f"{size / 2**30:g} GiB"
    _create(cluster, name, partitions)
    cluster.nodes[3].stop()
    _fill(cluster, name, partitions, 64 * 1024, size)
    began = time.monotonic()
    cluster.start(3)
    _wait_for_replicas(cluster, name)
    caught_up = time.monotonic() - began
    _reassign(cluster, name, partitions, [1, 2])
    _create(cluster, "beside", 1)
    with Steady(cluster, "beside") as steady:
        began = time.monotonic()
        _reassign(cluster, name, partitions, [1, 2, 3])
        added = time.monotonic() - began
        p99 = _at([one.seconds for one in steady.deliveries], 0.99) * 1e3
    for each in (name, "beside"):
        _delete(cluster, each)
    return {
        (f"a follower starts and catches up {gib}", "s"): caught_up,
        (f"a replica of {gib} is added under load", "s"): added,
        ("produce p99 meanwhile", "ms"): p99,
    }


def _reassign(cluster: Cluster, name: str, partitions: int, replicas: list[int]) -> None:
    with cluster.admin() as admin:
        wanted = {Partition(name, number): replicas for number in range(partitions)}
        outcome = admin.alter_partition_reassignments(wanted)
        assert not any(outcome.values()), outcome
        wait_until(lambda: not admin.list_partition_reassignments())
    _wait_for_replicas(cluster, name, len(replicas))


# --- nothing to do


def _quiet(cluster: Cluster) -> Measured:
    found: Measured = {}
    there = 0
    for count in QUIET_PARTITIONS:
        _create(cluster, f"quiet-{count}", count - there)
        there = count
        time.sleep(SETTLED_SECONDS)
        spent = cluster.processor_seconds()
        time.sleep(QUIET_SECONDS)
        spent = cluster.processor_seconds() - spent
        share = spent / QUIET_SECONDS / len(cluster.nodes) * 100
        found[f"{count} quiet partitions, each broker", "% of a core"] = share
    return found
