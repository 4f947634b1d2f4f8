"""A cluster as users run it: a process for each node, all in both roles, on fixed ports."""

from __future__ import annotations

import signal
from random import Random
from typing import TYPE_CHECKING, Self

from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.files import RealFiles
from kaa.wire.primitives import Uuid, random_uuid
from tests.oracle.environment import wait_until
from tests.support.broker_process import KEEPS_RECORDS, START_SECONDS_MAX, BrokerProcess
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CLUSTER_ID = "three-processes-kaa-AA"
# Short times, so that a failover does not take a test's patience.
SETTINGS = (
    KEEPS_RECORDS,
    "controller.listener.names=CONTROLLER",
    "controller.quorum.election.timeout.ms=1000",
    "controller.quorum.fetch.timeout.ms=2000",
    "broker.heartbeat.interval.ms=300",
    "broker.session.timeout.ms=3000",
    "replica.lag.time.max.ms=5000",
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "offsets.topic.replication.factor=3",
    "offsets.topic.num.partitions=5",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
    "transaction.state.log.num.partitions=5",
    "group.initial.rebalance.delay.ms=0",
)


class ClusterProcesses:
    """See the module's text. As a context it runs, and is killed at the end."""

    def __init__(self, folder: Path, *settings: str, count: int = 3) -> None:
        ids = range(1, count + 1)
        controllers = {node_id: free_port() for node_id in ids}
        voters = ",".join(f"{node_id}@{LOOPBACK}:{port}" for node_id, port in controllers.items())
        self.nodes: dict[int, BrokerProcess] = {}
        for node_id in ids:
            place = folder / str(node_id)
            place.mkdir(parents=True)
            port = free_port()
            config_file = place / "server.properties"
            controller = f"CONTROLLER://{LOOPBACK}:{controllers[node_id]}"
            listeners = f"PLAINTEXT://{LOOPBACK}:{port},{controller}"
            lines = (
                "process.roles=broker,controller",
                f"node.id={node_id}",
                f"listeners={listeners}",
                f"controller.quorum.voters={voters}",
                f"log.dirs={place / 'data'}",
                *SETTINGS,
                *settings,
            )
            config_file.write_text("\n".join(lines))
            self.nodes[node_id] = BrokerProcess(place, config_file=config_file, port=port)
            format_directory(str(place / "data"), node_id)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for node in self.nodes.values():
            node.kill()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    @property
    def ids(self) -> list[int]:
        return list(self.nodes)

    def address(self, node_id: int) -> str:
        return self.nodes[node_id].bootstrap_servers

    def start(self, *node_ids: int) -> None:
        """Starts nodes together; all of them if none is named."""
        started = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in started:
            node.launch()
        for node in started:
            _until_ready(node)

    def kill(self, node_id: int) -> None:
        self.nodes[node_id].kill()

    def pause(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGCONT)

    def _signal(self, node_id: int, number: signal.Signals) -> None:
        process = self.nodes[node_id].process
        assert process is not None
        process.send_signal(number)

    def check_health(self, node_ids: Iterable[int] = ()) -> None:
        for node_id in node_ids or self.nodes:
            self.nodes[node_id].check_health()


def _until_ready(node: BrokerProcess) -> None:
    process = node.process
    assert process is not None
    wait_until(lambda: "\nready " in node.output or process.poll() is not None, START_SECONDS_MAX)
    assert "\nready " in node.output, f"the node did not start:\n{node.output}"


def format_directory(directory: str, node_id: int) -> None:
    random = Random(node_id)
    request = FormatRequest(CLUSTER_ID, node_id, [directory], directory, is_quorum_dynamic=False)

    def new_id() -> Uuid:
        return random_uuid(random.randbytes)

    files = RealFiles()
    for _ in plan_format(files, request, new_id).run(files, 0, "formatted for a test"):
        pass
