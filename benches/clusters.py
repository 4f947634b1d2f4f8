"""Three nodes of one system on this machine, each a process, broker and voter both.

The settings are the same for both systems, on top of their defaults, and so are the client and the
questions: a node is there when an answer to Metadata names all brokers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Self

import psutil

from benches.brokers import CLUSTER_ID, KAA, KAFKA, METADATA_VERSION, KaaNode, KafkaNode
from kaa.client.sync import Admin
from kaa.wire.messages.k03_metadata import MetadataRequest
from tests.support.ports import LOOPBACK, free_port
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benches.brokers import BrokerNode

COUNT: Final = 3
BOTH_ROLES: Final = "broker,controller"
WAIT_SECONDS_MAX: Final = 300.0
SETTINGS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


class _KaaMember(KaaNode):
    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program, "broker", "start", str(self.properties_file)]

    def format(self) -> None:
        words = ["storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties_file)]
        subprocess.run(
            [sys.executable, "-c", "from kaa.cli import main; main()", *words],
            check=True,
            capture_output=True,
        )


class _KafkaMember(KafkaNode):
    def format(self) -> None:
        words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        subprocess.run(
            self.java("128M", *words, "-c", str(self.properties_file)),
            check=True,
            capture_output=True,
        )


_MEMBERS: Final[dict[str, type[_KaaMember | _KafkaMember]]] = {KAA: _KaaMember, KAFKA: _KafkaMember}


class Cluster:
    """See the module's text. As a context it runs, and every process ends with it."""

    def __init__(self, side: str, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.side = side
        self.nodes: dict[int, _KaaMember | _KafkaMember] = {}
        self._folder = folder
        self._settings = SETTINGS | (settings or {})
        self._controllers = {node_id: free_port() for node_id in range(1, COUNT + 1)}
        for node_id in self._controllers:
            self.add(node_id, BOTH_ROLES)

    def add(self, node_id: int, roles: str) -> BrokerNode:
        """Formats one more node; only those that were there at first vote."""
        node = _MEMBERS[self.side](self._folder / f"{self.side}-{node_id}", self._settings)
        client = f"PLAINTEXT://{node.bootstrap_servers}"
        voters = (f"{each}@{LOOPBACK}:{port}" for each, port in self._controllers.items())
        own = (
            f",CONTROLLER://{LOOPBACK}:{self._controllers[node_id]}" if roles == BOTH_ROLES else ""
        )
        properties = {
            **node.settings,
            "node.id": str(node_id),
            "process.roles": roles,
            "controller.quorum.voters": ",".join(voters),
            "listeners": client + own,
            "advertised.listeners": client,
            "log.dirs": str(node.data_dir),
        }
        lines = (f"{key}={text}\n" for key, text in properties.items())
        node.properties_file.write_text("".join(lines))
        node.format()
        self.nodes[node_id] = node
        return node

    def __enter__(self) -> Self:
        try:
            self.start(*self.nodes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for node in self.nodes.values():
            node.kill()

    def start(self, *node_ids: int) -> float:
        """Starts nodes together, since none of them has a majority; the seconds until all of them
        know all brokers.
        """
        began = time.monotonic()
        with ThreadPoolExecutor(len(node_ids)) as threads:
            list(threads.map(lambda node_id: self.nodes[node_id].start(), node_ids))
        running = [node for node in self.nodes.values() if node.is_running]
        wait_until(lambda: all(_broker_count(node) == len(running) for node in running))
        return time.monotonic() - began

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values() if node.is_running)

    def admin(self) -> Admin:
        return Admin({"bootstrap.servers": self.bootstrap_servers})

    def processor_seconds(self) -> float:
        """Of all nodes that run, since their starts."""
        return sum(self.processor_seconds_by_node().values())

    def processor_seconds_by_node(self) -> dict[int, float]:
        return {each: float(sum(one.cpu_times()[:2])) for each, one in self._processes()}

    def memory_mib(self) -> float:
        """What the nodes that run have in memory, together."""
        return sum(self.memory_mib_by_node().values())

    def memory_mib_by_node(self) -> dict[int, float]:
        return {each: float(one.memory_info().rss / 2**20) for each, one in self._processes()}

    def _processes(self) -> list[tuple[int, psutil.Process]]:
        running = ((each, node) for each, node in self.nodes.items() if node.is_running)
        return [(each, psutil.Process(node.pid)) for each, node in running]


def _broker_count(node: BrokerNode) -> int:
    try:
        with RawClient(node.bootstrap_servers) as client:
            client.socket.settimeout(5)
            return len(client.ask(MetadataRequest(topics=[]), METADATA_VERSION).brokers)
    except (OSError, EOFError):
        return 0


def wait_until(condition: Callable[[], bool]) -> None:
    """Looks every few milliseconds; the clock of a benchmark runs meanwhile."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < WAIT_SECONDS_MAX, "it does not come"
        time.sleep(0.01)
