"""A disk that is full, or fails, takes its directory offline and nothing else.

The node has two directories. When one of them fails, the partitions there answer with Kafka's
error, those of the other one go on, and after a restart on a healthy disk everything that was
acknowledged is there.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from tests.clients.librdkafka import Delivery, consume, consumer, create_topic, send
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "records"
PARTITIONS = 6
WRITES = ("pwritev", "pwrite")
SYNCS = ("fsync", "fdatasync")
READS = ("pread", "preadv")
# Too much to be sent together with the head of its answer.
LARGE = bytes(200_000)


class Node(BrokerProcess):
    def __init__(self, folder: Path, functions: tuple[str, ...], code: int) -> None:
        self.bad = folder / "bad"
        self.bad.mkdir(parents=True)
        self.trigger = folder / "trigger"
        super().__init__(
            folder,
            f"log.dirs={folder / 'data'},{self.bad}",
            f"metadata.log.dir={folder / 'data'}",
        )
        hook = f"{str(self.bad)!r}, {functions!r}, {code}, {str(self.trigger)!r}"
        self.preamble = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            f"from tests.process.disk_hook import install; install({hook})"
        )


def produce_to_all(bootstrap: str, values: list[bytes], **settings: Any) -> list[list[Delivery]]:
    """Deliveries by partition."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "message.timeout.ms": 4000,
            "log_level": 0,
            **settings,
        }
    )
    deliveries = [
        [
            send(producer, TOPIC, Sample(None, value, FIRST_TIMESTAMP_MS), partition)
            for value in values
        ]
        for partition in range(PARTITIONS)
    ]
    assert producer.flush(PATIENCE_SECONDS) == 0
    return deliveries


@pytest.mark.parametrize(
    ("functions", "code", "configs"),
    [
        pytest.param(WRITES, errno.ENOSPC, {}, id="full"),
        pytest.param(WRITES, errno.EIO, {}, id="write fails"),
        pytest.param(WRITES, errno.EROFS, {}, id="mounted read-only"),
        pytest.param(SYNCS, errno.EIO, {"flush_messages": 1}, id="sync fails"),
    ],
)
def test_a_directory_goes_offline_alone(
    functions: tuple[str, ...], code: int, configs: dict[str, int], tmp_path: Path
) -> None:
    with Node(tmp_path / "node", functions, code) as node:
        create_topic(node.bootstrap_servers, TOPIC, PARTITIONS, **configs)
        before = produce_to_all(node.bootstrap_servers, [b"before"])
        assert all(one.offset == 0 for (one,) in before)
        on_bad = partitions_on_bad(node)
        node.trigger.touch()
        during = produce_to_all(node.bootstrap_servers, [b"during"])
        for partition, (one,) in enumerate(during):
            if partition in on_bad:
                assert one.offset is None
                assert one.error.code() in {
                    KafkaError.KAFKA_STORAGE_ERROR,
                    KafkaError._MSG_TIMED_OUT,
                }
            else:
                assert one.offset == 1, one.error
        assert str(node.bad) in node.output
        node.kill()
        node.trigger.unlink()
        node.start()
        for partition in range(PARTITIONS):
            expected = [b"before"] if partition in on_bad else [b"before", b"during"]
            found = consume(node.bootstrap_servers, TOPIC, len(expected), partition=partition)
            assert [message.value() for message in found] == expected
        after = produce_to_all(node.bootstrap_servers, [b"after"])
        assert all(one.offset is not None for (one,) in after)


@pytest.mark.parametrize("functions", [("sendfile",), READS], ids=["sendfile", "read"])
def test_a_directory_that_cannot_be_read_goes_offline_alone(
    functions: tuple[str, ...], tmp_path: Path
) -> None:
    with Node(tmp_path / "node", functions, errno.EIO) as node:
        create_topic(node.bootstrap_servers, TOPIC, PARTITIONS)
        assert all(one.offset == 0 for (one,) in produce_to_all(node.bootstrap_servers, [LARGE]))
        on_bad = partitions_on_bad(node)
        # Nothing of the logs is in memory then.
        node.kill()
        node.start()
        node.trigger.touch()
        with consumer(node.bootstrap_servers) as reader:
            reader.assign([TopicPartition(TOPIC, partition, 0) for partition in on_bad])
            deadline = time.monotonic() + PATIENCE_SECONDS
            while f"{node.bad} is offline" not in node.output:
                assert time.monotonic() < deadline, node.output
                message = reader.poll(0.2)
                assert message is None or message.error() is not None
        for partition in set(range(PARTITIONS)) - on_bad:
            (found,) = consume(node.bootstrap_servers, TOPIC, 1, partition=partition)
            assert found.value() == LARGE
        assert node.process is not None
        served = psutil.Process(node.process.pid)
        bad = f"{node.bad}/"
        # A client that reads keeps what it reads until its answer is sent.
        while left := [one.path for one in served.open_files() if one.path.startswith(bad)]:
            assert time.monotonic() < deadline, left
        node.kill()
        node.trigger.unlink()
        node.start()
        for partition in range(PARTITIONS):
            (found,) = consume(node.bootstrap_servers, TOPIC, 1, partition=partition)
            assert found.value() == LARGE


def partitions_on_bad(node: Node) -> set[int]:
    found = {int(path.name.rpartition("-")[2]) for path in node.bad.glob(f"{TOPIC}-*")}
    assert 0 < len(found) < PARTITIONS
    return found
