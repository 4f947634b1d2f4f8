"""Starts the two nodes with the same settings."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.differential.peers import Peer
from tests.oracle.broker import RealKafka
from tests.oracle.plugin import run_folder
from tests.support.broker_process import BrokerProcess, kaa_command
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODE_ID = 1
CLUSTER_ID = "differential-AAAAAAAAA"


@contextmanager
def kafka_peer() -> Iterator[Peer]:
    """A real Kafka of this worker's own: some requests leave traces."""
    name = f"differential-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    with RealKafka(run_folder(), name) as real:
        peer = Peer("Kafka", real.bootstrap_servers, real.controller, str(real.log_dir))
        try:
            yield peer
        finally:
            peer.close()


@contextmanager
def kaa_peer(folder: Path) -> Iterator[Peer]:
    """Kaa with the settings of that Kafka, in a process of its own."""
    port, controller_port = free_port(), free_port()
    data = folder / "data"
    properties = {
        "node.id": str(NODE_ID),
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # Tests write records that are years old, and are not to lose them by chance.
        "log.retention.check.interval.ms": "86400000",
        "log.cleaner.dedupe.buffer.size": "8388608",
    }
    config_file = folder / "server.properties"
    config_file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    subprocess.run(
        kaa_command("storage", "format", "-t", CLUSTER_ID, "-c", str(config_file)),
        check=True,
        capture_output=True,
    )
    process = BrokerProcess(folder, config_file=config_file, port=port)
    with process:
        peer = Peer("Kaa", process.bootstrap_servers, f"{LOOPBACK}:{controller_port}", str(data))
        try:
            yield peer
            process.check_health()
        finally:
            peer.close()
