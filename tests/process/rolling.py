"""A cluster whose nodes change from Apache Kafka to Kaa and back, one after the other, on the same
directories and the same `server.properties`, while clients work.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.oracle.environment import wait_until
from tests.oracle.jvm import java_command
from tests.support.cluster_process import ClusterProcesses
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

HEAP_MB = 256
STOP_SECONDS_MAX = 120
# As little memory as a test can do with; Kaa takes none for it.
KAFKA_SETTINGS = ("log.cleaner.dedupe.buffer.size=8388608",)


class JvmProcess:
    """A node of Apache Kafka as a child, which does not outlive this process."""

    def __init__(self, config_file: Path, output_file: Path, prefix: tuple[str, ...] = ()) -> None:
        self._command = [*prefix, *java_command(HEAP_MB), "kafka.Kafka", str(config_file)]
        self.output_file = output_file
        self._shell: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def start(self) -> None:
        # The shell's standard input ends with this process, and the node with it.
        script = (
            'exec 3<&0; "$@" >>"$0" 2>&1 </dev/null & pid=$!; echo "$pid"; '
            '{ cat <&3 >/dev/null; kill -9 "$pid" 2>/dev/null; } & wait "$pid"'
        )
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", script, str(self.output_file), *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._shell.stdout is not None
        self._pid = int(self._shell.stdout.readline())

    def check(self) -> None:
        assert self._shell is not None
        code = self._shell.poll()
        assert code is None, f"Kafka ended with {code}:\n{self.output_file.read_text()[-4000:]}"

    def stop(self) -> None:
        """Stops the node as an operator does."""
        self.check()
        os.kill(self._pid, signal.SIGTERM)
        self._end(STOP_SECONDS_MAX)

    def kill(self) -> None:
        if self._shell is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._end(STOP_SECONDS_MAX)

    def _end(self, seconds: float) -> None:
        shell, self._shell = self._shell, None
        assert shell is not None
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.wait(seconds)
        shell.stdin.close()
        shell.stdout.close()


class RollingCluster:
    """Three nodes in both roles. As a context all of them run as Apache Kafka first."""

    def __init__(self, folder: Path) -> None:
        self.kaa = ClusterProcesses(folder, *KAFKA_SETTINGS)
        self.kafka: dict[int, JvmProcess] = {}
        for node_id, node in self.kaa.nodes.items():
            assert node.config_file is not None
            self.kafka[node_id] = JvmProcess(node.config_file, folder / f"kafka-{node_id}.log")
        self._are_kafka: set[int] = set()

    def __enter__(self) -> Self:
        for node_id in self.node_ids:
            self._start_kafka(node_id)
        self.until_in_sync()
        return self

    def __exit__(self, *exception: object) -> None:
        for node in self.kafka.values():
            node.kill()
        self.kaa.__exit__(*exception)

    @property
    def node_ids(self) -> list[int]:
        return list(self.kaa.nodes)

    @property
    def bootstrap_servers(self) -> str:
        return self.kaa.bootstrap_servers

    def _start_kafka(self, node_id: int) -> None:
        self.kafka[node_id].start()
        self._are_kafka.add(node_id)

    def _stop(self, node_id: int) -> None:
        if node_id in self._are_kafka:
            self._are_kafka.remove(node_id)
            self.kafka[node_id].stop()
        else:
            self.kaa.nodes[node_id].stop()

    def become_kaa(self, node_id: int) -> None:
        self._stop(node_id)
        self.kaa.start(node_id)
        self.until_in_sync()

    def become_kafka(self, node_id: int) -> None:
        self._stop(node_id)
        self._start_kafka(node_id)
        self.until_in_sync()

    def until_in_sync(self) -> None:
        """What an operator waits for before the next node."""
        admin: Any = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

        def is_in_sync() -> bool:
            for node_id in self._are_kafka:
                self.kafka[node_id].check()
            try:
                found = admin.list_topics(timeout=5)
            except KafkaException:
                return False
            topics = found.topics.values()
            return len(found.brokers) == len(self.node_ids) and all(
                one.leader >= 0 and len(one.isrs) == len(one.replicas)
                for topic in topics
                for one in topic.partitions.values()
            )

        assert wait_until(is_in_sync, 2 * PATIENCE_SECONDS), "replicas did not catch up"
