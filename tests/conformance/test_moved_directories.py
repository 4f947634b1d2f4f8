"""Replicas that move between directories of a node that is Kaa and Apache Kafka by turns.

Either one finishes what the other has begun, and serves what the other has moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaa.client.admin.configs import ConfigChange, ConfigOperation
from kaa.client.sync import Admin
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition
from tests.clients.librdkafka import consume, create_topic, produce
from tests.clients.samples import SAMPLES
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.real_node import RealNode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle import Oracle

pytestmark = pytest.mark.oracle
KEY = TopicPartition("moved", 0)
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
SECONDS_MAX = 120
BATCHES = 40


def places(admin: Admin) -> dict[bool, str]:
    """The directory of the replica, and of the one that is to take its place (by True)."""
    return {
        replica.is_future: found.path
        for found in admin.describe_log_dirs()
        for replica in found.replicas
        if replica.partition == KEY
    }


def begin_move(bootstrap: str, paths: list[str]) -> str:
    """Begins a move that does not end by itself; the target."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        throttle(admin, "1")
        source = places(admin)[False]
        target = next(path for path in paths if path != source)
        assert admin.alter_replica_log_dirs({(1, KEY): target}) == {(1, KEY): None}
        assert places(admin) == {False: source, True: target}
    return target


def throttle(admin: Admin, rate: str | None) -> None:
    operation = ConfigOperation.DELETE if rate is None else ConfigOperation.SET
    admin.alter_configs(ResourceType.BROKER, "1", [ConfigChange(THROTTLE, rate, operation)])


def finish_move(bootstrap: str, target: str, count: int) -> None:
    """The move goes on by itself, and what was written is there."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        throttle(admin, None)
        assert wait_until(lambda: places(admin) == {False: target}, SECONDS_MAX), places(admin)
    found = consume(bootstrap, KEY.topic, count * len(SAMPLES))
    assert [message.value() for message in found] == [sample.value for sample in SAMPLES] * count


def test_move_is_finished_by_the_other_one(oracle: Oracle, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    dirs = ",".join(paths)
    with BrokerProcess(tmp_path / "node", f"log.dirs={dirs}") as ours:
        create_topic(ours.bootstrap_servers, KEY.topic)
        for _ in range(BATCHES):
            produce(ours.bootstrap_servers, KEY.topic, SAMPLES)
        target = begin_move(ours.bootstrap_servers, paths)
        ours.stop()
    with RealNode(tmp_path / "jvm", tmp_path / "one", log_dirs=dirs) as kafka:
        finish_move(kafka.bootstrap_servers, target, BATCHES)
        produce(kafka.bootstrap_servers, KEY.topic, SAMPLES)
        target = begin_move(kafka.bootstrap_servers, paths)
    with ours:
        finish_move(ours.bootstrap_servers, target, BATCHES + 1)
        ours.stop()
    folders = [name.name for path in paths for name in (tmp_path / path).glob("moved-0*")]
    assert [name for name in folders if not name.endswith("-delete")] == [KEY.topic + "-0"]
