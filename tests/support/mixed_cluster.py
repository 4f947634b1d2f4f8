"""Kaa and Apache Kafka as controllers and brokers of one cluster, each node a process of its own.

Every node has both roles. `Storm` creates topics at all brokers all the time and remembers which of
them it was promised; `check_equal` wants those on every node, and one metadata log on all disks,
byte by byte as far as each of them goes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from kaa.client.admin.admin import NewTopic
from kaa.client.errors import ClientError
from kaa.client.sync import Admin
from kaa.wire.primitives import Uuid
from tests.oracle.environment import wait_until
from tests.oracle.jvm import Jvm
from tests.support.broker_process import START_SECONDS_MAX, BrokerProcess
from tests.support.ids import uuid
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kaa.client.admin.quorum import QuorumDescription
    from tests.oracle.client import Oracle

HEAP_MB = 256
CLUSTER_ID = "kaa-and-kafka-together"
SETTLED_SECONDS_MAX = 90
_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
}


class _Node:
    """One node of either kind, on ports that stay."""

    def __init__(self, folder: Path, node_id: int) -> None:
        self.id = node_id
        self.folder = folder
        self.port, self.controller_port = free_port(), free_port()
        self.bootstrap_servers = f"{LOOPBACK}:{self.port}"
        self.controller = f"{LOOPBACK}:{self.controller_port}"
        self.config = folder / "server.properties"
        self.properties: dict[str, str] = {}
        self.directory_id = uuid(1_000 + node_id)

    def configure(self, settings: Mapping[str, str]) -> None:
        client, controller = (
            f"PLAINTEXT://{self.bootstrap_servers}",
            f"CONTROLLER://{self.controller}",
        )
        self.properties = {
            **_SETTINGS,
            "node.id": str(self.id),
            "listeners": f"{client},{controller}",
            "advertised.listeners": client,
            "log.dirs": str(self.folder / "data"),
            **settings,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(
            "".join(f"{key}={value}\n" for key, value in self.properties.items())
        )

    @property
    def log(self) -> bytes:
        """The metadata log; segments that were not cleaned away, one after the other."""
        place = self.folder / "data" / "__cluster_metadata-0"
        return b"".join(path.read_bytes() for path in sorted(place.glob("*.log")))

    def keep(self, printed: Path) -> None:
        """Sets aside what a life of the node printed: the next one begins anew."""
        if printed.exists():
            lives = len(list(self.folder.glob("output-*")))
            shutil.copyfile(printed, self.folder / f"output-{lives + 1}")

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...

    def pid(self) -> int:
        raise AssertionError


class _KaaNode(_Node):
    process: BrokerProcess

    def start(self) -> None:
        self.process = BrokerProcess(self.folder, config_file=self.config, port=self.port)
        self.process.start()

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()
        self.keep(self.process.output_file)

    def pid(self) -> int:
        assert self.process.process is not None
        return self.process.process.pid


class _KafkaNode(_Node):
    jvm: Jvm | None = None

    def start(self) -> None:
        if self.jvm is None:
            self.jvm = Jvm.shared(self.folder.with_name(f"jvm-{self.id}"), HEAP_MB)
        self.jvm.call_one("broker.start", {"properties": self.properties}, START_SECONDS_MAX)

    def stop(self) -> None:
        assert self.jvm is not None
        self.jvm.call_one("broker.stop", None, START_SECONDS_MAX)

    def kill(self) -> None:
        if self.jvm is not None:
            # It takes its folder with it.
            self.keep(self.jvm.folder / "log")
            self.jvm.stop()
            self.jvm = None

    def pid(self) -> int:
        assert self.jvm is not None
        return int(self.jvm.call_one("ping"))


class MixedCluster:
    """See the module's text. As a context it runs, and every process ends with it."""

    def __init__(
        self,
        folder: Path,
        oracle: Oracle,
        kaa: Sequence[int],
        kafka: Sequence[int],
        *,
        is_dynamic: bool,
        settings: Sequence[str] = (),
    ) -> None:
        """Every node has the settings, each given as name=value."""
        self._oracle = oracle
        self._settings = dict(text.split("=", 1) for text in settings)
        self.nodes: dict[int, _Node] = {
            node_id: kind(folder / str(node_id), node_id)
            for kind, ids in ((_KaaNode, kaa), (_KafkaNode, kafka))
            for node_id in ids
        }
        self.running: set[int] = set()
        # The processes that stand still, by node.
        self._paused: dict[int, int] = {}
        self._is_dynamic = is_dynamic
        for node_id in self.nodes:
            self.format(node_id)

    def format(self, node_id: int, *, joins: bool = False) -> None:
        """Formats a node, by the tool of its own kind; one that joins knows no voters."""
        node, nodes = self.nodes[node_id], self.nodes.values()
        if self._is_dynamic:
            servers = ",".join(each.controller for each in nodes)
            quorum = {"controller.quorum.bootstrap.servers": servers}
        else:
            voters = ",".join(f"{each.id}@{each.controller}" for each in nodes)
            quorum = {"controller.quorum.voters": voters}
        node.configure(self._settings | quorum)
        arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(node.config)]
        if joins:
            arguments.append("--no-initial-controllers")
        elif self._is_dynamic:
            voters = ",".join(f"{each.id}@{each.controller}:{each.directory_id}" for each in nodes)
            arguments += ["--initial-controllers", voters]
        if isinstance(node, _KaaNode):
            from click.testing import CliRunner

            from kaa.cli.storage import command

            done = CliRunner().invoke(command, arguments)
            assert done.exit_code == 0, done.output
        else:
            self.tool("StorageTool", *arguments)
        text = (node.folder / "data" / "meta.properties").read_text()
        (found,) = re.findall(r"^directory.id=(.+)$", text, re.MULTILINE)
        node.directory_id = Uuid.parse(found)

    def __enter__(self) -> Self:
        try:
            self.start(*self.nodes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for node_id in tuple(self._paused):
            self.resume(node_id)
        for node_id in self.nodes:
            with suppress(Exception):
                self.nodes[node_id].kill()

    # --- life

    def start(self, *node_ids: int) -> None:
        """Starts nodes at the same time: none of them alone has a majority."""
        failed: list[BaseException] = []

        def begin(node: _Node) -> None:
            try:
                node.start()
            except BaseException as error:  # noqa: BLE001 - it is reported by the thread that waits
                failed.append(error)

        threads = [threading.Thread(target=begin, args=(self.nodes[each],)) for each in node_ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        self.running |= set(node_ids)

    def stop(self, node_id: int) -> None:
        self.running.discard(node_id)
        self.nodes[node_id].stop()

    def kill(self, node_id: int) -> None:
        self.running.discard(node_id)
        self.nodes[node_id].kill()

    def pause(self, node_id: int) -> None:
        self._paused[node_id] = self.nodes[node_id].pid()
        os.kill(self._paused[node_id], signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        os.kill(self._paused.pop(node_id), signal.SIGCONT)

    # --- questions

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.nodes[node_id].bootstrap_servers for node_id in sorted(self.running))

    @property
    def ids(self) -> list[int]:
        return sorted(self.nodes)

    def address(self, node_id: int) -> str:
        return self.nodes[node_id].bootstrap_servers

    def tool(self, name: str, *arguments: str) -> str:
        """What one of Kafka's tools prints; it must succeed."""
        done = self._oracle.run_tool(name, *arguments)
        assert done.code == 0, f"{name} {arguments}: {done.out}{done.err}"
        return done.out

    def quorum(self) -> QuorumDescription:
        """As some broker passes it on. Five seconds for each that is asked."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "default.api.timeout.ms": "20000",
        }
        with Admin(settings) as admin:
            return admin.describe_quorum()

    def voters(self) -> list[int]:
        return sorted(voter.node_id for voter in self.quorum().voters)

    def leader(self) -> int:
        """Who leads, once somebody does."""
        found = [-1]

        def is_found() -> bool:
            with suppress(ClientError):
                found[0] = self.quorum().leader_id
            return found[0] in self.running

        assert wait_until(is_found, SETTLED_SECONDS_MAX), "nobody leads"
        return found[0]

    # --- changes of the voters, by Kafka's tool

    def remove(self, node_id: int, *, by_controller: bool) -> None:
        node = self.nodes[node_id]
        self._change(
            by_controller,
            "remove-controller",
            "--controller-id",
            str(node_id),
            "--controller-directory-id",
            str(node.directory_id),
        )

    def add(self, node_id: int, *, by_controller: bool) -> None:
        config = self.nodes[node_id].config
        self._change(by_controller, "--command-config", str(config), "add-controller")

    def _change(self, by_controller: bool, *arguments: str) -> None:
        """A change is refused while another is under way, the newcomer has not caught up, or the
        leader is gone.
        """
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while True:
            nodes = [self.nodes[node_id] for node_id in sorted(self.running)]
            if by_controller:
                address = ["--bootstrap-controller", ",".join(each.controller for each in nodes)]
            else:
                address = ["--bootstrap-server", ",".join(each.bootstrap_servers for each in nodes)]
            done = self._oracle.run_tool("MetadataQuorumCommand", *address, *arguments)
            if done.code == 0 or "DuplicateVoter" in done.err or "VoterNotFound" in done.err:
                # The answer to an earlier try may have been lost.
                return
            is_early = re.search(r"Timeout|TimedOut|NotLeaderOrFollower", done.err)
            assert is_early, f"{done.out}{done.err}"
            assert time.monotonic() < deadline, f"{arguments}: {done.out}{done.err}"

    # --- the end

    def check_equal(self, promised: Sequence[str]) -> None:
        """Every running node knows every topic that was promised; then all stop, and compare."""
        for node_id in sorted(self.running):
            with Admin({"bootstrap.servers": self.nodes[node_id].bootstrap_servers}) as admin:

                def lacks(admin: Admin = admin) -> set[str]:
                    return set(promised) - {topic.name for topic in admin.list_topics()}

                assert wait_until(lambda: not lacks(), SETTLED_SECONDS_MAX), (node_id, lacks())
        for node_id in sorted(self.running):
            self.kill(node_id)
        logs = {node_id: node.log for node_id, node in self.nodes.items()}
        common = min(map(len, logs.values()))
        assert common > 0
        first, *others = [log[:common] for log in logs.values()]
        assert all(other == first for other in others), "the metadata logs differ"


class Storm:
    """Creates topics without end, by turns at every broker; `promised` are those that exist."""

    def __init__(self, cluster: MixedCluster) -> None:
        self._cluster = cluster
        self.promised: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            for node_id in sorted(self._cluster.running):
                number += 1
                with suppress(ClientError):
                    self._create(self._cluster.nodes[node_id].bootstrap_servers, f"storm-{number}")

    def _create(self, bootstrap_servers: str, name: str) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
        with Admin(settings | {"default.api.timeout.ms": "4000"}) as admin:
            outcome = admin.create_topics([NewTopic(name, 1, 1)])
        if outcome == {name: None}:
            self.promised.append(name)

    def wait_for_more(self, count: int) -> None:
        """Until some more topics exist."""
        wanted = len(self.promised) + count
        assert wait_until(lambda: len(self.promised) >= wanted, SETTLED_SECONDS_MAX)
