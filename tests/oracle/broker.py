"""A real Kafka broker to compare with: one combined node, quick to start, small, and quiet."""

import json
from pathlib import Path
from typing import Any, Final, Self

from tests.oracle.environment import locked
from tests.oracle.jvm import Jvm, JvmLostError
from tests.oracle.maven import Artifact
from tests.support.ports import LOOPBACK, free_port

HEAP_MB: Final = 512
START_SECONDS_MAX: Final = 90
NODE_ID: Final = 1


class RealKafka:
    """The broker of a run: the first to come starts it, the others find it running."""

    bootstrap_servers: str
    # Address of the controller listener.
    controller: str
    cluster_id: str
    log_dir: Path
    properties: dict[str, str]

    def __init__(
        self,
        run_folder: Path,
        name: str = "broker",
        more: tuple[Artifact, ...] = (),
        /,
        **settings: str,
    ) -> None:
        """Join or start the broker of this name; settings are Kafka's, with _ for each dot."""
        self.jvm = Jvm.shared(run_folder / name, HEAP_MB, more=more)
        facts = self.jvm.folder / "node.json"
        try:
            with locked(self.jvm.folder):
                if not facts.exists():
                    overrides = {key.replace("_", "."): value for key, value in settings.items()}
                    self._start(facts, overrides)
            self.__dict__ |= _read(facts)
        except BaseException:
            self.jvm.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the broker to the others; it ends with the last of them."""
        self.jvm.close()

    def _start(self, facts: Path, overrides: dict[str, str]) -> None:
        cluster_id = self._tool("random-uuid").strip()
        log_dir = facts.parent / "data"
        properties = node_properties(log_dir, free_port(), free_port()) | overrides
        config = facts.with_name("server.properties")
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._tool("format", "--cluster-id", cluster_id, "--config", str(config))
        self.jvm.call_one("broker.start", {"properties": properties}, START_SECONDS_MAX)
        client, controller = (
            address.partition("://")[2] for address in properties["listeners"].split(",")
        )
        facts.write_text(
            json.dumps(
                {
                    "bootstrap_servers": client,
                    "controller": controller,
                    "cluster_id": cluster_id,
                    "log_dir": str(log_dir),
                    "properties": properties,
                }
            )
        )

    def _tool(self, *arguments: str) -> str:
        item = {"name": "StorageTool", "arguments": arguments, "timeoutMs": 60_000}
        result = self.jvm.call_one("tool.run", item)
        if result["code"] != 0:
            raise JvmLostError(f"StorageTool failed: {result['out']}{result['err']}")
        return str(result["out"])


def _read(facts: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(facts.read_text())
    return values | {"log_dir": Path(values["log_dir"])}


def node_properties(log_dir: Path, client_port: int, controller_port: int) -> dict[str, str]:
    """Kafka's defaults, but for what one node and a short life need; Kaa beside it has the same."""
    return {
        "node.id": str(NODE_ID),
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{controller_port}",
        "listeners": (
            f"PLAINTEXT://{LOOPBACK}:{client_port},CONTROLLER://{LOOPBACK}:{controller_port}"
        ),
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{client_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # Tests write records that are years old, and are not to lose them by chance.
        "log.retention.check.interval.ms": "86400000",
        # The default of 128 MiB would take most of the heap.
        "log.cleaner.dedupe.buffer.size": "8388608",
    }
