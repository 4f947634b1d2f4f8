"""Starts the two nodes with the same settings."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.differential.peers import Peer
from tests.oracle.broker import RealKafka, node_properties
from tests.oracle.plugin import run_folder
from tests.support.broker_process import BrokerProcess, kaa_command
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    properties = node_properties(data, port, controller_port)
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
