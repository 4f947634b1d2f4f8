"""A standalone cluster of Spark on this machine: a master, a worker, and tasks that fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from kaa.spark.sessions import environment
from tests.oracle.environment import wait_until
from tests.spark.copying import Copy
from tests.spark.programs import Program, shell
from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import broker_thread
from tests.support.tiered import ONE_REPLICA, QUICK, fill, make_topic, wait_until_tiered

pytestmark = [pytest.mark.xdist_group("spark cluster"), pytest.mark.timeout(600)]

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
KAA = [sys.executable, "-c", "from kaa.cli import main; main()"]
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
}
HISTORY_RECORDS = 1_500


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """The address of a master with one worker, which keeps a folder for each application."""
    master = Daemon(folder, "master")
    try:
        address = master.wait_for(r"Starting Spark master at (spark://\S+)")
        work = str(folder / "work")
        worker = Daemon(folder, "worker", "-c", "2", "-m", "1g", "-d", work, address)
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
    attempted = tmp_path / "attempts"
    attempted.mkdir()
    program = Program("cluster", tmp_path, master, copy.servers, topic, copy.out, str(attempted))
    program.end()
    # Two batches, in each of which the first attempt failed and the second did not.
    attempts = sorted(path.name for path in attempted.iterdir() if path.is_file())
    assert attempts == ["0-0", "0-1", "1-0", "1-1"], program.output
    copy.check()
    # The rows of the attempts that failed were written as well, and aborted.
    assert copy.written() > 1_000


def run_kaa(*arguments: str) -> str:
    """What a command prints that is started from a shell."""
    done = subprocess.run(
        [*KAA, *arguments, "-o", "json"], env=shell(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jobs_over_the_tier(master: str, folder: Path, tmp_path: Path) -> None:
    def applications() -> int:
        return len(list((folder / "work").glob("app-*")))

    before = applications()
    store = (tmp_path / "store").as_uri()
    conf = [word for name, value in SMALL.items() for word in ("--conf", f"{name}={value}")]
    table = ["--warehouse", str(tmp_path / "tables"), "--layout", "parquet"]
    settings = (*QUICK, *ONE_REPLICA, f"rsm.config.url={store}")
    with broker_thread(tmp_path / "data", *settings) as node:
        servers = node.bootstrap_servers
        make_topic(servers, "history")
        fill(servers, "history", HISTORY_RECORDS)
        end = wait_until_tiered(servers, "history")
        job = ["history", "-b", servers, "--store", store, "--master", master, *conf]
        audited = json.loads(run_kaa("tier", "audit", *job))
        (partition,) = audited["partitions"]
        assert (partition["records"], audited["findings"]) == (end, [])
        run_kaa("tier", "convert", *job, *table, "--yes")
        landed = json.loads(run_kaa("lake", "status", "history", "-b", servers, *table))
        assert landed["rows"] == landed["partitions"][0]["offset"] == end
    assert applications() == before + 2
