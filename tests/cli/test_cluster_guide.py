"""The commands of docs/guides/cluster.md, run in their order as they stand there, on one cluster.

`kaa broker start` is a node on a thread, from the same file; `kaa dev --brokers 3` has a test of
its own (`test_supervisor`).
"""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.broker import Broker
from kaa.cli.broker import load_config
from kaa.cli.root import root
from tests.oracle.environment import wait_until
from tests.support.broker_thread import BrokerThread
from tests.support.ports import LOOPBACK, free_port

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "cluster.md").read_text()
NAMES = ("one", "two", "three", "four")
# Little to be made; and four nodes in one process may be slow, which must not cause an election.
# A broker that comes back is taken when the session of its last life has ended: a short one.
SETTINGS = """
offsets.topic.num.partitions=1
controller.quorum.fetch.timeout.ms=10000
broker.session.timeout.ms=6000
"""


def commands() -> Iterator[list[str]]:
    """The words after each prompt."""
    blocks = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return iter([shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")])


class Machines:
    """Four machines with the file of the guide, on one address with ports of their own."""

    def __init__(self, folder: Path) -> None:
        (text,) = re.findall(r"```properties\n(.*?)```", GUIDE, re.DOTALL)
        self._ids: dict[str, str] = {}
        self._ports = {
            f"{name}.example:{port}": f"{LOOPBACK}:{free_port()}"
            for name in NAMES
            for port in (9092, 9093)
        }
        self.files: list[Path] = []
        self._nodes: dict[int, BrokerThread] = {}
        for number, name in enumerate(NAMES, 1):
            place = folder / name
            place.mkdir()
            own = text.replace("//one.example", f"//{name}.example")
            own = own.replace("node.id=1", f"node.id={number}")
            own = own.replace("/var/lib/kaa", str(place / "data")) + SETTINGS
            self.files.append(place / "server.properties")
            self.files[-1].write_text(self.filled(own))

    def filled(self, text: str) -> str:
        """The text with addresses and ids in place of those that stand for them."""
        for name, value in (*self._ports.items(), *self._ids.items()):
            text = text.replace(name, value)
        return text

    def name_ids(self, new_id: Callable[[], str]) -> None:
        self._ids = {name: new_id() for name in ("CLUSTER_ID", *(f"DIRECTORY{i}" for i in "123"))}

    def start(self, *numbers: int) -> None:
        """Starts nodes together, as each of them waits for the others."""
        for number in numbers:
            config = load_config(self.files[number - 1], (), Path()).config
            self._nodes[number] = BrokerThread(Broker(config))
        starts = [threading.Thread(target=self._nodes[number].start) for number in numbers]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        assert all(self._nodes[number].bootstrap_servers for number in numbers)

    def stop(self, *numbers: int) -> None:
        for number in numbers or tuple(self._nodes):
            self._nodes.pop(number).stop()

    @property
    def servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self._nodes.values())


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    made = Machines(folder)
    try:
        yield made
    finally:
        made.stop()


def has_followed(servers: str, node_id: int) -> bool:
    """Whether an observer is at the end of the log, or it would not be taken as a voter."""
    result = CliRunner().invoke(root, ["cluster", "quorum", "-o", "json", "-b", servers])
    rows = json.loads(result.stdout)["replicas"] if result.exit_code == 0 else []
    return any(row["id"] == node_id and row["lag"] == 0 for row in rows)


@pytest.mark.slow
def test_the_guide(tmp_path: Path) -> None:
    words = commands()
    with machines(tmp_path) as made:

        def run(*wanted: str, file: int | None = None, is_served: bool = True) -> Result:
            """The next command, which begins like this."""
            found = [made.filled(word) for word in next(words)]
            assert tuple(found[: len(wanted)]) == wanted
            if file is not None:
                config = str(made.files[file - 1])
                found = [config if word == "server.properties" else word for word in found]
            served = ["-b", made.servers, "--timeout", "90"] if is_served else []
            result = CliRunner().invoke(root, [*found[1:], *served])
            assert result.exit_code == 0, (found, result.output)
            return result

        assert next(words) == ["kaa", "dev", "--brokers", "3"]
        random_uuid = next(words)
        assert random_uuid == ["kaa", "storage", "random-uuid"]
        made.name_ids(lambda: str(CliRunner().invoke(root, random_uuid[1:]).stdout).strip())
        formatting = next(words)
        for number in (1, 2, 3):
            config = str(made.files[number - 1])
            own = [made.filled(word.replace("server.properties", config)) for word in formatting]
            result = CliRunner().invoke(root, own[1:])
            assert result.exit_code == 0, result.output
        start = ["kaa", "broker", "start", "server.properties"]
        assert next(words) == start
        made.start(1, 2, 3)
        topic = ["topic", "create", "orders", "--partitions", "2", "--replication-factor", "2"]
        result = CliRunner().invoke(root, [*topic, "-b", made.servers])
        assert result.exit_code == 0, result.output

        run("kaa", "storage", "format", file=4, is_served=False)
        assert next(words) == start
        made.start(4)
        assert wait_until(lambda: has_followed(made.servers, 4), 90)
        assert "voters: 1, 2, 3, 4" in run("kaa", "cluster", "quorum", "add", file=4).output
        made.stop(1)
        run("kaa", "cluster", "quorum")
        assert "voters: 2, 3, 4" in run("kaa", "cluster", "quorum", "remove", "1").output
        made.start(1)

        run("kaa", "cluster", "reassign", "--balance")
        run("kaa", "cluster", "reassign", "--status")
        run("kaa", "cluster", "reassign", "--cancel")
        run("kaa", "cluster", "drain", "3")
        run("kaa", "cluster", "reassign", "--factor")
        run("kaa", "cluster", "elect")
        run("kaa", "cluster", "elect", "orders-0", "--unclean")
        health = next(words)
        assert health == ["kaa", "cluster", "health"]
        assert wait_until(
            lambda: CliRunner().invoke(root, [*health[1:], "-b", made.servers]).exit_code == 0, 90
        )
        assert not list(words)
