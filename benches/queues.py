"""Share groups of Kaa beside those of Apache Kafka, one node of each, one system at a time.

Rates are those of Kafka's own ShareConsumerPerformance, whose threads are the members, from the
first record on: to join a group takes as long as heartbeats are apart. Members get whole batches,
so that batches decide how often they ask: both systems have the same ones, as large as those that
Kafka's producer makes by default. (A producer left to itself makes larger ones for the system that
takes longer to write them.) How long an acknowledgement takes is what Kaa's client waits for
`commit()` after each poll of a few records.

The tool needs many times the processor time of a broker. So the same members come once more from a
driver that only asks, acknowledges and counts: that is what the broker itself can give, with what
its process uses for it.

What a held record costs is what the broker's memory grows by, while a member takes records one by
one so that each has a state of its own: resident memory of Kaa, live objects on Kafka's heap, which
is the less of it that Kafka can be given. Records of whole batches cost both next to nothing.

A member that dies is a process that is killed while it holds a record; what counts is the time
until another member has it. Loading is one record from each of ten thousand partitions that nobody
has read before. The longest wait meanwhile is that of a client that asks for next to nothing again
and again; how late Kaa's loop was at most is shown beside it.

`KAA_BENCH_QUEUES_RECORDS` says how many records, `KAA_BENCH_QUEUES_PARTITIONS` how many partitions
are loaded.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from confluent_kafka import Producer

from benches.brokers import KAA, KAFKA, make_node
from benches.drivers.frames import check_produced, produce_frame
from benches.driving import Driver, JavaTool, create_topic
from benches.figure import beside
from benches.sampling import resident_bytes, usage
from kaa.client.admin.admin import NewTopic
from kaa.client.admin.configs import ConfigChange
from kaa.client.sync import Admin, ShareConsumer
from kaa.model.kinds import ResourceType
from tests.oracle.environment import command
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benches.brokers import BrokerNode
    from benches.figure import Figure, Measured
    from kaa.client.share.fetched import ShareRecord

    # What was measured, its unit, and the value.
    Rows: TypeAlias = Iterator[tuple[tuple[str, str], float]]

MEMBERS: Final = (1, 10, 100)
PARTITIONS: Final = (1, 6)
VALUE: Final = bytes(100)
# What fits into the 16 KiB that Kafka's producer gathers by default.
BATCH_RECORDS: Final = 150
ACKNOWLEDGEMENTS: Final = 300
DEATHS: Final = 5
SECONDS_MAX: Final = 600.0
# As many as a partition may have in hand by default.
HELD_RECORDS: Final = 2_000
HELD_PARTITIONS: Final = 200
_ENDS: Final = re.compile(r"\d, (\d+-\d+-\d+ [\d:]+), ")
_TOTAL: Final = re.compile(r"^Total +\d+ +(\d+)", re.MULTILINE)


def run() -> list[Figure]:
    kaa, kafka = (_measure(side) for side in (KAA, KAFKA))
    return beside(kaa, kafka, KAFKA)


def _measure(side: str) -> Measured:
    found: Measured = {}
    with (
        tempfile.TemporaryDirectory(prefix="kaa-queues-") as folder,
        make_node(side, Path(folder), {"group.share.max.size": "1000"}) as node,
        Admin({"bootstrap.servers": node.bootstrap_servers}) as admin,
    ):
        for measure in (_held, _rates, _acknowledgements, _deaths, _loading):
            began = time.monotonic()
            for row, value in measure(node, admin):
                found[row] = value
                print(f"{side}: {row[0]}: {value:,.2f} {row[1]}", flush=True)
            print(f"{side}: that took {time.monotonic() - began:.0f} s", flush=True)
    return found


def _fill(node: BrokerNode, admin: Admin, topic: str, partitions: int, records: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])
    _produce(node, topic, partitions, records)


def _produce(node: BrokerNode, topic: str, partitions: int, records: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 5})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, VALUE, partition=number % partitions)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(SECONDS_MAX) == 0


def _group(admin: Admin, name: str) -> str:
    """A group that begins with the first record."""
    change = ConfigChange("share.auto.offset.reset", "earliest")
    admin.alter_configs(ResourceType.GROUP, name, [change])
    return name


# --- rates and latencies


def _rates(node: BrokerNode, admin: Admin) -> Rows:
    records = int(os.environ.get("KAA_BENCH_QUEUES_RECORDS", "500000"))
    for partitions in PARTITIONS:
        topic = f"rate-{partitions}"
        written = _fill_evenly(node, topic, partitions, records)
        for members in MEMBERS:
            name = f"{members} members" if members > 1 else "1 member"
            name += f", {partitions} partitions" if partitions > 1 else ", 1 partition"
            yield (name, "records/s"), _rate(node, admin, topic, members, written)
            seconds, cpu_seconds = _taken(node, admin, topic, partitions, members, written)
            yield (f"{name}, by the driver", "records/s"), written / seconds
            yield (
                (f"{name}, processor time of the broker for 1,000 records", "ms"),
                cpu_seconds / written * 1e6,
            )


def _fill_evenly(node: BrokerNode, topic: str, partitions: int, records: int) -> int:
    """How many records were written: at least so many, in batches that are all the same."""
    create_topic(node.bootstrap_servers, topic, partitions)
    rounds = -(-records // (partitions * BATCH_RECORDS))
    frames = [
        bytes(produce_frame(topic, number, [VALUE] * BATCH_RECORDS)) for number in range(partitions)
    ]
    with RawClient(node.bootstrap_servers) as client:
        for _ in range(rounds):
            for one in frames:
                client.send(one)
            for _ in frames:
                check_produced(client.receive_frame())
    return rounds * partitions * BATCH_RECORDS


def _taken(
    node: BrokerNode, admin: Admin, topic: str, partitions: int, members: int, records: int
) -> tuple[float, float]:
    """Seconds until light members have everything, and those of the processor that it cost."""
    parameters = {
        "bootstrap_servers": node.bootstrap_servers,
        "group": _group(admin, f"{topic}-{members}-driver"),
        "topic": topic,
        "partitions": partitions,
        "members": members,
        "records": records,
    }
    driver = Driver("share", "takes", parameters, seconds_max=SECONDS_MAX)
    before = usage(node.pid).cpu_seconds
    driver.begin()
    seconds = driver.result()["seconds"]
    return seconds, usage(node.pid).cpu_seconds - before


def _rate(node: BrokerNode, admin: Admin, topic: str, members: int, records: int) -> float:
    """From the first record that any member has to the last, without the time to join."""
    group = _group(admin, f"{topic}-{members}")
    tool = JavaTool(
        "ShareConsumerPerformance",
        *("--bootstrap-server", node.bootstrap_servers, "--topic", topic, "--group", group),
        *("--num-records", str(records), "--threads", str(members), "--timeout", "60000"),
        *("--show-detailed-stats", "--reporting-interval", "500"),
        seconds_max=SECONDS_MAX,
    )
    text, _ = tool.result()
    # Each member reports its first record, and later ones now and then; all of them come last.
    ends = [datetime.strptime(f"{end}Z", "%Y-%m-%d %H:%M:%S:%f%z") for end in _ENDS.findall(text)]
    return records / (ends[-1] - min(ends)).total_seconds()


def _consumer(node: BrokerNode, group: str) -> ShareConsumer:
    return ShareConsumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 10,
        }
    )


def _acknowledgements(node: BrokerNode, admin: Admin) -> Rows:
    topic = "acknowledged"
    _fill(node, admin, topic, 1, ACKNOWLEDGEMENTS * 12)
    times: list[float] = []
    with _consumer(node, _group(admin, topic)) as consumer:
        consumer.subscribe([topic])
        while len(times) < ACKNOWLEDGEMENTS:
            if _accept(consumer.poll(1000), consumer):
                began = time.monotonic()
                consumer.commit()
                times.append((time.monotonic() - began) * 1e3)
    times.sort()
    yield ("acknowledgement, p50", "ms"), statistics.median(times)
    yield ("acknowledgement, p99", "ms"), times[len(times) * 99 // 100]


# --- what records in hand cost


def _held(node: BrokerNode, admin: Admin) -> Rows:
    topic = "held"
    create_topic(node.bootstrap_servers, topic, HELD_PARTITIONS)
    with RawClient(node.bootstrap_servers) as client:
        for number in range(HELD_PARTITIONS):
            client.send(bytes(produce_frame(topic, number, [b"x"] * HELD_RECORDS)))
            check_produced(client.receive_frame())
    parameters = {
        "bootstrap_servers": node.bootstrap_servers,
        "group": _group(admin, topic),
        "topic": topic,
        "partitions": HELD_PARTITIONS,
        "records": HELD_RECORDS,
    }
    before = _memory_bytes(node)
    driver = Driver("share", "holds", parameters)
    grown = _memory_bytes(node) - before
    driver.end()
    yield ("memory of a held record", "bytes"), grown / (HELD_PARTITIONS * HELD_RECORDS)


def _memory_bytes(node: BrokerNode) -> int:
    """What is resident of Kaa; of Kafka only the objects that are in use."""
    if node.side == KAA:
        return resident_bytes(node.pid)
    words = [command("jcmd", "ask a JVM"), str(node.pid), "GC.class_histogram"]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    return int(_TOTAL.findall(done.stdout)[-1])


# --- members that die


def _deaths(node: BrokerNode, admin: Admin) -> Rows:
    times = []
    for number in range(DEATHS):
        topic = f"death-{number}"
        _fill(node, admin, topic, 1, 1)
        group = _group(admin, topic)
        parameters = {
            "bootstrap_servers": node.bootstrap_servers,
            "group": group,
            "topic": topic,
        }
        holder = Driver("share", "dies", parameters)
        with _consumer(node, group) as consumer:
            consumer.subscribe([topic])
            # Until it gets some itself; one that the other still asked for may go there.
            while not _accept(consumer.poll(500), consumer):
                _produce(node, topic, 1, 1)
            began = time.monotonic()
            holder.end()
            while not any(one.delivery_count > 1 for one in _accept(consumer.poll(500), consumer)):
                assert time.monotonic() - began < SECONDS_MAX
            times.append(time.monotonic() - began)
    yield ("death of a member to redelivery, median", "s"), statistics.median(times)


def _accept(records: list[ShareRecord], consumer: ShareConsumer) -> list[ShareRecord]:
    for record in records:
        consumer.acknowledge(record)
    return records


# --- many share partitions


def _loading(node: BrokerNode, admin: Admin) -> Rows:
    partitions = int(os.environ.get("KAA_BENCH_QUEUES_PARTITIONS", "10000"))
    topic, seen = "loaded", set[int]()
    _fill(node, admin, topic, partitions, partitions)
    beside_it = Driver(
        "share", "waits", {"bootstrap_servers": node.bootstrap_servers}, seconds_max=SECONDS_MAX
    )
    node.loop_lag()
    beside_it.begin()
    began = time.monotonic()
    with _consumer(node, _group(admin, topic)) as consumer:
        consumer.subscribe([topic])
        while len(seen) < partitions:
            assert time.monotonic() - began < SECONDS_MAX, f"{len(seen)} partitions were read"
            seen |= {record.partition for record in _accept(consumer.poll(1000), consumer)}
        seconds = time.monotonic() - began
    beside_it.begin()
    yield (f"{partitions:,} share partitions loaded", "s"), seconds
    yield ("longest wait of another client meanwhile", "ms"), beside_it.result()["longest_ms"]
    lag = node.loop_lag().get("lag_max_ms")
    if lag is not None:
        yield ("longest wait of the loop meanwhile", "ms"), lag
