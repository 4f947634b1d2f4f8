"""A broker that cannot report a directory that failed stops itself (`log.dir.failure.timeout.ms`).

Its controller takes the replicas there for well, and nobody else would lead them. Two nodes, of
which the second one has three directories. Two of them fail, one while the first node is there, and
one after that was killed: then the quorum has no majority, and nobody to report to.
"""

from __future__ import annotations

import errno
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kaa.client.admin.admin import NewTopic
from kaa.client.sync import Admin
from kaa.log.files import RealFiles
from kaa.log.properties import MetaProperties, write_meta_properties
from tests.clients.librdkafka import send
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.oracle.environment import wait_until
from tests.support.cluster_process import CLUSTER_ID, ClusterProcesses
from tests.support.ids import uuid
from tests.support.pace import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_MS = 1_500
PARTITIONS = 3
SETTINGS = (
    f"log.dir.failure.timeout.ms={TIMEOUT_MS}",
    # Directories fail when somebody writes to them, and not by themselves.
    "replica.high.watermark.checkpoint.interval.ms=600000",
)


def with_disks(cluster: ClusterProcesses) -> tuple[list[Path], Path]:
    """Gives the second node two more directories; they fail once the file is there."""
    node = cluster.nodes[2]
    disks = [node.folder / f"disk{number}" for number in range(2)]
    trigger = node.folder / "trigger"
    for number, disk in enumerate(disks):
        disk.mkdir()
        identity = MetaProperties(2, CLUSTER_ID, uuid(900 + number))
        write_meta_properties(RealFiles(), str(disk), identity, "test")
    paths = ",".join(map(str, [node.data_dir, *disks]))
    node.overrides = (f"log.dirs={paths}", f"metadata.log.dir={node.data_dir}")
    prefix = str(node.folder / "disk")
    hook = f"{prefix!r}, ('pwritev', 'pwrite'), {errno.EIO}, {str(trigger)!r}"
    node.preamble = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.process.disk_hook import install; install({hook})"
    )
    return disks, trigger


def test_a_broker_that_cannot_report_a_failed_directory_stops_itself(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, *SETTINGS, count=2)
    (reported, unreported), trigger = with_disks(cluster)
    node = cluster.nodes[2]
    with cluster:
        topic = NewTopic("t", assignments=dict.fromkeys(range(PARTITIONS), (2,)))
        with Admin({"bootstrap.servers": cluster.address(1)}) as admin:
            assert not any(admin.create_topics([topic]).values())
        folders = {disk: folder_on(disk) for disk in (reported, unreported)}
        trigger.touch()
        fail(node.bootstrap_servers, folders[reported])
        assert wait_until(lambda: f"{reported} is offline" in node.output, PATIENCE_SECONDS)
        # The controller knows: the time passes, and nothing happens.
        assert node.process is not None
        with pytest.raises(subprocess.TimeoutExpired):
            node.process.wait(1.5 * TIMEOUT_MS / 1000)
        node.check_health()
        cluster.kill(1)
        began = time.monotonic()
        fail(node.bootstrap_servers, folders[unreported])
        assert node.end() == 1
        assert time.monotonic() - began >= TIMEOUT_MS / 1000
        assert f"{unreported} is offline" in node.output
        (line,) = [line for line in node.output.splitlines() if "failure.timeout.ms" in line]
        assert "no controller could be informed" in line
        assert "Traceback" not in node.output


def folder_on(disk: Path) -> Path:
    """Of the one partition that is there."""
    assert wait_until(lambda: bool(list(disk.glob("t-*"))), PATIENCE_SECONDS)
    (folder,) = disk.glob("t-*")
    return folder


def fail(servers: str, folder: Path) -> None:
    """Has somebody write to a partition; what becomes of the record does not matter."""
    producer = Producer(
        {"bootstrap.servers": servers, "acks": 1, "message.timeout.ms": 1000, "log_level": 0}
    )
    number = int(folder.name.rpartition("-")[2])
    send(producer, "t", Sample(None, b"lost", FIRST_TIMESTAMP_MS), number)
    assert producer.flush(PATIENCE_SECONDS) == 0
