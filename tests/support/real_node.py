"""A real Kafka node on a data directory that is already there, in a JVM of its own."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Self

from tests.oracle.environment import alive, wait_until
from tests.oracle.jvm import Jvm
from tests.support.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from pathlib import Path

HEAP_MB = 512
START_SECONDS_MAX = 90


class RealNode:
    """Node 1, a broker and controller. As a context it runs, and is stopped cleanly at the end."""

    def __init__(self, run_folder: Path, data_dir: Path, **settings: str) -> None:
        """The settings are Kafka's, with _ for each dot."""
        self._jvm_folder = run_folder
        self._jvm: Jvm | None = None
        self.data_dir = data_dir
        port, controller_port = free_port(), free_port()
        self.bootstrap_servers = f"{LOOPBACK}:{port}"
        self.controller = f"{LOOPBACK}:{controller_port}"
        self.properties = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.bootstrap.servers": self.controller,
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{self.controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.cleaner.dedupe.buffer.size": "8388608",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        self._jvm = Jvm.shared(self._jvm_folder, HEAP_MB)
        try:
            item = {"properties": self.properties}
            self._jvm.call_one("broker.start", item, START_SECONDS_MAX)
        except BaseException:
            self._jvm.stop()
            raise

    def format(self) -> None:
        """Formats the data directory as the only voter of a new cluster."""
        config = self._jvm_folder.with_name("format.properties")
        config.write_text("".join(f"{key}={text}\n" for key, text in self.properties.items()))
        with Jvm.shared(self._jvm_folder, HEAP_MB) as jvm:
            arguments = ("format", "--standalone", "-t", "AAAAAAAAQACAAAAAAAAAAA")
            item = {"name": "StorageTool", "arguments": (*arguments, "-c", str(config))}
            result = jvm.call_one("tool.run", item | {"timeoutMs": 60_000})
            assert result["code"] == 0, result

    def stop(self) -> None:
        """Stops the node cleanly, and its JVM."""
        if self._jvm is not None:
            self._jvm.call_one("broker.stop", None, START_SECONDS_MAX)
            self._jvm.stop()
            self._jvm = None

    def kill(self) -> None:
        """Ends the JVM at once."""
        assert self._jvm is not None
        pid = int(self._jvm.call_one("ping"))
        os.kill(pid, signal.SIGKILL)
        self._jvm.close()
        self._jvm = None
        assert wait_until(lambda: not alive(pid), 60)
