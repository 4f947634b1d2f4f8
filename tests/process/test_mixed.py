"""A cluster of a JVM broker, which is its controller too, and a broker of Kaa: one replicates from
the other, in both directions, and their files are equal byte by byte.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kaa.client import NewTopic as KaaTopic
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.files import RealFiles
from kaa.wire.primitives import random_uuid
from tests.oracle.broker import RealKafka
from tests.oracle.environment import wait_until
from tests.process.queue_story import check, working
from tests.process.queue_workers import QUICK, RECORDS, TOPIC, Workers, fill, prepare
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import LOOPBACK, free_port

pytestmark = pytest.mark.oracle

JVM, KAA = 1, 2
# For both, so that what is kept of groups and queues is on both, and goes from one to the other.
COMMON = (
    *QUICK,
    "offsets.topic.replication.factor=2",
    "share.coordinator.state.topic.num.partitions=2",
    "share.coordinator.state.topic.replication.factor=2",
)
# Partition 0 is led by the JVM's broker, partition 1 by Kaa's.
LED_BY_JVM, LED_BY_KAA = 0, 1


class Mixed(NamedTuple):
    kafka: RealKafka
    kaa: BrokerProcess

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.kafka.bootstrap_servers},{self.kaa.bootstrap_servers}"

    @property
    def admin(self) -> Any:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def create(self, topic: str, **config: str) -> None:
        new = NewTopic(
            topic,
            2,
            replica_assignment=[[JVM, KAA], [KAA, JVM]],
            config={name.replace("_", "."): value for name, value in config.items()},
        )
        admin = self.admin
        for created in admin.create_topics([new]).values():
            created.result(PATIENCE_SECONDS)

    def producer(self, **settings: Any) -> Any:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
            }
            | {name.replace("_", "."): value for name, value in settings.items()}
        )

    def folders(self, topic: str, partition: int) -> tuple[Path, Path]:
        name = f"{topic}-{partition}"
        return self.kafka.log_dir / name, self.kaa.data_dir / name

    def in_sync(self, topic: str) -> bool:
        """Whether both replicas of both partitions are in sync, and each is led as it should be."""
        admin = self.admin
        found = admin.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        return [(each.leader, sorted(each.isrs)) for _, each in sorted(found.items())] == [
            (JVM, [JVM, KAA]),
            (KAA, [JVM, KAA]),
        ]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    folder = tmp_path_factory.mktemp("mixed")
    with RealKafka(
        folder,
        "mixed",
        replica_lag_time_max_ms="5000",
        # Short, so that a killed broker is missed soon.
        broker_session_timeout_ms="3000",
        leader_imbalance_check_interval_seconds="2",
        leader_imbalance_per_broker_percentage="0",
        **dict(text.replace(".", "_").split("=") for text in COMMON),
    ) as kafka:
        kaa = kaa_broker(folder / "kaa", kafka, "share.coordinator.state.topic.min.isr=1", *COMMON)
        kaa.start()
        try:
            yield Mixed(kafka, kaa)
        finally:
            kaa.kill()


def kaa_broker(folder: Path, kafka: RealKafka, *settings: str) -> BrokerProcess:
    folder.mkdir()
    port, data = free_port(), str(folder / "data")
    config_file = folder / "server.properties"
    lines = (
        "process.roles=broker",
        f"node.id={KAA}",
        f"listeners=PLAINTEXT://{LOOPBACK}:{port}",
        f"controller.quorum.voters={JVM}@{kafka.controller}",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={data}",
        "replica.lag.time.max.ms=5000",
        "broker.heartbeat.interval.ms=500",
        "log.retention.check.interval.ms=86400000",
        # As the JVM's broker has it: either may be the one that makes these topics, and a JVM goes
        # by its own settings to find a coordinator until it is restarted.
        "offsets.topic.replication.factor=1",
        "offsets.topic.num.partitions=4",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "transaction.state.log.num.partitions=4",
        *settings,
    )
    config_file.write_text("\n".join(lines))
    random, files = Random(KAA), RealFiles()
    request = FormatRequest(kafka.cluster_id, KAA, [data], data, is_quorum_dynamic=False)
    for _ in plan_format(files, request, lambda: random_uuid(random.randbytes)).run(files, 0, ""):
        pass
    return BrokerProcess(folder, config_file=config_file, port=port)


def _records(folder: Path) -> bytes:
    """All batches of a log; where segments end is each broker's own business."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def _until(what: str, condition: Any) -> None:
    assert wait_until(condition, 2 * PATIENCE_SECONDS), what


