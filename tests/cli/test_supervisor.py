from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kaa.cli.supervisor import format_cluster, plan_cluster
from kaa.log.files import RealFiles
from kaa.log.properties import read_meta_properties
from tests.support.broker_process import kaa_command
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import free_cluster_port


def test_the_plan_of_three(tmp_path: Path) -> None:
    plans = plan_cluster(tmp_path, 3, 9092, ["log.retention.hours=1"])
    assert [(plan.node_id, plan.port, plan.controller_port) for plan in plans] == [
        (1, 9092, 19092),
        (2, 9093, 19093),
        (3, 9094, 19094),
    ]
    assert len({plan.folder for plan in plans}) == 3
    assert all("log.retention.hours=1" in plan.overrides for plan in plans)
    assert "default.replication.factor=3" in plans[0].overrides
    assert "default.replication.factor=1" in plan_cluster(tmp_path, 1, 1)[0].overrides


def test_nodes_are_formatted_once_and_as_one_cluster(tmp_path: Path) -> None:
    plans = plan_cluster(tmp_path, 3, 9092)
    assert format_cluster(plans, 0)
    assert not format_cluster(plans, 0)
    found = [read_meta_properties(RealFiles(), str(plan.folder)) for plan in plans]
    assert len({each.cluster_id for each in found if each is not None}) == 1
    assert len({each.directory_id for each in found if each is not None}) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_three_brokers_in_one_command(tmp_path: Path) -> None:
    port = free_cluster_port(3)
    process = subprocess.Popen(
        kaa_command("dev", "--brokers", "3", "--port", str(port), "--rate", "50"),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    lines: list[str] = []
    try:
        assert process.stderr is not None
        while not any(line.startswith("try") for line in lines):
            line = process.stderr.readline()
            assert line, lines
            lines.append(line)
        ready = [line for line in lines if "| ready" in line]
        assert sorted(line[0] for line in ready) == ["1", "2", "3"]
        assert any(line.startswith("cluster    3 nodes") for line in lines)
        # One that is paused is not waited for until somebody lets it go on.
        nodes = [one for one in psutil.Process(process.pid).children() if "broker" in one.cmdline()]
        assert len(nodes) == 3
        nodes[1].suspend()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(PATIENCE_SECONDS) == 0, rest
        assert rest.endswith("stopped\n")
    finally:
        process.kill()
        process.communicate()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_nodes_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    port = free_cluster_port(2)
    process = subprocess.Popen(
        kaa_command("dev", "--brokers", "2", "--port", str(port), "--data-dir", str(tmp_path)),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines: list[str] = []
        while sum("| ready" in line for line in lines) < 2:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
    finally:
        process.kill()
        process.communicate()
    deadline = time.monotonic() + PATIENCE_SECONDS
    listening = {plan.port for plan in plan_cluster(tmp_path, 2, port)}
    while listening:
        assert time.monotonic() < deadline, f"still there: {listening}"
        time.sleep(0.1)  # noqa: TID251  Nobody tells of processes of others that end.
        listening = {each for each in listening if is_listening(each)}


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
