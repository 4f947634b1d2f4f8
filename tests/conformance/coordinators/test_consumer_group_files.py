"""One data directory with a consumer group, served by turns by Kaa and by a real Kafka node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.librdkafka import consumer, create_topic, produce
from tests.clients.samples import SAMPLES
from tests.oracle import Oracle
from tests.support.broker_process import BrokerProcess
from tests.support.real_node import RealNode

pytestmark = pytest.mark.oracle


def group_state(oracle: Oracle, bootstrap: str) -> list[list[str]]:
    """Epochs, assignments and positions of the group, as Kafka's tool shows them."""
    found = []
    for what in (("--state", "--verbose"), ("--members", "--verbose"), ()):
        done = oracle.run_tool(
            "ConsumerGroupCommand",
            *("--bootstrap-server", bootstrap, "--describe", "--group", "readers", *what),
        )
        assert done.code == 0, done.err
        lines = [line.split() for line in done.out.splitlines() if line.startswith("readers")]
        # Addresses differ from broker to broker.
        found += [[word for word in line if not word.startswith("127.0.0.1")] for line in lines]
    return found


def static_reader(bootstrap: str, count: int) -> None:
    """A static member reads so many records, commits, and leaves for a moment."""
    settings = {
        "group_id": "readers",
        "group_protocol": "consumer",
        "group_instance_id": "one",
        "auto_offset_reset": "earliest",
    }
    with consumer(bootstrap, **settings) as reader:
        reader.subscribe(["plain"])
        for _ in range(count):
            message = None
            while message is None or message.error():
                message = reader.poll(1.0)
        reader.commit(asynchronous=False)


def test_consumer_groups_go_from_one_to_the_other(oracle: Oracle, tmp_path: Path) -> None:
    """A static member of a consumer group finds its epoch, its partitions and its position."""
    data_dir = tmp_path / "node" / "data"
    with BrokerProcess(tmp_path / "node") as ours:
        create_topic(ours.bootstrap_servers, "plain", partitions=2)
        produce(ours.bootstrap_servers, "plain", SAMPLES)
        static_reader(ours.bootstrap_servers, 3)
        before = group_state(oracle, ours.bootstrap_servers)
        ours.stop()
    assert any("Stable" in line or "Reconciling" in line for line in before)
    with RealNode(tmp_path / "jvm", data_dir) as kafka:
        assert group_state(oracle, kafka.bootstrap_servers) == before
        static_reader(kafka.bootstrap_servers, 2)
        between = group_state(oracle, kafka.bootstrap_servers)
    with ours:
        assert group_state(oracle, ours.bootstrap_servers) == between
        static_reader(ours.bootstrap_servers, 1)
        ours.stop()
