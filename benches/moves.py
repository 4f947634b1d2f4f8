"""Replicas moved between two log directories: Kaa beside Apache Kafka.

Each side moves a partition of 5 GiB while nothing else happens, and back while a producer writes to
it; then a hundred partitions at once. Seconds are from the request until the replica is in its new
directory and nowhere else, as DescribeLogDirs tells; processor seconds are those of the broker. The
producer sends 200 records of 1 KiB a second, one after the other, with `acks=all`: both sides bear
the same load, and the longest wait is what a producer saw of the swap. Both directories are on the
same disk.

The sides take turns, and a figure is the median of the rounds: what a page of memory or a write to
the disk costs changes from minute to minute on a machine that is shared. `KAA_BENCH_MOVES_ROUNDS`
says how many rounds, `KAA_BENCH_MOVES_MIB` how large the partition is.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import psutil
from confluent_kafka import Producer

from benches.brokers import KAA, KAFKA, make_node
from benches.figure import beside
from kaa.client.admin.admin import NewTopic
from kaa.client.sync import Admin
from kaa.model.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benches.brokers import BrokerNode
    from benches.figure import Figure

MOVED_BYTES: Final = 5 * 1024**3
PARTITIONS: Final = 100
PARTITION_BYTES: Final = 4 * 1024**2
VALUE_BYTES: Final = 64 * 1024
LARGE, MANY = "large", "many"
SECONDS_MAX: Final = 900.0
ROUNDS: Final = 3
# Of the producer.
INTERVAL_SECONDS: Final = 0.005


class Moved(NamedTuple):
    """What a move took."""

    seconds: float
    processor_seconds: float


class Measured(NamedTuple):
    """One side."""

    idle: Moved
    loaded: Moved
    many: Moved
    p99_ms: float
    longest_ms: float


def run() -> list[Figure]:
    mib = int(os.environ.get("KAA_BENCH_MOVES_MIB", MOVED_BYTES // 1024**2))
    rounds = int(os.environ.get("KAA_BENCH_MOVES_ROUNDS", ROUNDS))
    found: dict[str, list[Measured]] = {KAA: [], KAFKA: []}
    for _ in range(rounds):
        for side, measured in found.items():
            measured.append(_measure(side, mib * 1024**2))
            print(f"{side}: {measured[-1]}", flush=True)
    size, many = f"{mib / 1024:g} GiB", f"{PARTITIONS} partitions at once"
    rows: dict[tuple[str, str], Callable[[Measured], float]] = {
        (f"{size}, idle", "s"): lambda one: one.idle.seconds,
        (f"{size}, idle, processor", "s"): lambda one: one.idle.processor_seconds,
        (f"{size}, with a producer", "s"): lambda one: one.loaded.seconds,
        (f"{size}, with a producer, processor", "s"): lambda one: one.loaded.processor_seconds,
        ("produce p99 meanwhile", "ms"): lambda one: one.p99_ms,
        ("longest wait of the producer", "ms"): lambda one: one.longest_ms,
        (many, "s"): lambda one: one.many.seconds,
        (f"{many}, processor", "s"): lambda one: one.many.processor_seconds,
    }
    kaa, kafka = (
        {row: statistics.median(map(value, found[side])) for row, value in rows.items()}
        for side in (KAA, KAFKA)
    )
    return beside(kaa, kafka, KAFKA)


def _measure(side: str, moved_bytes: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="kaa-moves-") as folder:
        paths = [f"{folder}/one", f"{folder}/two"]
        settings = {"log.dirs": ",".join(paths)}
        with (
            make_node(side, Path(folder), settings) as node,
            Admin({"bootstrap.servers": node.bootstrap_servers}) as admin,
        ):
            admin.create_topics([NewTopic(LARGE, partitions=1)])
            admin.create_topics([NewTopic(MANY, partitions=PARTITIONS)])
            _fill(node, LARGE, 1, moved_bytes)
            _fill(node, MANY, PARTITIONS, PARTITIONS * PARTITION_BYTES)
            large = [TopicPartition(LARGE, 0)]
            idle = _move(node, admin, large, paths)
            with _producing(node) as latencies:
                time.sleep(2)
                latencies.clear()
                loaded = _move(node, admin, large, paths)
                found = sorted(latencies)
            many = [TopicPartition(MANY, number) for number in range(PARTITIONS)]
            moved = _move(node, admin, many, paths)
            p99_ms = found[len(found) * 99 // 100] * 1e3
            return Measured(idle, loaded, moved, p99_ms, found[-1] * 1e3)


def _fill(node: BrokerNode, topic: str, partitions: int, size: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 65_536,
        }
    )
    value = os.urandom(VALUE_BYTES)
    for number in range(size // VALUE_BYTES):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(SECONDS_MAX) == 0


def _move(
    node: BrokerNode, admin: Admin, partitions: list[TopicPartition], paths: list[str]
) -> Moved:
    """Each goes to the directory in which it is not."""
    places = _places(admin, partitions)
    wanted = {one: next(path for path in paths if path != places[one]) for one in partitions}
    process = psutil.Process(node.pid)
    began, spent = time.monotonic(), sum(process.cpu_times()[:2])
    admin.alter_replica_log_dirs({(1, one): path for one, path in wanted.items()})
    while _places(admin, partitions) != wanted:
        assert time.monotonic() - began < SECONDS_MAX, "the move does not end"
        time.sleep(0.05)
    return Moved(time.monotonic() - began, sum(process.cpu_times()[:2]) - spent)


def _places(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, str]:
    """Where each is; one that moves is in no place."""
    found = [
        (replica, directory.path)
        for directory in admin.describe_log_dirs()
        for replica in directory.replicas
        if replica.partition in partitions
    ]
    moving = {replica.partition for replica, _ in found if replica.is_future}
    return {replica.partition: path for replica, path in found if replica.partition not in moving}


@contextmanager
def _producing(node: BrokerNode) -> Iterator[list[float]]:
    """Sends record after record; what each of them took, in seconds."""
    latencies: list[float] = []
    is_over = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 0})
        value = os.urandom(1024)
        due = time.monotonic()
        while not is_over.is_set():
            due += INTERVAL_SECONDS
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.monotonic()
            producer.produce(LARGE, value, partition=0)
            producer.flush()
            latencies.append(time.monotonic() - began)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield latencies
    finally:
        is_over.set()
        thread.join()
