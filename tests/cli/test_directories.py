"""The disks of a broker, and moves between them, by commands."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from click.testing import CliRunner, Result

from kaa.cli import directories
from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_PARTLY, EXIT_USAGE
from kaa.cli.root import root
from kaa.client.admin.admin import NewTopic
from kaa.client.admin.cluster import LogDir, LogDirReplica
from kaa.client.sync.admin import Admin
from kaa.client.sync.clients import Producer
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from tests.cli.test_docs import pattern_of, steps
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess, kaa_command
from tests.support.children import running
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

    def unthrottle(self) -> None:
        assert self.kaa("config", "unset", "broker", "1", directories._RATE).exit_code == 0

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
    # New partitions go to the one and the other directory in turn.
    assert re.search(rf"already in {target}: moved-[01]\n", done.stderr)
    assert "moving 1 replica to" in done.stderr
    assert "moved " in done.stderr
    assert set(disks.places("moved").values()) == {target}
    again = disks.kaa("topic", "move", "moved", "--to", target, "--watch")
    assert again.exit_code == 0
    nothing = f"already in {target}: moved-0, moved-1; there is nothing to move\n"
    assert again.stderr == nothing


def test_move_to_where_a_replica_is_ends_its_move(disks: Disks) -> None:
    disks.filled("kept", partitions=1)
    source = disks.places("kept")[0]
    target = next(path for path in disks.paths if path != source)
    arguments = ("--to", target, "--throttle", "1kB")
    assert disks.kaa("topic", "move", "kept", *arguments).exit_code == 0
    ended = disks.kaa("topic", "move", "kept", "--to", source, "--watch")
    assert (ended.exit_code, ended.stderr) == (0, f"cancelled 1 move away from {source}: kept-0\n")
    assert disks.rows()[target]["moves"] == 0
    disks.unthrottle()


def test_throttled_move_is_shown_and_cancelled(disks: Disks) -> None:
    disks.filled("slow", partitions=1)
    source = disks.places("slow")[0]
    target = next(path for path in disks.paths if path != source)
    arguments = ("--to", target, "--throttle", "1kB")
    assert disks.kaa("topic", "move", "slow:0", *arguments).exit_code == 0
    row = disks.rows()[target]
    assert (row["moves"], row["moving_bytes"] >= 200_000) == (1, True)
    cancelled = disks.kaa("topic", "move", "slow", "--cancel")
    assert cancelled.exit_code == 0
    assert "cancelled 1 move: the replicas stay where they are" in cancelled.stderr
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


def test_partition_whose_log_is_gone_is_named(tmp_path: Path) -> None:
    paths = (str(tmp_path / "one"), str(tmp_path / "two"))
    broker = BrokerProcess(tmp_path / "node", f"log.dirs={','.join(paths)}")
    disks = Disks(broker, paths)
    with broker:
        disks.filled("t")
        place = disks.places("t")[1]
        broker.stop()
    shutil.rmtree(Path(place) / "t-1")
    with broker:
        target = next(path for path in paths if path != disks.places("t")[0])
        disks.servers = broker.bootstrap_servers
        done = disks.kaa("topic", "move", "t", "--to", target)
        assert done.exit_code == EXIT_PARTLY
        assert "moving 1 replica to" in done.stderr
        assert "cannot move t-1: there is no log in any directory" in done.stderr
        done = disks.kaa("topic", "move", "t:1", "--to", target)
        assert done.exit_code == EXIT_FAILED
        assert done.stderr.startswith("error: cannot move t-1: there is no log in any directory")
        shown = disks.kaa("topic", "describe", "t", "-o", "json")
        assert shown.exit_code == EXIT_PARTLY
        (described,) = json.loads(shown.stdout)
        assert [one["problem"] for one in described["partitions"]] == [None, "not served"]


def test_rate_and_time_left_of_a_throttled_move_are_shown(disks: Disks) -> None:
    disks.filled("steady", partitions=1)
    target = next(path for path in disks.paths if path != disks.places("steady")[0])
    arguments = ("--to", target, "--throttle", "20kB")
    assert disks.kaa("topic", "move", "steady", *arguments).exit_code == 0
    row = disks.rows()[target]
    assert 5_000 < row["bytes_per_second"] < 60_000
    assert row["seconds_left"] > 0
    assert disks.kaa("topic", "move", "steady", "--cancel").exit_code == 0
    disks.unthrottle()


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
    with running(kaa_command(*words), stderr=subprocess.DEVNULL) as balancing:
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
    root = disks.kaa("topic", "move", "nowhere", "--to", "/")
    assert "no broker has the directory /; kaa cluster dirs shows" in root.stderr
    target = ("--to", f"{disks.paths[0]}/")
    for words, code, told in (
        (("nowhere:7", *target), EXIT_NOT_FOUND, "nowhere-7: the topic has partition 0 alone"),
        (("nowhere:x", *target), EXIT_USAGE, "nowhere:x: 'x' names no partitions; write 0 or"),
        (("nowhere:-1", "--cancel"), EXIT_USAGE, "'-1' names no partitions"),
        (("no-topic", *target), EXIT_NOT_FOUND, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("nowhere", "--broker", "7", *target), EXIT_NOT_FOUND, "broker 7 is not running"),
    ):
        refused = disks.kaa("topic", "move", *words)
        assert (refused.exit_code, told in refused.stderr) == (code, True), refused.stderr
    refused = disks.kaa("topic", "move", "nowhere", *target, "--throttle", "0")
    assert "lift the throttle: kaa config unset broker ID replica.alter" in refused.stderr
    assert "give --to DIR, or --cancel" in disks.kaa("topic", "move", "nowhere").stderr


def test_refusals_say_what_to_change(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two", "three")]
    often = "log.flush.offset.checkpoint.interval.ms=500"
    with BrokerProcess(tmp_path / "node", f"log.dirs={','.join(paths)}", often) as broker:
        disks = Disks(broker, (paths[0], paths[1]))
        disks.filled("t", partitions=6)
        cordon = ("config", "set", "broker", "1", f"cordoned.log.dirs={paths[1]}")
        assert disks.kaa(*cordon).exit_code == 0
        assert wait_until(lambda: disks.rows()[paths[1]]["state"] == "cordoned", SECONDS_MAX)
        refused = disks.kaa("topic", "move", "t", "--to", paths[1])
        assert refused.exit_code != 0
        # Once for all that are refused alike.
        assert re.search(r"^error: cannot move (t-\d, )+t-\d: ", refused.stderr, re.MULTILINE)
        assert refused.stderr.count("take it out of cordoned.log.dirs of the broker") == 1
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


class Looks:
    """An admin that answers with one look at the directories after the other, the last for ever."""

    def __init__(self, *looks: list[LogDir]) -> None:
        self.looks = list(looks)

    async def describe_log_dirs(self, _: list[int]) -> list[LogDir]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def place(path: str, *numbers: int, future: tuple[int, ...] = ()) -> LogDir:
    replicas = [
        LogDirReplica(TopicPartition("t", number), 10, 0, number in future)
        for number in (*numbers, *future)
    ]
    return LogDir(1, path, Errors.NONE, -1, -1, tuple(replicas))


@pytest.mark.parametrize(
    ("looks", "code", "given_up"),
    [
        ([[place("/a", 0, 1), place("/b", future=(0, 1))], [place("/b", 0, 1)]], 0, []),
        # The one has arrived, the other was cancelled.
        ([[place("/a", 1), place("/b", 0)]], EXIT_PARTLY, ["t-1"]),
        ([[place("/a", 0, 1), place("/b")]], EXIT_FAILED, ["t-0", "t-1"]),
        # Between two directories of one answer it was in neither.
        ([[place("/a"), place("/b", 0)], [place("/a"), place("/b", 0, 1)]], 0, []),
    ],
)
def test_watching_ends_when_moves_are_given_up(
    looks: list[list[LogDir]],
    code: int,
    given_up: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(directories, "_POLL_SECONDS", 0)
    wanted = {(1, TopicPartition("t", number)): "/b" for number in range(2)}

    async def main() -> int:
        async with asyncio.timeout(SECONDS_MAX):
            return await directories._watch(cast("Any", Looks(*looks)), wanted, 0)

    assert asyncio.run(main()) == code
    told = capsys.readouterr().err
    assert re.findall(r"(\S+) on broker 1 did not move to /b", told) == given_up
    assert ("moved " in told) == (len(given_up) < 2)


def test_move_off_a_cordoned_disk_is_cancelled_as_the_message_says(tmp_path: Path) -> None:
    paths = (str(tmp_path / "one"), str(tmp_path / "two"))
    with BrokerProcess(tmp_path / "node", f"log.dirs={','.join(paths)}") as broker:
        disks = Disks(broker, paths)
        disks.filled("t", partitions=1)
        source = disks.places("t")[0]
        target = next(path for path in paths if path != source)
        assert (
            disks.kaa("config", "set", "broker", "1", f"cordoned.log.dirs={source}").exit_code == 0
        )
        assert wait_until(lambda: disks.rows()[source]["state"] == "cordoned", SECONDS_MAX)
        assert disks.kaa("topic", "move", "t", "--to", target, "--throttle", "1kB").exit_code == 0
        for words in (("topic", "move", "t"), ("cluster", "balance-dirs")):
            refused = disks.kaa(*words, "--cancel")
            assert refused.exit_code != 0
            assert "cancel again, and cordon it afterwards" in refused.stderr
        assert disks.rows()[target]["moves"] == 1
        assert disks.kaa("config", "unset", "broker", "1", "cordoned.log.dirs").exit_code == 0
        assert wait_until(lambda: disks.rows()[source]["state"] == "online", SECONDS_MAX)
        assert disks.kaa("topic", "move", "t", "--cancel").exit_code == 0
        assert disks.rows()[target]["moves"] == 0


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
    dirs = f"log.dirs={','.join(paths.values())}"
    metadata = f"metadata.log.dir={paths['/disk1/kafka']}"
    with BrokerProcess(folder / "node", dirs, metadata) as broker:
        disks = Disks(broker, (paths["/disk1/kafka"], paths["/disk2/kafka"]))
        for step in found:
            words = shlex.split(real(step.command))
            assert words.pop(0) == "kaa"
            done = disks.kaa(*words)
            assert done.exit_code == 0, done.output
            # Columns are as wide as the longest path.
            shown = re.sub(" +", " ", pattern_of(real(step.expected)).replace("\\ ", " "))
            assert re.fullmatch(shown, re.sub(" +", " ", done.output)), (step, done.output)
        broker.stop()
        # The rest of what it says of a disk that is empty, and has the metadata.
        text, (old, new) = Path("docs/guides/disks.md").read_text("utf-8"), map(Path, disks.paths)
        section = text.partition("## Emptying a disk")[2].partition("\n## ")[0]
        note = f"new 0 {'A' * 22} {'B' * 21}A -\n"
        (old / "void-logs").write_text(note)
        to = folder / "metadata"
        to.mkdir()
        for name in ("__cluster_metadata-0", "void-logs", "meta.properties"):
            assert f"`{name}`" in section
            (old / name).rename(to / name)
        broker.overrides = (f"log.dirs={new}", f"metadata.log.dir={to}")
        broker.start()
        assert disks.kaa("config", "unset", "broker", "1", "cordoned.log.dirs").exit_code == 0
        assert {path: row["state"] for path, row in disks.rows().items()} == {str(new): "online"}
        assert set(disks.places("new").values()) == {str(new)}
        broker.stop()
        assert (to / "void-logs").read_text() == note


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
