from __future__ import annotations

import os
from pathlib import Path

import pytest

from kaa.testing import Broker
from kaa.testing.process_node import ForeignCluster, ProcessNode


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
        for refused in (lambda: broker.on("Fetch"), lambda: broker.cap_versions({})):
            with pytest.raises(RuntimeError, match="inside this"):
                refused()
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_cannot_start_says_why() -> None:
    node = ProcessNode(["num.partitions=0"])
    with pytest.raises(RuntimeError, match=r"did not start[\s\S]*num\.partitions"):
        node.launch().result(20)
    assert not node.is_running
    node.clean_up()


def test_a_child_belongs_to_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    node = ProcessNode([])
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
