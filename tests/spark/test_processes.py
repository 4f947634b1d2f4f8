"""Queries as programs of their own: found from any shell, killed at any time, gone after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import psutil
import pytest

from kaa.client import TopicPartition
from kaa.client.offsets import LATEST
from tests.oracle.environment import wait_until
from tests.spark.conftest import Cluster, numbered
from tests.support.broker_process import BrokerProcess

PROGRAM = Path(__file__).with_name("query_program.py")
ROOT = Path(__file__).parents[2]
ROWS = 1_000


class Program:
    """A run of the query."""

    def __init__(self, servers: str, topic: str, folder: Path) -> None:
        self.output = folder / "output"
        # As from a shell in which no environment is active and Spark knows nothing.
        wanted = {"HOME", "LANG", "JAVA_HOME", "TMPDIR", "XDG_CACHE_HOME", "PYTHONPATH"}
        environment = {name: value for name, value in os.environ.items() if name in wanted}
        java = Path(psutil.Process().environ().get("JAVA_HOME", ""), "bin")
        environment["PATH"] = f"/usr/bin:/bin:{java}"
        arguments = [servers, topic, f"{topic}-out", str(folder / "checkpoint")]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                env=environment,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def family(self) -> list[psutil.Process]:
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def kill(self) -> None:
        """Everything at once, as when a machine loses its power."""
        family = self.family()
        for one in family:
            one.kill()
        self.process.wait()
        psutil.wait_procs(family, timeout=20)


def visible(servers: str, topic: str) -> list[bytes]:
    from kaa.client.sync import Consumer

    settings = {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition(topic, number) for number in (0, 1)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        found: list[bytes] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            for records in consumer.poll(timeout_ms=200).values():
                found += [bytes(record.value or b"") for record in records]
    return sorted(found)


@pytest.mark.parametrize("seed", [20])
def test_a_query_that_is_killed_writes_every_row_once(
    kaa_node: BrokerProcess, topic: str, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    cluster = Cluster(kaa_node.bootstrap_servers)
    cluster.create(topic, 2)
    cluster.create(f"{topic}-out", 2)
    cluster.send(topic, numbered(0, ROWS))
    ends = {TopicPartition(f"{topic}-out", number): LATEST for number in (0, 1)}

    def written() -> int:
        found = cluster.admin(lambda one: one.list_offsets(ends))
        return sum(answer.offset for answer in found.values())

    # The first run dies in the middle of its work, wherever that is.
    program = Program(kaa_node.bootstrap_servers, topic, tmp_path)
    enough = random.randrange(150, 400)
    assert wait_until(lambda: written() >= enough, 150), program.output.read_text()
    program.kill()
    # The second one is interrupted from the keyboard, and takes its Java with it.
    program = Program(kaa_node.bootstrap_servers, topic, tmp_path)
    before = written()
    assert wait_until(lambda: written() > before, 150), program.output.read_text()
    family = program.family()
    os.killpg(program.process.pid, signal.SIGINT)
    program.process.wait(60)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, alive
    # The third one finishes.
    program = Program(kaa_node.bootstrap_servers, topic, tmp_path)
    assert program.process.wait(200) == 0, program.output.read_text()
    expected = sorted(value for _, value in numbered(0, ROWS))
    assert visible(kaa_node.bootstrap_servers, f"{topic}-out") == expected
