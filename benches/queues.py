"""Share groups of Kaa beside those of Apache Kafka, one node of each, one system at a time.

Rates are those of Kafka's own ShareConsumerPerformance, whose threads are the members. How long an
acknowledgement takes is what Kaa's client waits for `commit()` after each poll of a few records. A
member that dies is a process that is killed while it holds records; what counts is the time until
another member has them. Loading is one record from each of ten thousand partitions that nobody has
read before; how late Kaa's loop was meanwhile is the last figure.

`KAA_BENCH_QUEUES_RECORDS` says how many records, `KAA_BENCH_QUEUES_PARTITIONS` how many partitions
are loaded.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from benches.brokers import KAA, KAFKA, make_node
from benches.driving import JavaTool
from benches.figure import beside
from kaa.client.admin.admin import NewTopic
from kaa.client.admin.configs import ConfigChange
from kaa.client.sync import Admin, ShareConsumer
from kaa.model.kinds import ResourceType

if TYPE_CHECKING:
    from benches.brokers import BrokerNode
    from benches.figure import Figure, Measured

MEMBERS: Final = (1, 10, 100)
PARTITIONS: Final = (1, 6)
VALUE: Final = bytes(100)
ACKNOWLEDGEMENTS: Final = 300
DEATHS: Final = 10
SECONDS_MAX: Final = 600.0
# What it holds when its output begins it holds until it is killed.
_HOLDER: Final = """
import sys, time
from kaa.client.admin.configs import ConfigChange
from kaa.client.sync import ShareConsumer
servers, group, topic = sys.argv[1:]
settings = {"bootstrap.servers": servers, "group.id": group,
            "share.acknowledgement.mode": "explicit"}
with ShareConsumer(settings) as consumer:
    consumer.subscribe([topic])
    while not consumer.poll(1000):
        pass
    print("holds", flush=True)
    time.sleep(600)
"""


def run() -> list[Figure]:
    kaa, kafka = (_measure(side) for side in (KAA, KAFKA))
    return beside(kaa, kafka, KAFKA)


def _measure(side: str) -> Measured:
    records = int(os.environ.get("KAA_BENCH_QUEUES_RECORDS", "200000"))
    loaded = int(os.environ.get("KAA_BENCH_QUEUES_PARTITIONS", "10000"))
    found: Measured = {}
    with (
        tempfile.TemporaryDirectory(prefix="kaa-queues-") as folder,
        make_node(side, Path(folder), {"group.share.max.size": "1000"}) as node,
        Admin({"bootstrap.servers": node.bootstrap_servers}) as admin,
    ):
        for partitions in PARTITIONS:
            topic = f"rate-{partitions}"
            _fill(node, admin, topic, partitions, records)
            for members in MEMBERS:
                name = f"{members} members" if members > 1 else "1 member"
                name += f", {partitions} partitions" if partitions > 1 else ", 1 partition"
                found[name, "records/s"] = _rate(node, admin, topic, members, records)
        found |= _acknowledgements(node, admin)
        found |= _deaths(node, admin)
        found |= _loading(node, admin, loaded)
    return found


def _fill(node: BrokerNode, admin: Admin, topic: str, partitions: int, records: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])
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


def _rate(node: BrokerNode, admin: Admin, topic: str, members: int, records: int) -> float:
    group = _group(admin, f"{topic}-{members}")
    tool = JavaTool(
        "ShareConsumerPerformance",
        *("--bootstrap-server", node.bootstrap_servers, "--topic", topic, "--group", group),
        *("--num-records", str(records), "--threads", str(members), "--timeout", "60000"),
        seconds_max=SECONDS_MAX,
    )
    text, _ = tool.result()
    lines = [line.split(", ") for line in text.splitlines() if line.count(", ") >= 5]
    row = dict(zip(lines[0], lines[-1], strict=False))
    return float(row["nMsg.sec"])


def _consumer(node: BrokerNode, group: str) -> ShareConsumer:
    return ShareConsumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 10,
        }
    )


def _acknowledgements(node: BrokerNode, admin: Admin) -> Measured:
    topic = "acknowledged"
    _fill(node, admin, topic, 1, ACKNOWLEDGEMENTS * 12)
    times: list[float] = []
    with _consumer(node, _group(admin, topic)) as consumer:
        consumer.subscribe([topic])
        while len(times) < ACKNOWLEDGEMENTS:
            records = consumer.poll(1000)
            for record in records:
                consumer.acknowledge(record)
            if records:
                began = time.monotonic()
                consumer.commit()
                times.append((time.monotonic() - began) * 1e3)
    times.sort()
    return {
        ("acknowledgement, p50", "ms"): statistics.median(times),
        ("acknowledgement, p99", "ms"): times[len(times) * 99 // 100],
    }


def _deaths(node: BrokerNode, admin: Admin) -> Measured:
    times = []
    for number in range(DEATHS):
        topic = f"death-{number}"
        _fill(node, admin, topic, 1, 1)
        group = _group(admin, topic)
        words = [sys.executable, "-c", _HOLDER, node.bootstrap_servers, group, topic]
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder,
            _consumer(node, group) as consumer,
        ):
            assert holder.stdout is not None
            assert holder.stdout.readline() == "holds\n"
            consumer.subscribe([topic])
            assert not consumer.poll(2000)
            holder.kill()
            began = time.monotonic()
            while not consumer.poll(1000):
                assert time.monotonic() - began < SECONDS_MAX
            times.append(time.monotonic() - began)
    return {("death of a member to redelivery, median", "s"): statistics.median(times)}


def _loading(node: BrokerNode, admin: Admin, partitions: int) -> Measured:
    topic, seen = "loaded", set[int]()
    _fill(node, admin, topic, partitions, partitions)
    node.loop_lag()
    began = time.monotonic()
    with _consumer(node, _group(admin, topic)) as consumer:
        consumer.subscribe([topic])
        while len(seen) < partitions:
            assert time.monotonic() - began < SECONDS_MAX, f"{len(seen)} partitions were read"
            records = consumer.poll(1000)
            for record in records:
                consumer.acknowledge(record)
            seen |= {record.partition for record in records}
    found: Measured = {(f"{partitions:,} share partitions loaded", "s"): time.monotonic() - began}
    lag = node.loop_lag().get("lag_max_ms")
    if lag is not None:
        found["longest wait of the loop meanwhile", "ms"] = lag
    return found
