"""A disk that is full, or fails, takes its directory offline and nothing else.

The node has two directories. When one of them fails, the partitions there answer with Kafka's
error, those of the other one go on, and after a restart on a healthy disk everything that was
acknowledged is there.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.clients.librdkafka import Delivery, consume, create_topic, send
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "records"
PARTITIONS = 6
SECONDS_MAX = 30
WRITES = ("pwritev", "pwrite")
SYNCS = ("fsync", "fdatasync")


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
    assert producer.flush(SECONDS_MAX) == 0
    return deliveries


@pytest.mark.parametrize(
    ("functions", "code", "configs"),
    [
        pytest.param(WRITES, errno.ENOSPC, {}, id="full"),
        pytest.param(WRITES, errno.EIO, {}, id="write fails"),
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
        on_bad = {int(path.name.rpartition("-")[2]) for path in node.bad.glob(f"{TOPIC}-*")}
        assert 0 < len(on_bad) < PARTITIONS
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
