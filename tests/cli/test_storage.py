from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.storage import command
from kaa.log.files import RealFiles
from kaa.log.properties import read_meta_properties
from kaa.wire.primitives import Uuid

CLUSTER_ID = "dCn2Yfs2Q8Kk3xhTn1LHmQ"
VOTERS = "controller.quorum.voters=1@127.0.0.1:9093\n"
BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"


def storage(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


CLIENTS, CONTROLLERS = "PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:9093"
LISTENERS = {"broker": CLIENTS, "broker,controller": f"{CLIENTS},{CONTROLLERS}"}


def config(
    folder: Path, quorum: str = VOTERS, more: str = "", roles: str = "broker,controller"
) -> str:
    path = folder / "server.properties"
    path.write_text(
        f"node.id=1\nprocess.roles={roles}\nlisteners={LISTENERS[roles]}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={folder}/a,{folder}/b\n" + quorum + more
    )
    return str(path)


def formatting(path: str, *arguments: str) -> Result:
    return storage("format", "-t", CLUSTER_ID, "-c", path, *arguments)


def test_format_and_info(tmp_path: Path) -> None:
    path = config(tmp_path)
    unformatted = storage("info", "-c", path)
    assert unformatted.exit_code == 1
    assert "is missing" in unformatted.output
    answer = formatting(path)
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.output.splitlines() == [
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {tmp_path}/a with metadata.version 4.3-IV0.",
    ]
    info = storage("info", "-c", path, "-o", "json")
    assert info.exit_code == 0
    facts = json.loads(info.output)
    assert facts["problems"] == []
    ids = set()
    for name in ("a", "b"):
        found = facts["directories"][f"{tmp_path}/{name}"]
        assert found["cluster.id"] == CLUSTER_ID
        assert (found["node.id"], found["version"]) == ("1", "1")
        ids.add(found["directory.id"])
    assert len(ids) == 2
    assert f"cluster.id={CLUSTER_ID}" in storage("info", "-c", path).output


def test_formatting_twice(tmp_path: Path) -> None:
    path = config(tmp_path)
    formatting(path)
    again = formatting(path)
    assert again.exit_code == 1
    assert "--ignore-formatted" in again.stderr
    assert "already" in formatting(path, "--ignore-formatted").output
    other = storage("format", "-t", "other", "-c", path, "-g")
    assert other.exit_code == 1
    assert f"belongs to node 1 of cluster {CLUSTER_ID}" in other.stderr


def test_standalone(tmp_path: Path) -> None:
    path = config(tmp_path, BOOTSTRAP_SERVERS)
    nobody = formatting(path)
    assert nobody.exit_code == 1
    assert "--standalone" in nobody.stderr
    assert formatting(path, "--standalone").exit_code == 0
    snapshot = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert (tmp_path / "a" / snapshot).exists()
    assert not (tmp_path / "b" / snapshot).exists()


def test_a_node_that_joins_later(tmp_path: Path) -> None:
    assert formatting(config(tmp_path, BOOTSTRAP_SERVERS), "-N").exit_code == 0
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


def test_a_broker_alone(tmp_path: Path) -> None:
    """Who votes is not its business."""
    path = config(tmp_path, BOOTSTRAP_SERVERS, roles="broker")
    refused = formatting(path, "--standalone")
    assert refused.exit_code == 1
    assert "process.roles has no controller" in refused.stderr
    assert not (tmp_path / "a").exists()
    assert formatting(path).exit_code == 0
    assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


def test_initial_controllers(tmp_path: Path) -> None:
    path = config(tmp_path, BOOTSTRAP_SERVERS)
    directory = "JEXY6aqzQY-32P5TStzaFg"
    twice = f"1@127.0.0.1:9093:{directory},1@127.0.0.1:9094:{directory}"
    refused = formatting(path, "--initial-controllers", twice)
    assert refused.exit_code == 1
    assert "two of the voters 1, 1 have the same id." in refused.stderr
    for wrong in ("1", "1@host", "x@host:1:JEXY6aqzQY-32P5TStzaFg", "1@host:1:short"):
        assert "id@host:port:directory" in formatting(path, "-I", wrong).stderr
    several = f"1@127.0.0.1:9093:{directory},2@127.0.0.1:9094:AAAAAAAAAAAAAAAAAAAAZA"
    assert formatting(path, "-I", several).exit_code == 0
    found = read_meta_properties(RealFiles(), f"{tmp_path}/a")
    assert found is not None
    assert found.directory_id is not None
    assert found.directory_id == Uuid.parse(directory)


@pytest.mark.parametrize(
    ("quorum", "arguments", "text"),
    [
        (VOTERS, ["--standalone"], "controller.quorum.voters"),
        (BOOTSTRAP_SERVERS, ["--standalone", "-N"], "exclude each other"),
        (VOTERS, ["--feature", "group.version"], "feature=level"),
        (VOTERS, ["--feature", "group.version=7"], "levels from 0 to 1"),
        (VOTERS, ["--feature", "nosuch.version=1"], "there is no feature"),
        (VOTERS, ["--feature", "kraft.version=1"], "contradicts"),
        (VOTERS, ["--release-version", "1.0"], "there is no release 1.0"),
        (VOTERS, ["--add-scram", "SCRAM-SHA-1=[name=a]"], "SCRAM-SHA-256"),
    ],
)
def test_refusals(tmp_path: Path, quorum: str, arguments: list[str], text: str) -> None:
    answer = formatting(config(tmp_path, quorum), *arguments)
    assert answer.exit_code != 0
    assert text in answer.stderr
    assert not (tmp_path / "a").exists()


def test_a_wrong_configuration_is_explained(tmp_path: Path) -> None:
    answer = formatting(config(tmp_path, more="num.partitions=none\n"))
    assert answer.exit_code == 1
    assert "num.partitions" in answer.stderr


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    answer = formatting(config(tmp_path))
    assert answer.exit_code == 1
    assert f"cannot look into {tmp_path}/a" in answer.stderr
    read_only = tmp_path / "c"
    read_only.write_text("a file")
    answer = formatting(config(tmp_path, more=f"log.dirs={read_only}/below\n"))
    assert answer.exit_code == 1


def test_random_uuid() -> None:
    answers = {storage("random-uuid").output for _ in range(5)}
    assert len(answers) == 5
    assert all(len(Uuid.parse(answer.strip())) == 16 for answer in answers)


def test_version_mapping() -> None:
    newest = storage("version-mapping").output.splitlines()
    assert newest[0] == "metadata.version=30 (4.3-IV0)"
    assert "transaction.version=2" in newest
    old = storage("version-mapping", "-r", "3.9").output.splitlines()
    assert old[:2] == ["metadata.version=21 (3.9)", "kraft.version=1"]
    assert storage("version-mapping", "-r", "9.9").exit_code == 1


def test_a_broker_alone_need_not_say_who_votes(tmp_path: Path) -> None:
    """As in Kafka, which asks that of controllers."""
    path = Path(config(tmp_path, BOOTSTRAP_SERVERS))
    assert formatting(str(path)).exit_code == 1
    text = path.read_text().replace("=broker,controller", "=broker")
    path.write_text(text.replace(",CONTROLLER://127.0.0.1:9093", ""))
    assert formatting(str(path)).exit_code == 0


def test_a_new_disk_of_a_voter(tmp_path: Path) -> None:
    """What a node that misses a directory tells to run."""
    path = config(tmp_path, BOOTSTRAP_SERVERS)
    assert formatting(path, "--standalone").exit_code == 0
    shutil.rmtree(tmp_path / "b")
    answer = formatting(path, "--ignore-formatted", "--no-initial-controllers")
    assert answer.exit_code == 0, answer.output
    found = read_meta_properties(RealFiles(), str(tmp_path / "b"))
    assert found is not None
    assert found.cluster_id == CLUSTER_ID