def _produce(mixed: Mixed, topic: str, count: int, **settings: Any) -> None:
    producer = mixed.producer(**settings)
    failures: list[Any] = []
    for number in range(count):
        producer.produce(
            topic,
            value=b"%d " % number * (number % 40),
            key=b"k%d" % (number % 30),
            partition=number % 2,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        if number % 25 == 0:
            producer.poll(0.01)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert failures == []


def _check_equal(mixed: Mixed, topic: str) -> None:
    for partition in (LED_BY_JVM, LED_BY_KAA):
        one, other = mixed.folders(topic, partition)
        _until(
            f"the replicas of {topic}-{partition} differ",
            lambda one=one, other=other: _records(one) == _records(other),
        )
        assert len(_records(one)) > 0


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_replicas_are_equal_in_both_directions(mixed: Mixed, codec: str) -> None:
    topic = f"equal-{codec}"
    mixed.create(topic)
    _produce(mixed, topic, 2_000, compression_type=codec)
    _check_equal(mixed, topic)
    assert mixed.in_sync(topic)


def test_transactions_are_copied_with_their_markers(mixed: Mixed) -> None:
    mixed.create("transactions")
    producer = mixed.producer(transactional_id="mixed")
    ends = time.monotonic() + 2 * PATIENCE_SECONDS
    while True:
        try:
            producer.init_transactions(10)
            break
        except KafkaException:
            assert time.monotonic() < ends
    for number in range(20):
        producer.begin_transaction()
        for partition in (LED_BY_JVM, LED_BY_KAA):
            producer.produce("transactions", value=b"%d" % number, partition=partition)
        # What was not sent yet would not be there to be aborted.
        producer.flush(PATIENCE_SECONDS)
        if number % 3:
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.abort_transaction(PATIENCE_SECONDS)
    _check_equal(mixed, "transactions")
    for partition in (LED_BY_JVM, LED_BY_KAA):
        one, other = mixed.folders("transactions", partition)
        (index,) = one.glob("*.txnindex")
        (copied,) = other.glob("*.txnindex")
        assert index.read_bytes().rstrip(b"\0") == copied.read_bytes().rstrip(b"\0")


def test_deleted_records_are_gone_everywhere(mixed: Mixed) -> None:
    mixed.create("deleted")
    _produce(mixed, "deleted", 400)
    wanted = [TopicPartition("deleted", partition, 150) for partition in (0, 1)]
    admin = mixed.admin
    for deleted in admin.delete_records(wanted).values():
        # The answer waits for the other replica.
        assert deleted.result(PATIENCE_SECONDS).low_watermark == 150


def test_a_queue_goes_from_one_system_to_the_other_and_back(mixed: Mixed) -> None:
    """The JVM's broker goes on with share state that Kaa wrote, and Kaa with what it finds then."""

    async def story(workers: Workers) -> None:
        topic = KaaTopic(TOPIC, assignments={LED_BY_JVM: (JVM, KAA), LED_BY_KAA: (KAA, JVM)})
        await prepare(mixed.bootstrap_servers, topic, RECORDS // 2)
        async with working(workers):
            await workers.has_ended(RECORDS // 4)
            await asyncio.to_thread(mixed.kaa.kill)
            await workers.has_ended(RECORDS * 3 // 8)
            await asyncio.to_thread(mixed.kaa.start)
            await asyncio.to_thread(_until, "Kaa does not lead", lambda: mixed.in_sync(TOPIC))
            await fill(mixed.bootstrap_servers, range(RECORDS // 2, RECORDS))

    workers = Workers(mixed.bootstrap_servers, Random(1))
    asyncio.run(story(workers))
    check(workers)
    mixed.kaa.check_health()


def test_a_broker_that_was_killed_catches_up_and_leads_again(mixed: Mixed) -> None:
    mixed.create("killed", min_insync_replicas="1")
    _produce(mixed, "killed", 500)
    mixed.kaa.kill()
    _produce(mixed, "killed", 500)
    mixed.kaa.start()
    _until("the replicas are not in sync again", lambda: mixed.in_sync("killed"))
    _produce(mixed, "killed", 500)
    _check_equal(mixed, "killed")
    for partition in (LED_BY_JVM, LED_BY_KAA):
        epochs = [
            (folder / "leader-epoch-checkpoint").read_text()
            for folder in mixed.folders("killed", partition)
            if (folder / "leader-epoch-checkpoint").exists()
        ]
        assert epochs
    mixed.kaa.check_health()
