"""The systems under test, each a child process with a folder and ports of its own.

Kaa runs as users run it, by `kaa broker start` or, on every core, by `kaa host start`. Apache Kafka
runs in a JVM with the flags of its own start script, once with the heap of that script and once
with 256 MiB. Both get the same settings on top of their defaults. A node is ready when a client
sees it in an answer to Metadata.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

import psutil

from kaa.wire.messages.k03_metadata import MetadataRequest
from kaa.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.oracle.environment import command
from tests.oracle.maven import jars
from tests.support.ports import LOOPBACK, free_port
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable

KAA: Final = "kaa"
KAFKA: Final = "kafka"
KAFKA_SMALL: Final = "kafka-256m"
# Kaa as another checkout has it.
BEFORE: Final = "before"
# A setting of the bench and not of Kaa: so many brokers, by `kaa host start`.
HOST_BROKERS: Final = "bench.host.brokers"
# What a JVM of Kafka gets; the first is the default of its start script.
HEAPS: Final = {KAFKA: "1G", KAFKA_SMALL: "256M"}
START_SECONDS_MAX: Final = 120.0
STOP_SECONDS_MAX: Final = 60.0
METADATA_VERSION: Final = 12
CLUSTER_ID: Final = "AAAAAAAAQACAAAAAAAAAAA"
_LAG: Final = re.compile(
    r"^loop lag +p50 ([\d.]+) p99 ([\d.]+) p99.9 ([\d.]+) max ([\d.]+) ms of (\d+)$", re.MULTILINE
)
_JVM_FLAGS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_API_VERSIONS: Final = ApiVersionsRequest(
    client_software_name="kaa-bench", client_software_version="1"
)
_LOG4J: Final = Path(__file__).parents[1] / "tests" / "oracle" / "java" / "log4j2.properties"
# For both: one replica of internal topics, no wait for more members, and files of deleted topics
# that make room at once.
SETTINGS: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
    "auto.create.topics.enable": "false",
    "message.max.bytes": "2097152",
}


class StartFailedError(Exception):
    """A node did not become ready; the text ends with what it printed."""


class BrokerNode:
    """A node that can be stopped, killed and started again on its data."""

    side: str

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.properties_file = folder / "server.properties"
        self.settings = SETTINGS | (settings or {})
        self.port = free_port()
        self.output_file = folder / "output"
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self.start_seconds = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """All processes that serve."""
        return (self.pid,)

    @property
    def brokers_wanted(self) -> int:
        """How many of them clients have to see before it is ready."""
        return 1

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        return self.output_file.read_text(errors="replace")

    def command(self) -> list[str]:
        raise AssertionError

    def prepare(self) -> None:
        """Called once, before the first start."""

    def __enter__(self) -> Self:
        self.prepare()
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> float:
        """Starts the node; returns the seconds until it was ready."""
        started = time.monotonic()
        self._output = self.output_file.open("ab")
        self._process = subprocess.Popen(
            self.command(), stdin=subprocess.PIPE, stdout=self._output, stderr=subprocess.STDOUT
        )
        try:
            while not self._is_ready():
                if not self.is_running or time.monotonic() - started > START_SECONDS_MAX:
                    raise StartFailedError(f"{self.side} did not start\n{self.output[-3000:]}")
                time.sleep(0.01)
        except BaseException:
            # Ctrl-C too leaves nothing behind.
            self.kill()
            raise
        self.start_seconds = time.monotonic() - started
        return self.start_seconds

    def _is_ready(self) -> bool:
        try:
            with RawClient(self.bootstrap_servers) as client:
                client.socket.settimeout(2)
                answer = client.ask(MetadataRequest(topics=[]), METADATA_VERSION)
                return len(answer.brokers) >= self.brokers_wanted
        except (OSError, EOFError):
            return False

    def stop(self) -> float:
        """Stops the node cleanly; returns the seconds that took."""
        assert self._process is not None
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._forget()
        return time.monotonic() - started

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._output is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._output.close()
        self._process = None

    def served(self) -> dict[int, tuple[int, int]]:
        """The versions of each API, by key."""
        with RawClient(self.bootstrap_servers) as client:
            answer = client.ask(_API_VERSIONS, 3)
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def loop_lag(self) -> dict[str, float]:
        """How late its event loop was since the last call; empty for a system without one."""
        return {}


class KaaNode(BrokerNode):
    side = KAA
    python = sys.executable
    # Ends with the process that started it, whatever becomes of that one.
    program = (
        "import os, threading\n"
        "threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()\n"
        "from kaa.cli import main; main()"
    )

    def command(self) -> list[str]:
        overrides = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}", **self.settings}
        words = [self.python, "-c", self.program, "broker", "start"]
        words += ["--data-dir", str(self.data_dir)]
        return words + [
            word for name, text in overrides.items() for word in ("--override", f"{name}={text}")
        ]

    def loop_lag(self) -> dict[str, float]:
        seen = self.output.count("loop lag")
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 5
        while self.output.count("loop lag") == seen and time.monotonic() < deadline:
            time.sleep(0.005)
        found = _LAG.findall(self.output)
        if not found or int(found[-1][4]) == 0:
            return {}
        p50, p99, p999, most, _ = map(float, found[-1])
        return {"lag_p50_ms": p50, "lag_p99_ms": p99, "lag_p99.9_ms": p999, "lag_max_ms": most}


class EarlierKaaNode(KaaNode):
    """Runs in the environment of another checkout."""

    side = BEFORE


class KaaHostNode(KaaNode):
    """Several brokers on every core of the machine, by `kaa host start`: one voter, which is a
    broker as well, and brokers beside it. Clients begin at the first.
    """

    def __init__(
        self, folder: Path, settings: dict[str, str], brokers: int, side: str = KAA
    ) -> None:
        super().__init__(folder, settings)
        self.side = side
        self.python = (EarlierKaaNode if side == BEFORE else KaaNode).python
        self.brokers = brokers
        self.port = free_port(*range(1, brokers))
        self._controller_port = free_port()

    def command(self) -> list[str]:
        words = [self.python, "-c", self.program, "host", "start", str(self.properties_file)]
        return [*words, "--brokers", str(self.brokers)]

    def prepare(self) -> None:
        lines = (
            f"{key}={text}\n"
            for key, text in _combined(self, self._controller_port, self.data_dir).items()
        )
        self.properties_file.write_text("".join(lines))
        words = ["storage", "format", "--standalone", "-t", CLUSTER_ID]
        words += ["-c", str(self.properties_file)]
        done = subprocess.run(
            [self.python, "-c", "from kaa.cli import main; main()", *words],
            capture_output=True,
            check=False,
            text=True,
        )
        if done.returncode != 0:
            raise StartFailedError(f"Kaa's storage was not formatted\n{done.stdout}{done.stderr}")

    @property
    def pids(self) -> tuple[int, ...]:
        children = psutil.Process(self.pid).children(recursive=True)
        return (self.pid, *(child.pid for child in children))

    @property
    def brokers_wanted(self) -> int:
        return self.brokers

    def loop_lag(self) -> dict[str, float]:
        """Each broker has a loop of its own; none stands for all."""
        return {}

    def kill(self) -> None:
        """The brokers too, before anybody removes their files."""
        if not self.is_running:
            super().kill()
            return
        children = psutil.Process(self.pid).children(recursive=True)
        super().kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, STOP_SECONDS_MAX)


def _combined(node: BrokerNode, controller_port: int, data_dir: Path) -> dict[str, str]:
    """The settings of a node that is broker and controller."""
    controller = f"{LOOPBACK}:{controller_port}"
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{node.bootstrap_servers},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{node.bootstrap_servers}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data_dir),
        **node.settings,
    }


class KafkaNode(BrokerNode):
    def __init__(
        self, folder: Path, settings: dict[str, str] | None = None, side: str = KAFKA
    ) -> None:
        super().__init__(folder, settings)
        self.side = side
        self._controller_port = free_port()

    def java(self, heap: str, *words: str) -> list[str]:
        return [
            command("java", "run Kafka"),
            f"-Xmx{heap}",
            f"-Xms{heap}",
            *_JVM_FLAGS,
            f"-Dlog4j2.configurationFile={_LOG4J}",
            "-cp",
            f"{jars()}/*",
            *words,
        ]

    def command(self) -> list[str]:
        return self.java(HEAPS[self.side], "kafka.Kafka", str(self.properties_file))

    def prepare(self) -> None:
        settings = _combined(self, self._controller_port, self.data_dir)
        if self.side == KAFKA_SMALL:
            # With its default of 128 MiB the cleaner would take half of this heap.
            settings["log.cleaner.dedupe.buffer.size"] = "16777216"
        self.properties_file.write_text(
            "".join(f"{key}={text}\n" for key, text in settings.items())
        )
        words = ("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID)
        done = subprocess.run(
            self.java("128M", *words, "-c", str(self.properties_file)),
            capture_output=True,
            check=False,
            text=True,
        )
        if done.returncode != 0:
            raise StartFailedError(f"Kafka's storage was not formatted\n{done.stdout}{done.stderr}")


MAKERS: Final[dict[str, Callable[[Path, dict[str, str]], BrokerNode]]] = {
    KAA: KaaNode,
    BEFORE: EarlierKaaNode,
    KAFKA: KafkaNode,
    KAFKA_SMALL: lambda folder, settings: KafkaNode(folder, settings, KAFKA_SMALL),
}


def make_node(side: str, folder: Path, settings: dict[str, str] | None = None) -> BrokerNode:
    own = dict(settings or {})
    brokers = own.pop(HOST_BROKERS, None)
    if brokers is not None:
        return KaaHostNode(folder / side, own, int(brokers), side)
    return MAKERS[side](folder / side, own)


def use_checkout(folder: Path) -> None:
    """Which checkout runs as `BEFORE`; it has to have its environment."""
    python = folder / ".venv" / "bin" / "python"
    if not python.exists():
        raise StartFailedError(f"{folder} has no environment; run scripts/check in it first")
    EarlierKaaNode.python = str(python)


def raise_descriptor_limit() -> None:
    """For this process and its children: connections and segments are descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
