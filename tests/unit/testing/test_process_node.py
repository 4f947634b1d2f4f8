from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kaa import limits
from kaa.testing import Broker
from kaa.testing.process_node import ForeignCluster, ProcessNode
from kaa.testing.remote import RemoteFaults


def test_a_child_serves_survives_a_kill_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "0")
    with Broker(process=True, overrides={"num.partitions": 2}) as broker:
        topic = broker.topic("orders", partitions=-1)
        topic.seed(["a", "b"])
        address = broker.bootstrap_servers
        broker.kill()
        broker.restart()
        assert broker.bootstrap_servers == address
        topic.expect(["a", "b"])
        assert len(list(tmp_path.iterdir())) == 1
        assert any(line.startswith("ready ") for line in broker.reports)
        pids = [broker.pid]
    pids.append(broker.pid)
    assert pids[0] not in {None, os.getpid()}
    assert pids[1] is None
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_was_paused_by_a_signal_stops_at_once() -> None:
    with Broker(process=True) as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        began = time.monotonic()
    assert time.monotonic() - began < limits.TESTING_STOP_SECONDS_MAX


def test_rules_and_time_outlive_a_real_kill() -> None:
    with Broker(process=True) as broker:
        topic = broker.topic("orders")
        twice = broker.on("Produce").fail("INVALID_RECORD", times=2)
        observed = broker.on("Produce").observe()
        assert produce(broker, topic.name) == "INVALID_RECORD"
        assert twice.count == 1
        broker.clock.advance(days=1)
        broker.kill()
        assert (twice.count, twice.has_ended) == (1, False)
        assert broker.requests == []
        broker.restart()
        assert broker.clock.wall_ms() > (time.time() + 80_000) * 1000
        assert produce(broker, topic.name) == "INVALID_RECORD"
        assert produce(broker, topic.name) is None
        assert twice.has_ended
        assert observed.count == len(observed.requests) == 3
        assert sum(line.startswith("Produce") for line in broker.requests) == 2


def produce(broker: Broker, topic: str) -> str | None:
    """Writes a record that the time of the broker allows; the error, if there is one."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    errors: list[Any] = []
    timestamp_ms = broker.clock.wall_ms()
    producer.produce(topic, "a", timestamp=timestamp_ms, on_delivery=lambda e, _: errors.append(e))
    assert producer.flush(20) == 0
    return None if errors[0] is None else str(errors[0].name())


def test_a_cluster_of_somebody_else_takes_no_rules() -> None:
    broker = Broker(bootstrap_servers="127.0.0.1:1")
    for refused in (
        lambda: broker.on("Fetch"),
        lambda: broker.cap_versions({}),
        lambda: broker.clock,
        broker.kill,
    ):
        with pytest.raises(RuntimeError, match="an external cluster"):
            refused()
    assert broker.pid is None


def test_a_child_that_cannot_start_says_why() -> None:
    node = ProcessNode(["num.partitions=0"], RemoteFaults())
    with pytest.raises(RuntimeError, match=r"did not start[\s\S]*num\.partitions"):
        node.launch().result(20)
    assert not node.is_running
    node.clean_up()


def test_a_child_belongs_to_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    node = ProcessNode([], RemoteFaults())
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(RuntimeError, match="belongs"):
        node.launch()
    node.launch_stop().result(20)
    node.kill()
    node.clean_up()


def test_a_foreign_cluster_is_there_already() -> None:
    cluster = ForeignCluster("host:9092")
    assert cluster.launch().done()
    assert cluster.launch_stop().done()
    cluster.join()
    assert cluster.is_running
    assert cluster.bootstrap_servers == "host:9092"
