"""Clusters of Kaa, of Apache Kafka, or of both, whose networks, disks and clocks can be broken.

Three brokers (1 to 3) and three controllers (4 to 6), or three nodes in both roles. Every node is a
process in its namespace, with its data on its own disk, and a clock that libfaketime bends where it
is installed (`apt install libfaketime`, or the package of PyPI); monotonic time stays true.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.chaos.disks import Disk
from tests.chaos.network import Network
from tests.oracle.environment import wait_until
from tests.oracle.jvm import class_path
from tests.process.rolling import KAFKA_SETTINGS, JvmProcess
from tests.support.broker_process import BrokerProcess
from tests.support.cluster_process import SETTINGS, format_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

System = Literal["kaa", "kafka", "mixed"]
BROKERS = (1, 2, 3)
CONTROLLERS = (4, 5, 6)
PORT = 9092
CONTROLLER_PORT = 9093
# Which nodes are Apache Kafka in a cluster of both: of each role at least one of each.
KAFKA_OF_MIXED = (2, 4, 6)
SERVING_SECONDS_MAX = 180


class Process(Protocol):
    """What a node of either kind can be asked for."""

    def launch(self) -> object: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    @property
    def pid(self) -> int: ...
    def exit_code(self) -> int | None: ...
    def complaint(self) -> str: ...


class KaaProcess(BrokerProcess):
    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def launch(self, *more_overrides: str) -> subprocess.Popen[bytes]:
        if self.output_file.exists():
            # What earlier lives printed stays, for anyone who looks for a cause.
            with self.output_file.open() as output, self._all_output.open("a") as everything:
                shutil.copyfileobj(output, everything)
        return super().launch(*more_overrides)

    @property
    def _all_output(self) -> Path:
        return self.output_file.with_suffix(".earlier")

    def exit_code(self) -> int | None:
        assert self.process is not None
        return self.process.poll()

    def complaint(self) -> str:
        """What it printed of something that nobody had foreseen."""
        try:
            self._check_output()
        except AssertionError as found:
            return str(found)
        return ""


class KafkaProcess(JvmProcess):
    def launch(self) -> None:
        self.start()

    @property
    def pid(self) -> int:
        return self._pid

    def exit_code(self) -> int | None:
        assert self._shell is not None
        return self._shell.poll()

    def complaint(self) -> str:
        return ""


class Machine:
    """A node with its disk and its clock."""

    def __init__(self, node_id: int, folder: Path, network: Network) -> None:
        self.id = node_id
        self.folder = folder
        self.disk = Disk(folder)
        self.config_file = folder / "server.properties"
        self._clock_file = folder / "clock"
        self._network = network
        self.process: Process
        self.is_running = False

    def configure(self, settings: Sequence[str]) -> None:
        data = self.disk.place / "data"
        lines = [f"node.id={self.id}", f"log.dirs={data}", *settings]
        self.config_file.write_text("\n".join(lines) + "\n")
        format_directory(str(data), self.id)

    def prepare(self, *, is_kafka: bool) -> None:
        prefix = (*self._network.prefix(self.id), *self._clock_prefix())
        if is_kafka:
            self.process = KafkaProcess(self.config_file, self.folder / "output", prefix=prefix)
        else:
            process = KaaProcess(self.folder, config_file=self.config_file, port=PORT)
            process.prefix = prefix
            self.process = process

    def _clock_prefix(self) -> tuple[str, ...]:
        library = clock_library()
        if not library:
            return ()
        self.set_clock(0)
        # The file is read once a second at most; reading it at every look would be the load.
        names = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._clock_file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            # Otherwise timed waits of a JVM end at once while its clock is off.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
        return ("env", *(f"{name}={value}" for name, value in names.items()))

    def set_clock(self, seconds_off: int) -> None:
        self._clock_file.write_text(f"{seconds_off:+d}s\n")

    # --- life

    def launch(self) -> None:
        self.process.launch()
        self.is_running = True

    def kill(self) -> None:
        self.process.kill()
        self.is_running = False

    def stop(self) -> None:
        self.process.stop()
        self.is_running = False

    def has_ended(self) -> bool:
        return self.is_running and self.process.exit_code() is not None

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


class Machines:
    """See the module's text. As a context the cluster serves, and is gone at the end."""

    def __init__(self, folder: Path, system: System, *, is_combined: bool = False) -> None:
        self.system = system
        self.controllers = BROKERS if is_combined else CONTROLLERS
        self.ids = BROKERS if is_combined else (*BROKERS, *CONTROLLERS)
        self.network = Network(self.ids)
        self.nodes = {
            node_id: Machine(node_id, folder / str(node_id), self.network) for node_id in self.ids
        }
        self._stack = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.network.address(node_id)}:{PORT}" for node_id in BROKERS)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.network)
            for node in self.nodes.values():
                stack.enter_context(node.disk)
                node.configure(self._settings(node.id))
                node.prepare(is_kafka=self.is_kafka(node.id))
                stack.callback(node.kill)
            if self.system != "kaa":
                # By Maven, once, and not while nodes wait for each other.
                class_path()
            for node in self.nodes.values():
                node.launch()
            assert self.until_in_sync(), "the cluster did not start"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def is_kafka(self, node_id: int) -> bool:
        return self.system == "kafka" or (self.system == "mixed" and node_id in KAFKA_OF_MIXED)

    def _settings(self, node_id: int) -> list[str]:
        address = self.network.address(node_id)
        roles = [
            role
            for role, ids in (("broker", BROKERS), ("controller", self.controllers))
            if node_id in ids
        ]
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://{address}:{PORT}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://{address}:{CONTROLLER_PORT}")
        voters = ",".join(
            f"{voter}@{self.network.address(voter)}:{CONTROLLER_PORT}" for voter in self.controllers
        )
        return [
            f"process.roles={','.join(roles)}",
            f"listeners={','.join(listeners)}",
            f"controller.quorum.voters={voters}",
            *SETTINGS,
            # A link that is cut is to be given up before a fault is over.
            "controller.quorum.request.timeout.ms=2000",
            "replica.socket.timeout.ms=5000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms=2000",
            *KAFKA_SETTINGS,
        ]

    # --- health

    def until_in_sync(self, seconds: float = SERVING_SECONDS_MAX) -> bool:
        """Waits until every broker serves and has all its replicas; tells whether it came so."""
        admin: Any = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

        def is_in_sync() -> bool:
            try:
                found = admin.list_topics(timeout=5)
            except KafkaException:
                return False
            return len(found.brokers) == len(BROKERS) and all(
                one.leader >= 0 and len(one.isrs) == len(one.replicas)
                for topic in found.topics.values()
                for one in topic.partitions.values()
            )

        return wait_until(is_in_sync, seconds)

    def complaints(self) -> list[str]:
        """What is wrong with processes, beside what was done to them."""
        found = []
        for node in self.nodes.values():
            if node.has_ended():
                found.append(f"node {node.id} ended with {node.process.exit_code()}")
            if text := node.process.complaint():
                found.append(f"node {node.id} printed: {text[-2000:]}")
        return found


def clock_library() -> str:
    """The path of libfaketime; empty if it is not installed."""
    places = list(Path("/usr/lib").glob("*/faketime"))
    spec = importlib.util.find_spec("libfaketime")
    if spec is not None:
        places += [Path(place) for place in spec.submodule_search_locations or ()]
    found = (path for place in places for path in place.rglob("libfaketime.so.1"))
    return next((str(path) for path in found), "")
