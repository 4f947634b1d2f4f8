"""A node that cannot start says why in one line, ends with a code, and has touched nothing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.broker_process import BrokerProcess, kaa_command
from tests.support.ports import LOOPBACK, free_port

FAILED, USAGE = 1, 2


class Outcome(NamedTuple):
    code: int
    text: str


def start(*arguments: str, prefix: tuple[str, ...] = ()) -> Outcome:
    """Runs a node that shall end by itself."""
    done = subprocess.run(
        [*prefix, *kaa_command("broker", "start", *arguments)],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=30,
    )
    assert done.stdout == ""
    return Outcome(done.returncode, done.stderr)


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file under a folder with its time of change and its bytes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def stopped_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with BrokerProcess(tmp_path_factory.mktemp("template")) as broker:
        broker.stop()
        return broker.data_dir


@pytest.fixture
def data_dir(stopped_template: Path, tmp_path: Path) -> Path:
    """The directory of a node that ran once."""
    return Path(shutil.copytree(stopped_template, tmp_path / "data"))


@pytest.fixture
def untouched(data_dir: Path) -> Iterator[None]:
    before = contents(data_dir)
    yield
    assert contents(data_dir) == before


def refused(data_dir: Path, *overrides: str, prefix: tuple[str, ...] = ()) -> Outcome:
    words = [word for override in overrides for word in ("--override", override)]
    listeners = f"listeners=PLAINTEXT://{LOOPBACK}:{free_port()}"
    return start("--data-dir", str(data_dir), "--override", listeners, *words, prefix=prefix)


def test_a_data_folder_without_a_name() -> None:
    outcome = start("--data-dir", "", "--override", "listeners=PLAINTEXT://no.such.host:1")
    assert outcome.code == USAGE
    assert "an empty name is not a folder; for the current one write ." in outcome.text


def test_a_data_folder_that_would_be_two(tmp_path: Path) -> None:
    folder = tmp_path / "with space,comma"
    outcome = refused(folder)
    assert outcome.code == USAGE
    assert f"{folder} has a comma, which separates folders" in outcome.text
    assert list(tmp_path.iterdir()) == []


def test_port_in_use(data_dir: Path, untouched: None) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        outcome = refused(data_dir, f"listeners=PLAINTEXT://{LOOPBACK}:{port}")
    assert outcome.text == (
        f"cannot listen on {LOOPBACK}:{port} (Address already in use); "
        "set listeners to another address or port\n"
    )
    assert outcome.code == FAILED


def test_port_in_use_on_a_new_directory(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        listeners = f"listeners=PLAINTEXT://{LOOPBACK}:{other.getsockname()[1]}"
        outcome = refused(tmp_path / "data", listeners)
    assert outcome.code == FAILED
    assert not (tmp_path / "data").exists()


def test_address_of_another_machine(data_dir: Path, untouched: None) -> None:
    outcome = refused(data_dir, "listeners=PLAINTEXT://192.0.2.1:9092")
    assert outcome.code == FAILED
    assert "cannot listen on 192.0.2.1:9092" in outcome.text


def test_directory_in_use(tmp_path: Path) -> None:
    # Checkpoints that the running node writes would look like an act of the other one.
    intervals = (
        "log.flush.offset.checkpoint.interval.ms=3600000",
        "log.flush.start.offset.checkpoint.interval.ms=3600000",
        "replica.high.watermark.checkpoint.interval.ms=3600000",
    )
    with BrokerProcess(tmp_path / "node", *intervals) as broker:
        before = contents(broker.data_dir)
        outcome = refused(broker.data_dir)
        assert outcome.text == (
            f"{broker.data_dir} is in use by another process; stop that one, or name another "
            "directory in log.dirs\n"
        )
        assert outcome.code == FAILED
        assert set(contents(broker.data_dir)) == set(before)
        broker.check_health()
        broker.stop()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("node.id=7", "belongs to node 7, but node.id is 1; set node.id or log.dirs to match"),
        ("version=2", "was written by a newer version (2); use that one"),
        ("version=zero", "restore the file"),
        ("node.id=", "restore the file"),
    ],
)
def test_identity_of_another_node(data_dir: Path, line: str, words: str) -> None:
    path = data_dir / "meta.properties"
    name = line.partition("=")[0]
    kept = [old for old in path.read_text().splitlines() if not old.startswith(f"{name}=")]
    path.write_text("\n".join([*kept, line]) + "\n")
    before = contents(data_dir)
    outcome = refused(data_dir)
    assert outcome.code == FAILED
    assert outcome.text.startswith(str(data_dir))
    assert words in outcome.text
    assert outcome.text.count("\n") == 1
    assert contents(data_dir) == before


def test_directory_of_another_cluster_is_left_alone(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "other") as broker:
        broker.stop()
        other = broker.data_dir
    before = contents(other)
    own = tmp_path / "node" / "data"
    with BrokerProcess(tmp_path / "node") as node:
        node.stop()
        node.overrides = (f"log.dirs={own},{other}", f"metadata.log.dir={own}")
        node.start()
        node.stop()
        assert f"{other} is offline: it belongs to cluster " in node.output
        assert "take the directory out of log.dirs" in node.output
    assert contents(other) == before


def test_unformatted_directory_with_a_file(tmp_path: Path) -> None:
    """A node with a configuration file formats nothing by itself."""
    data_dir, config_file = tmp_path / "data", tmp_path / "server.properties"
    data_dir.mkdir()
    config_file.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        f"listeners=PLAINTEXT://{LOOPBACK}:{free_port()},CONTROLLER://{LOOPBACK}:0\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers={LOOPBACK}:9093\n"
        f"log.dirs={data_dir}\n"
    )
    outcome = start(str(config_file))
    assert outcome.text == (
        f"{data_dir} is not formatted; for the first node of a new cluster run: kaa storage format "
        f"--standalone -t $(kaa storage random-uuid) -c {config_file}; for a node that joins "
        "others, with the id of kaa cluster info: kaa storage format "
        f"--no-initial-controllers -t CLUSTER_ID -c {config_file}\n"
    )
    assert outcome.code == FAILED
    assert list(data_dir.iterdir()) == []


def test_unusable_directories(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    for path in (file, file / "data"):
        outcome = refused(path)
        assert outcome.code == FAILED
        assert str(path) in outcome.text
        assert outcome.text.count("\n") == 1
    assert file.read_text() == "not a directory"


def test_unwritable_directory(tmp_path: Path) -> None:
    # Root may write everywhere but to what the kernel shows as files.
    folder = Path("/sys") if os.geteuid() == 0 else tmp_path / "locked"
    if os.geteuid() != 0:
        folder.mkdir(mode=0o500)
    outcome = refused(folder / "data")
    assert outcome.code == FAILED
    assert outcome.text.startswith(f"cannot use {folder / 'data'} (")
    assert "not permitted); " in outcome.text or "Permission denied); " in outcome.text
    assert outcome.text.endswith("or name another directory\n")


# Root may read and write everything, unless it gives that up.
BOUND = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("meta.properties", 0),
        (".lock", 0),
        ("__cluster_metadata-0", 0),
        ("__cluster_metadata-0/quorum-state", 0),
        # It can be read, and the first record that the node writes shows that this is all.
        ("__cluster_metadata-0/00000000000000000000.log", 0o444),
    ],
)
def test_files_of_another_user(data_dir: Path, name: str, mode: int) -> None:
    path = data_dir / name
    path.touch()
    path.chmod(mode)
    outcome = refused(data_dir, prefix=BOUND)
    path.chmod(0o755)
    assert outcome.code == FAILED
    last = outcome.text.splitlines()[-1]
    assert f"{path} (Permission denied)" in last
    assert "let the user of this process read and write there, then start again" in last
    assert "Errno" not in outcome.text
    assert "Traceback" not in outcome.text


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("no.such.setting", "write name=value"),
        ("num.partitions=many", "num.partitions"),
        ("num.partitions=0", "num.partitions"),
        ("listeners=PLAINTEXT//127.0.0.1", "listeners"),
        ("process.roles=broker", "process.roles"),
        ("authorizer.class.name=org.example.Authorizer", "authorizer.class.name"),
        ("listener.security.protocol.map=PLAINTEXT:SSL,CONTROLLER:PLAINTEXT", "SSL"),
    ],
)
def test_wrong_settings(tmp_path: Path, override: str, words: str) -> None:
    outcome = refused(tmp_path / "data", override)
    assert outcome.code == USAGE
    assert words in outcome.text
    assert "Traceback" not in outcome.text
    assert not (tmp_path / "data").exists()


def test_every_wrong_setting_is_named(tmp_path: Path) -> None:
    outcome = refused(tmp_path / "data", "num.partitions=0", "log.segment.bytes=x")
    assert outcome.code == USAGE
    assert "num.partitions" in outcome.text
    assert "log.segment.bytes" in outcome.text


def test_missing_file(tmp_path: Path) -> None:
    outcome = start(str(tmp_path / "no.properties"))
    assert outcome.code == USAGE
    assert outcome.text == (
        f"cannot read {tmp_path / 'no.properties'} (No such file or directory); "
        "name a file with settings that this user may read\n"
    )


def test_unknown_settings_warn(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "node", "no.such.setting=1") as broker:
        assert "warning: " in broker.output
        assert "no.such.setting" in broker.output
        broker.stop()
