"""The disks of a broker, and moves between them, by commands."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kaa.cli.root import root
from kaa.client.admin.admin import NewTopic
from kaa.client.sync.admin import Admin
from kaa.client.sync.clients import Producer
from tests.cli.test_docs import pattern_of, steps
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess, kaa_command
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS_MAX = 60


class Disks:
    """A broker with two log directories."""

    def __init__(self, broker: BrokerProcess, paths: tuple[str, str]) -> None:
        self.servers = broker.bootstrap_servers
        self.paths = paths

    def kaa(self, *arguments: str) -> Result:
        return CliRunner().invoke(root, [*arguments, "-b", self.servers], catch_exceptions=False)

    def rows(self) -> dict[str, dict[str, Any]]:
        shown = self.kaa("cluster", "dirs", "-o", "json")
        assert shown.exit_code == 0, shown.output
        return {row["path"]: row for row in json.loads(shown.stdout)}

    def filled(self, topic: str, partitions: int = 2) -> None:
        with Admin({"bootstrap.servers": self.servers}) as admin:
            assert admin.create_topics([NewTopic(topic, partitions=partitions)]) == {topic: None}
        with Producer({"bootstrap.servers": self.servers}) as producer:
            for number in range(200):
                producer.send(topic, b"x" * 1000, partition=number % partitions)

    def places(self, topic: str) -> dict[int, str]:
        with Admin({"bootstrap.servers": self.servers}) as admin:
            return {
                replica.partition.partition: one.path
                for one in admin.describe_log_dirs()
                for replica in one.replicas
                if replica.partition.topic == topic and not replica.is_future
            }


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disks]:
    folder = tmp_path_factory.mktemp("disks")
    paths = (str(folder / "one"), str(folder / "two"))
    with BrokerProcess(folder / "node", f"log.dirs={','.join(paths)}") as broker:
        yield Disks(broker, paths)


def test_directories_are_shown_with_their_state_and_size(disks: Disks) -> None:
    disks.filled("shown")
    rows = disks.rows()
    assert set(rows) == set(disks.paths)
    for row in rows.values():
        assert (row["state"], row["moves"], row["seconds_left"]) == ("online", 0, None)
        assert row["size_bytes"] >= 100_000
        assert row["total_bytes"] >= row["usable_bytes"] > 0


def test_topic_moves_to_another_directory_and_is_watched(disks: Disks) -> None:
    disks.filled("moved")
    target = disks.paths[1]
    done = disks.kaa("topic", "move", "moved", "--to", target, "--watch")
    assert done.exit_code == 0, done.output
    assert "moving 2 replicas" in done.stderr
    assert "moved " in done.stderr
    assert set(disks.places("moved").values()) == {target}


def test_throttled_move_is_shown_and_cancelled(disks: Disks) -> None:
    disks.filled("slow", partitions=1)
    source = disks.places("slow")[0]
    target = next(path for path in disks.paths if path != source)
    arguments = ("--to", target, "--throttle", "1kB")
    assert disks.kaa("topic", "move", "slow:0", *arguments).exit_code == 0
    row = disks.rows()[target]
    assert (row["moves"], row["moving_bytes"] >= 200_000) == (1, True)
    assert disks.kaa("topic", "move", "slow", "--cancel").exit_code == 0
    assert disks.rows()[target]["moves"] == 0
    assert disks.places("slow") == {0: source}
    nothing = disks.kaa("topic", "move", "slow", "--cancel")
    assert nothing.exit_code != 0
    assert "no replica of slow is on its way" in nothing.stderr
    # A throttle stays until somebody changes it.
    assert (
        disks.kaa("topic", "move", "slow", "--to", target, "--throttle", "90000000").exit_code == 0
    )
    assert wait_until(lambda: disks.places("slow") == {0: target}, SECONDS_MAX)


def test_bytes_are_evened_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("uneven")
    paths = (str(folder / "one"), str(folder / "two"))
    with BrokerProcess(folder / "node", f"log.dirs={','.join(paths)}") as broker:
        disks = Disks(broker, paths)
        disks.filled("even", partitions=4)
        assert disks.kaa("topic", "move", "even", "--to", paths[0], "--watch").exit_code == 0
        planned = disks.kaa("cluster", "balance-dirs", "-o", "json")
        assert [row["to"] for row in json.loads(planned.stdout)] == [paths[1]] * 2
        assert "add --yes" in planned.stderr
        assert set(disks.places("even").values()) == {paths[0]}
        interrupt_balance(disks, paths[1])
        done = disks.kaa("cluster", "balance-dirs", "--throttle", "90MB", "--yes")
        assert done.exit_code == 0, done.output
        assert sorted(disks.places("even").values()) == [paths[0]] * 2 + [paths[1]] * 2
        assert "nothing to even out" in disks.kaa("cluster", "balance-dirs").stderr
        assert disks.kaa("cluster", "balance-dirs", "--cancel").exit_code == 0


def interrupt_balance(disks: Disks, target: str) -> None:
    """Ctrl-C takes back what is on its way."""
    words = ("cluster", "balance-dirs", "--throttle", "1kB", "--yes", "-b", disks.servers)
    with subprocess.Popen(kaa_command(*words), stderr=subprocess.DEVNULL) as balancing:
        assert wait_until(lambda: disks.rows()[target]["moves"] > 0, SECONDS_MAX)
        row = disks.rows()[target]
        assert row["moving_bytes"] >= 100_000
        assert row["bytes_per_second"] is not None
        balancing.send_signal(signal.SIGINT)
        assert balancing.wait(SECONDS_MAX) != 0
    assert disks.rows()[target]["moves"] == 0
    assert set(disks.places("even").values()) != {target}


def test_directory_that_no_broker_has(disks: Disks) -> None:
    disks.filled("nowhere", partitions=1)
    refused = disks.kaa("topic", "move", "nowhere", "--to", "/no/such/disk")
    assert refused.exit_code != 0
    assert "no broker has the directory /no/such/disk; kaa cluster dirs shows" in refused.stderr
    refused = disks.kaa("topic", "move", "nowhere:7", "--to", f"{disks.paths[0]}/")
    assert "no replica of nowhere:7 is on a broker with the directory" in refused.stderr
    assert "give --to DIR, or --cancel" in disks.kaa("topic", "move", "nowhere").stderr


def test_refusals_say_what_to_change(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two", "three")]
    often = "log.flush.offset.checkpoint.interval.ms=500"
    with BrokerProcess(tmp_path / "node", f"log.dirs={','.join(paths)}", often) as broker:
        disks = Disks(broker, (paths[0], paths[1]))
        disks.filled("t", partitions=3)
        cordon = ("config", "set", "broker", "1", f"cordoned.log.dirs={paths[1]}")
        assert disks.kaa(*cordon).exit_code == 0
        assert wait_until(lambda: disks.rows()[paths[1]]["state"] == "cordoned", SECONDS_MAX)
        refused = disks.kaa("topic", "move", "t", "--to", paths[1])
        assert refused.exit_code != 0
        assert "take it out of cordoned.log.dirs of the broker" in refused.stderr
        Path(paths[2]).rename(tmp_path / "away")
        assert wait_until(
            lambda: disks.rows()[paths[2]]["state"] == "KAFKA_STORAGE_ERROR", SECONDS_MAX
        )
        refused = disks.kaa("topic", "move", "t", "--to", paths[2])
        assert refused.exit_code != 0
        assert "bring its disk back, or take it out of log.dirs, and restart" in refused.stderr
        assert f"left out: its directory {paths[2]}" in disks.kaa("cluster", "balance-dirs").stderr
        assert f"{paths[2]} is offline" in broker.output
        assert "mount its disk, or restore it from a backup, then start again" in broker.output


def test_what_the_guide_types_prints_what_it_shows(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("guide")
    paths = {"/disk1/kafka": str(folder / "1"), "/disk2/kafka": str(folder / "2")}

    def real(text: str) -> str:
        for shown, path in paths.items():
            text = text.replace(shown, path)
        return text

    found = steps("docs/guides/disks.md")
    assert len(found) == 8
    with BrokerProcess(folder / "node", f"log.dirs={','.join(paths.values())}") as broker:
        disks = Disks(broker, (paths["/disk1/kafka"], paths["/disk2/kafka"]))
        for step in found:
            words = shlex.split(real(step.command))
            assert words.pop(0) == "kaa"
            done = disks.kaa(*words)
            assert done.exit_code == 0, done.output
            # Columns are as wide as the longest path.
            shown = re.sub(" +", " ", pattern_of(real(step.expected)).replace("\\ ", " "))
            assert re.fullmatch(shown, re.sub(" +", " ", done.output)), (step, done.output)


def test_disk_is_added_and_replaced_as_the_guide_says(tmp_path: Path) -> None:
    text = Path("docs/guides/disks.md").read_text("utf-8")
    (command,) = re.findall(r"^kaa (storage format .*)$", text, re.MULTILINE)
    paths = [str(tmp_path / name) for name in ("one", "two")]
    servers, controller = f"{LOOPBACK}:{free_port()}", f"{LOOPBACK}:{free_port()}"
    config = tmp_path / "server.properties"
    cluster_id = "AAAAAAAAQACAAAAAAAAAAA"

    def write_config(directories: list[str]) -> None:
        config.write_text(
            "node.id=1\nprocess.roles=broker,controller\n"
            f"listeners=PLAINTEXT://{servers},CONTROLLER://{controller}\n"
            f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@{controller}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"metadata.log.dir={paths[0]}\nlog.dirs={','.join(directories)}\n"
        )

    def format_disks() -> None:
        words = shlex.split(command.replace("CLUSTER_ID", cluster_id))
        words[words.index("server.properties")] = str(config)
        done = CliRunner().invoke(root, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output

    write_config(paths[:1])
    format_disks()
    port = int(servers.rpartition(":")[2])
    broker = BrokerProcess(tmp_path / "node", config_file=config, port=port)
    disks = Disks(broker, (paths[0], paths[1]))
    with broker:
        disks.filled("old", partitions=1)
        broker.stop()
    # A disk is added.
    write_config(paths)
    format_disks()
    with broker:
        assert {path: row["state"] for path, row in disks.rows().items()} == dict.fromkeys(
            paths, "online"
        )
        disks.filled("new", partitions=1)
        assert (disks.places("old"), disks.places("new")) == ({0: paths[0]}, {0: paths[1]})
        assert disks.kaa("topic", "move", "old", "--to", paths[1], "--watch").exit_code == 0
        assert disks.kaa("topic", "move", "new", "--to", paths[0], "--watch").exit_code == 0
        broker.stop()
    # It dies, and an empty one takes its place.
    shutil.rmtree(paths[1])
    with broker:
        assert disks.rows()[paths[1]]["state"] == "KAFKA_STORAGE_ERROR"
        assert disks.places("new") == {0: paths[0]}
        broker.stop()
    format_disks()
    with broker:
        assert {row["state"] for row in disks.rows().values()} == {"online"}
        # What was there alone is not made again, empty, in its place.
        assert disks.places("old") == {}
        assert disks.places("new") == {0: paths[0]}
        assert disks.kaa("topic", "delete", "old", "--yes").exit_code == 0
        disks.filled("fresh", partitions=1)
        assert disks.places("fresh") == {0: paths[1]}
