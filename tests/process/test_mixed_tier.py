"""A JVM broker with Kafka's LocalTieredStorage and a broker of Kaa share a directory and the topic
of its metadata: each reads what the other tiered, and goes on with it as leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.oracle.broker import RealKafka
from tests.oracle.maven import REMOTE_STORAGE
from tests.process.test_mixed import JVM, KAA, Mixed, kaa_broker
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.support.tiered import (
    EARLIEST,
    EARLIEST_LOCAL,
    QUICK,
    TIERED,
    fill,
    offset_of,
    read,
    until,
    value,
    wait_until_tiered,
)

pytestmark = pytest.mark.oracle

COUNT = 2_000
LOCAL = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    folder = tmp_path_factory.mktemp("tiered")
    settings = dict(setting.split("=", 1) for setting in QUICK) | {
        "remote.log.storage.manager.class.name": LOCAL,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.dir": str(folder / "tier"),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    }
    jvm = {name.replace(".", "_"): text for name, text in settings.items()}
    with RealKafka(
        folder, "mixed", REMOTE_STORAGE, log_initial_task_delay_ms="500", **jvm
    ) as kafka:
        lines = (f"{name}={text}" for name, text in settings.items())
        kaa = kaa_broker(folder / "kaa", kafka, *lines)
        kaa.start()
        try:
            yield Mixed(kafka, kaa)
        finally:
            kaa.kill()


def address_of(mixed: Mixed, broker: int) -> str:
    return (mixed.kafka if broker == JVM else mixed.kaa).bootstrap_servers


def move(mixed: Mixed, topic: str, broker: int) -> None:
    asked = ReassignablePartition(partition_index=0, replicas=[broker])
    topics = [ReassignableTopic(name=topic, partitions=[asked])]
    with RawClient(mixed.kafka.bootstrap_servers) as client:
        answer = client.ask(AlterPartitionReassignmentsRequest(topics=topics), 0)
    assert answer.error_code == answer.responses[0].partitions[0].error_code == 0, answer
    admin = mixed.admin

    def is_moved() -> bool:
        found = admin.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions[0]
        return (found.leader, found.isrs) == (broker, [broker])

    until(is_moved, f"{topic} is on {broker} alone")


@pytest.mark.parametrize(("first", "second"), [(JVM, KAA), (KAA, JVM)], ids=["to-kaa", "to-jvm"])
def test_each_reads_and_goes_on_with_what_the_other_tiered(
    mixed: Mixed, first: int, second: int
) -> None:
    topic, servers = f"from-{first}", mixed.bootstrap_servers
    new = NewTopic(topic, 1, replica_assignment=[[first]], config=TIERED)
    admin: AdminClient = mixed.admin
    for created in admin.create_topics([new]).values():
        created.result(PATIENCE_SECONDS)
    fill(servers, topic, COUNT)
    local = wait_until_tiered(address_of(mixed, first), topic)
    # The other broker has nothing of it: it begins after what is in the directory.
    move(mixed, topic, second)
    address = address_of(mixed, second)
    assert offset_of(address, topic, EARLIEST) == 0
    assert offset_of(address, topic, EARLIEST_LOCAL) >= local
    assert read(servers, topic, 0, COUNT) == [value(number) for number in range(COUNT)]
    for number in (0, 777, local - 1, local):
        assert offset_of(address, topic, 1_000 * number) == number
    fill(servers, topic, COUNT, COUNT)
    until(lambda: offset_of(address, topic, EARLIEST_LOCAL) > COUNT, "it is tiered on")
    assert read(servers, topic, 0, 2 * COUNT) == [value(number) for number in range(2 * COUNT)]
    # And home again.
    move(mixed, topic, first)
    assert read(servers, topic, 0, 2 * COUNT) == [value(number) for number in range(2 * COUNT)]
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(PATIENCE_SECONDS)
    tier: Path = mixed.kafka.log_dir.parents[1] / "tier" / "kafka-tiered-storage"
    until(lambda: not list(tier.glob(f"{topic}-0-*/*.log")), "the directory is cleared")
