"""Kafka Connect in distributed mode: a file goes through a topic into another file.

Connect keeps its settings, offsets and states in compacted topics of the node, and its workers form
a group with a protocol of their own. The worker and the node are killed on the way.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.environment import wait_until
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exactly_once.java import Java, Program
    from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

CONNECT = "org.apache.kafka.connect.cli.ConnectDistributed"
LINES = 500
START_SECONDS_MAX = 90


class Worker:
    """One worker, and its REST interface."""

    def __init__(self, java: Java, node: BrokerProcess, folder: Path) -> None:
        self._java = java
        self._address = f"http://{LOOPBACK}:{free_port()}"
        self._settings = folder / "connect.properties"
        internal = {
            f"{kind}.storage.{name}": value
            for kind in ("config", "offset", "status")
            for name, value in (("topic", f"connect-{kind}"), ("replication.factor", "1"))
        }
        settings = {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": "connect",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "listeners": self._address,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            "offset.storage.partitions": "2",
            "scheduled.rebalance.max.delay.ms": "1000",
            **internal,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self._settings.write_text(text)
        self.program: Program | None = None

    def start(self) -> None:
        self.program = self._java.run(CONNECT, str(self._settings))
        is_up = wait_until(lambda: self._answers("/connectors"), START_SECONDS_MAX)
        assert is_up, self.program.output[-3000:]

    def create(self, name: str, **settings: str) -> None:
        config = {key.replace("_", "."): value for key, value in settings.items()}
        self._call("/connectors", {"name": name, "config": config})

    def _answers(self, path: str) -> bool:
        try:
            self._call(path)
        except OSError:
            return False
        return True

    def _call(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self._address + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def test_file_to_file(java: Java, node: BrokerProcess, tmp_path: Path) -> None:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    lines = [f"line {number}" for number in range(LINES)]
    source.write_text("".join(f"{line}\n" for line in lines[: LINES // 2]))
    worker = Worker(java, node, tmp_path)
    worker.start()
    package = "org.apache.kafka.connect.file"
    worker.create(
        "source",
        connector_class=f"{package}.FileStreamSourceConnector",
        tasks_max="1",
        topic="lines",
        file=str(source),
    )
    worker.create(
        "sink",
        connector_class=f"{package}.FileStreamSinkConnector",
        tasks_max="1",
        topics="lines",
        file=str(target),
        consumer_override_auto_offset_reset="earliest",
    )

    def has_arrived(count: int) -> bool:
        return target.exists() and set(target.read_text().splitlines()) >= set(lines[:count])

    assert wait_until(lambda: has_arrived(LINES // 2), 60), worker.program
    node.kill()
    node.start()
    assert worker.program is not None
    worker.program.kill()
    with source.open("a") as more:
        more.writelines(f"{line}\n" for line in lines[LINES // 2 :])
    worker.start()
    assert wait_until(lambda: has_arrived(LINES), 90), worker.program.output[-3000:]
    worker.program.stop()
    node.check_health()
