"""Kafka's tools that show log directories and move replicas between them."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import SAMPLES
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle import Oracle

pytestmark = pytest.mark.oracle
SECONDS_MAX = 60


class Node:
    """A node with two log directories, and Kafka's tools for it."""

    def __init__(self, oracle: Oracle, broker: BrokerProcess, folder: Path) -> None:
        self.oracle = oracle
        self.broker = broker
        self.folder = folder

    def run(self, name: str, *arguments: str) -> str:
        done = self.oracle.run_tool(
            name, "--bootstrap-server", self.broker.bootstrap_servers, *arguments
        )
        assert done.code == 0, done.out + done.err
        return done.out

    def replicas(self, topic: str) -> dict[str, list[dict[str, Any]]]:
        """By directory the replicas of the topic, as kafka-log-dirs shows them."""
        text = self.run("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1]
        (broker,) = json.loads(text)["brokers"]
        return {found["logDir"]: found["partitions"] for found in broker["logDirs"]}

    def reassign(self, plan: Path, *arguments: str) -> str:
        return self.run(
            "ReassignPartitionsCommand", "--reassignment-json-file", str(plan), *arguments
        )


@pytest.fixture(scope="module")
def node(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("disks")
    with two_disks(folder) as broker:
        yield Node(oracle, broker, folder)


@contextmanager
def two_disks(folder: Path) -> Iterator[BrokerProcess]:
    paths = f"{folder / 'one'},{folder / 'two'}"
    with BrokerProcess(folder / "node", f"log.dirs={paths}") as broker:
        yield broker


def plan_of(node: Node, topic: str, path: str) -> Path:
    found = node.folder / f"{topic}.json"
    partition = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [path]}
    found.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return found


def test_reassignment_between_directories_is_executed_and_verified(node: Node, topic: str) -> None:
    create_topic(node.broker.bootstrap_servers, topic)
    produce(node.broker.bootstrap_servers, topic, SAMPLES)
    before = node.replicas(topic)
    source = next(path for path, found in before.items() if found)
    target = next(path for path in before if path != source)
    size = before[source][0]["size"]
    plan = plan_of(node, topic, target)
    executed = node.reassign(plan, "--execute")
    assert f"to {target} for replica {topic}-0 with broker 1" in executed
    deadline = time.monotonic() + SECONDS_MAX
    while not node.replicas(topic)[target] or node.replicas(topic)[source]:
        assert time.monotonic() < deadline
    (moved,) = node.replicas(topic)[target]
    assert (moved["size"], moved["offsetLag"], moved["isFuture"]) == (size, 0, False)
    verified = node.reassign(plan, "--verify")
    assert f"Reassignment of replica {topic}-0-1 completed successfully." in verified


def test_move_is_throttled_and_cancelled(node: Node, topic: str) -> None:
    create_topic(node.broker.bootstrap_servers, topic)
    produce(node.broker.bootstrap_servers, topic, SAMPLES)
    source = next(path for path, found in node.replicas(topic).items() if found)
    target = next(path for path in node.replicas(topic) if path != source)
    plan = plan_of(node, topic, target)
    node.reassign(plan, "--execute", "--replica-alter-log-dirs-throttle", "1")
    (moving,) = node.replicas(topic)[target]
    assert moving["isFuture"]
    assert "is still in progress" in node.reassign(plan, "--verify", "--preserve-throttles")
    node.reassign(plan, "--cancel")
    assert node.replicas(topic)[target] == []
    assert len(node.replicas(topic)[source]) == 1
