from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kaa.cli.dev import GROUP, _create
from kaa.cli.root import root
from kaa.cli.samples import CUSTOMERS, TOPICS
from kaa.cli.supervisor import CONTROLLER_PORT_DISTANCE, format_cluster, plan_cluster
from kaa.client.admin.admin import Admin, NewTopic
from kaa.log.files import RealFiles
from tests.support.broker_process import kaa_command
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import free_cluster_port


def kaa(*arguments: str) -> str:
    answer = CliRunner().invoke(root, list(arguments))
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_playground(tmp_path: Path) -> None:
    process = subprocess.Popen(
        kaa_command("dev", "--port", "0", "--rate", "200"),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert process.stderr is not None
        facts: dict[str, str] = {}
        while "try" not in facts:
            line = process.stderr.readline()
            assert line, facts
            name, _, rest = line.partition(" ")
            facts[name] = rest.strip()
        servers = ["-b", facts["plaintext"]]
        assert facts["topics"].split(", ") == [topic.name for topic in TOPICS]
        assert facts["try"] == f"kaa tail orders -b {facts['plaintext']}"
        assert kaa("topic", "list", "-o", "name", *servers).split() == sorted(
            topic.name for topic in TOPICS
        )
        assert len(kaa("consume", "customers", "-n", str(CUSTOMERS), *servers).splitlines())
        (order,) = kaa("tail", "orders", "-n", "1", "-o", "jsonl", *servers).splitlines()
        assert json.loads(json.loads(order)["value"])["id"].startswith("order-")
        # The group reads as soon as it has joined.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while GROUP not in kaa("group", "list", "-o", "name", *servers).split():
            assert time.monotonic() < deadline, "the group never joined"
        looks = kaa(
            "group", "watch", GROUP, "--interval", "0.5", "-n", "6", "-o", "jsonl", *servers
        )
        rows = [json.loads(line) for line in looks.splitlines()]
        assert any(row["read_rate"] for row in rows), rows
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert rest.endswith("stopped\n"), rest
    finally:
        process.kill()
        process.communicate()
    assert list(tmp_path.iterdir()) == []


def test_replicas_of_sample_topics_are_as_many_as_the_brokers_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[NewTopic] = []

    async def create(_: Admin, topics: list[NewTopic]) -> dict[str, Exception | None]:
        made.extend(topics)
        return {}

    monkeypatch.setattr(Admin, "create_topics", create)
    asyncio.run(_create({"bootstrap.servers": "127.0.0.1:1"}))
    assert {topic.replication_factor for topic in made} == {-1}


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = CliRunner().invoke(root, ["dev", "--port", str(port)])
    assert answer.exit_code == 1
    assert f"port {port} is not available: Address already in use" in answer.stderr
    assert f"kaa dev --port {port + 1}" in answer.stderr


def test_a_port_of_a_controller_that_is_taken() -> None:
    port = free_cluster_port(2)
    taken = port + CONTROLLER_PORT_DISTANCE + 1
    with socket.create_server(("127.0.0.1", taken)):
        answer = CliRunner().invoke(root, ["dev", "--brokers", "2", "--port", str(port)])
    assert answer.exit_code == 1
    assert f"port {taken} of a controller is not available" in answer.stderr
    assert "kaa dev --brokers N --port 19092" in answer.stderr


@pytest.mark.parametrize(("brokers", "shift"), [(2, 1), (3, 0)])
def test_a_kept_cluster_has_its_ports_and_its_nodes(
    tmp_path: Path, brokers: int, shift: int
) -> None:
    port = free_cluster_port(4)
    format_cluster(plan_cluster(tmp_path, 2, port), 0)
    words = ["dev", "--brokers", str(brokers), "--port", str(port + shift)]
    answer = CliRunner().invoke(root, [*words, "--data-dir", str(tmp_path)])
    assert answer.exit_code == 1
    made = f"--brokers 2 --port {port}"
    assert f"{tmp_path} keeps a cluster that was made with {made}" in answer.stderr
    assert f"kaa dev {made}" in answer.stderr


def test_a_cluster_that_runs_is_left_alone(tmp_path: Path) -> None:
    """A look at its metadata log recovers it, which removes what the node there is writing."""
    port = free_cluster_port(4)
    plans = plan_cluster(tmp_path, 2, port)
    format_cluster(plans, 0)
    parts = [
        plan.folder / "__cluster_metadata-0" / "00000000000000000099-0000000001.checkpoint.part"
        for plan in plans
    ]
    for part in parts:
        part.write_bytes(b"")
    words = ["dev", "--brokers", "2", "--port", str(port + 1), "--data-dir", str(tmp_path)]
    for plan in plans:
        lock = RealFiles().lock(str(plan.folder / ".lock"))
        answer = CliRunner().invoke(root, words)
        lock.release()
        assert answer.exit_code == 1
        assert f"{plan.folder} is in use by another process" in answer.stderr
        assert all(part.exists() for part in parts)


def refused(folder: Path, port: int) -> str:
    words = ["dev", "--brokers", "2", "--port", str(port), "--data-dir", str(folder)]
    answer = CliRunner().invoke(root, words)
    assert answer.exit_code == 1
    assert isinstance(answer.exception, SystemExit), answer.exception
    return answer.stderr


def test_what_stands_in_the_place_of_a_kept_cluster(tmp_path: Path) -> None:
    port = free_cluster_port(2)
    (tmp_path / "node-1").write_bytes(b"")
    assert "move the file that is in the place of a directory away" in refused(tmp_path, port)
    (tmp_path / "node-1").unlink()
    plans = plan_cluster(tmp_path, 2, port)
    format_cluster(plans, 0)
    (checkpoint,) = (plans[0].folder / "__cluster_metadata-0").glob("*.checkpoint")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-5])
    assert f"{checkpoint}: " in refused(tmp_path, port)
    checkpoint.write_bytes(whole)
    properties = plans[0].folder / "meta.properties"
    properties.write_text("version=x")
    assert f"{properties}: " in refused(tmp_path, port)


def test_a_format_that_was_interrupted(tmp_path: Path) -> None:
    port = free_cluster_port(2)
    format_cluster(plan_cluster(tmp_path, 2, port), 0)
    shutil.rmtree(tmp_path / "node-2")
    for _ in range(2):
        said = refused(tmp_path, port)
        assert "whose format was interrupted" in said
        assert f"remove {tmp_path}/node-*" in said


def test_data_folders_that_are_none_or_two(tmp_path: Path) -> None:
    words = ["dev", "--brokers", "2", "--port", str(free_cluster_port(2)), "--data-dir"]
    for folder, reason in (("", "an empty name is not"), (str(tmp_path / "a,b"), "has a comma")):
        answer = CliRunner().invoke(root, [*words, folder])
        assert answer.exit_code == 2
        assert reason in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_ports_of_controllers_that_do_not_exist() -> None:
    """What is wrong with the arguments is said first, also where somebody has these ports."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = max(taken.getsockname()[1], 60_000)
        answer = CliRunner().invoke(root, ["dev", "--brokers", "2", "--port", str(port)])
    assert answer.exit_code == 1
    assert "take --port 55534 or less" in answer.stderr
