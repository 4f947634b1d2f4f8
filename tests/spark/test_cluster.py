"""A standalone cluster of Spark on this machine: a master, a worker, and tasks that fail."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from kaa.spark.sessions import environment
from tests.oracle.environment import wait_until
from tests.spark.copying import Copy
from tests.spark.programs import Program, shell
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.xdist_group("spark cluster"), pytest.mark.timeout(600)]

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"


class Daemon:
    """A process of the cluster; the classes are in the package, only their scripts are not."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.output_file = folder / name
        variables = shell()
        variables |= {"SPARK_HOME": str(SPARK_HOME)} | environment(variables)
        variables |= {
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        program = str(SPARK_HOME / "bin" / "spark-class")
        kind = f"org.apache.spark.deploy.{name}.{name.capitalize()}"
        bound = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        with self.output_file.open("wb") as output:
            self.process = subprocess.Popen(
                [program, kind, *bound, *arguments],
                env=variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> str:
        """Waits until its output has this, and gives the first group of it."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, self.output_file.read_text("utf-8", "replace"))

        assert wait_until(lambda: found() is not None, 60), self.output_file.read_text()
        match = found()
        assert match is not None
        return match[1]

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(60)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with one worker."""
    master = Daemon(tmp_path, "master")
    try:
        address = master.wait_for(r"Starting Spark master at (spark://\S+)")
        work = str(tmp_path / "work")
        worker = Daemon(tmp_path, "worker", "-c", "2", "-m", "1g", "-d", work, address)
        try:
            worker.wait_for(r"(Successfully registered with master)")
            yield address
        finally:
            worker.stop()
    finally:
        master.stop()


def test_a_task_that_fails_is_tried_again_and_its_rows_are_there_once(
    master: str, kaa_node: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    copy = Copy(kaa_node.bootstrap_servers, topic, tmp_path)
    folder = tmp_path / "attempts"
    folder.mkdir()
    program = Program("cluster", tmp_path, master, copy.servers, topic, copy.out, str(folder))
    program.end()
    # Two batches, in each of which the first attempt failed and the second did not.
    attempts = sorted(path.name for path in folder.iterdir() if path.is_file())
    assert attempts == ["0-0", "0-1", "1-0", "1-1"], program.output
    copy.check()
    # The rows of the attempts that failed were written as well, and aborted.
    assert copy.written() > 1_000
