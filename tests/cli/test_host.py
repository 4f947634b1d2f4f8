"""Every core of a machine: brokers derived from one server.properties."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kaa.cli.broker import load_config
from kaa.cli.host import HostNode, plan_host
from kaa.cli.root import root
from tests.support.broker_process import kaa_command
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import LOOPBACK, free_port


def properties(folder: Path, port: int, controller_port: int, *lines: str) -> Path:
    path = folder / "server.properties"
    path.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        f"listeners=PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers={LOOPBACK}:{controller_port}\n"
        f"log.dirs={folder}/a,{folder}/b\n" + "".join(f"{line}\n" for line in lines)
    )
    return path


def planned(path: Path, count: int, *overrides: str) -> list[HostNode]:
    config = load_config(path, overrides, Path()).config
    return plan_host(path, config, count, overrides, "machine")


def test_the_configured_node_stays_as_it_is(tmp_path: Path) -> None:
    (only,) = planned(properties(tmp_path, 9092, 9093), 1, "num.partitions=3")
    assert only.node_id == 1
    assert only.overrides == ("num.partitions=3", "broker.rack=machine")


def test_a_rack_that_is_set_stays(tmp_path: Path) -> None:
    (only,) = planned(properties(tmp_path, 9092, 9093, "broker.rack=here"), 1)
    assert only.overrides == ()


def test_derived_brokers_do_not_vote_and_share_nothing(tmp_path: Path) -> None:
    path = properties(tmp_path, 9092, 9093)
    _, second, third = planned(path, 3)
    config = load_config(path, third.overrides, Path()).config
    assert config.get_list("process.roles") == ("broker",)
    assert (second.node_id, config.node_id) == (1001, 2001)
    assert [endpoint.port for endpoint in config.listeners.all] == [9094]
    assert config.listeners.controller == ()
    assert config.log_dirs == (f"{tmp_path}/a-2001", f"{tmp_path}/b-2001")
    assert third.address == f"{LOOPBACK}:9094"


def test_ports_cannot_be_counted_from_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        planned(properties(tmp_path, 0, 9093), 2)
    assert "count their ports" in capsys.readouterr().err


def test_a_derived_directory_of_another_node(tmp_path: Path) -> None:
    path = properties(tmp_path, 9092, 9093)
    words = ["storage", "format", "-t", "dCn2Yfs2Q8Kk3xhTn1LHmQ", "-c", str(path)]
    assert CliRunner().invoke(root, [*words, "--standalone"]).exit_code == 0
    shutil.copytree(tmp_path / "a", tmp_path / "a-1001")
    answer = CliRunner().invoke(root, ["host", "start", str(path), "--brokers", "2"])
    assert answer.exit_code == 1
    assert f"{tmp_path}/a-1001 belongs to node 1 of cluster" in answer.stderr
    assert "put the directory of this node there" in answer.stderr


class Host:
    """`kaa host start` as a process, and the lines that it says."""

    def __init__(self, path: Path, count: int) -> None:
        self.process = subprocess.Popen(
            kaa_command("host", "start", str(path), "--brokers", str(count)),
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    def wait_for(self, condition: Callable[[list[str]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.lines), PATIENCE_SECONDS), (
                self.lines
            )

    def end(self) -> None:
        assert self.process.stderr is not None
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_SECONDS)
        self.process.stderr.close()

    def ready_count(self) -> int:
        return sum("| ready" in line for line in self.lines)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    # The second broker of the host takes the port after that of the first.
    path = properties(tmp_path, free_port(1), free_port())
    refused = subprocess.run(
        kaa_command("host", "start", str(path)), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "is not formatted; run: kaa storage format" in refused.stderr
    cluster_id = "AAAAAAAAAAAAAAAAAAAAAw"
    subprocess.run(
        kaa_command("storage", "format", "--standalone", "-t", cluster_id, "-c", str(path)),
        check=True,
        capture_output=True,
    )
    started = Host(path, 2)
    try:
        yield started
    finally:
        started.end()


def test_a_host_keeps_its_brokers(host: Host) -> None:
    host.wait_for(lambda lines: any(line.startswith("cluster    2 nodes") for line in lines))
    assert sorted(line.split(" |")[0] for line in host.lines if "| ready" in line) == ["1", "1001"]
    host.process.send_signal(signal.SIGHUP)
    host.wait_for(lambda lines: any("every node was restarted" in line for line in lines))
    assert host.ready_count() == 4
    # A node that is killed comes back.
    victims = subprocess.run(
        ["pgrep", "-P", str(host.process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(victims) == 2
    subprocess.run(["kill", "-KILL", victims[-1]], check=True)
    host.wait_for(lambda lines: any("starts again in 1 s" in line for line in lines))
    host.wait_for(lambda _: host.ready_count() == 5)
    host.process.send_signal(signal.SIGTERM)
    assert host.process.wait(PATIENCE_SECONDS) == 0
