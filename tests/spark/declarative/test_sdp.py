"""`kaa pipeline init --sdp`: the project runs by `spark-pipelines`, and runs again.

A file of docs/guides/spark-recipes.md is in the project too, as it stands there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

from kaa.cli.root import root
from kaa.client import TopicPartition
from kaa.client.sync import Consumer
from kaa.spark.lake.table_state import open_existing, plan_read, read_file
from kaa.spark.sessions import environment
from tests.spark.conftest import Cluster, numbered
from tests.spark.guides import blocks, with_places
from tests.spark.programs import shell
from tests.support.broker_process import BrokerProcess

# Its server listens where that of Spark Connect does: they run one after the other.
pytestmark = [pytest.mark.xdist_group("spark connect"), pytest.mark.timeout(900)]

RUN_SECONDS = 400.0
# One flow after the other, so that a small machine keeps up with the processes they start.
SETTINGS = ["--conf", "spark.ui.enabled=false"]
SETTINGS += ["--conf", "spark.sql.pipelines.execution.maxConcurrentFlows=1"]


def run(folder: Path) -> None:
    home = Path(pyspark.__file__).parent
    variables = {**shell(), "HOME": str(folder), "SPARK_HOME": str(home)}
    source = str(Path(__file__).parents[3] / "src")
    output = folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-pipelines"), "run", *SETTINGS],
            cwd=folder,
            env={**variables, "PYTHONPATH": source, **environment({})},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            # It has started a server of its own.
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    assert code == 0, output.read_text()[-8000:]


def landed(folder: Path) -> list[str]:
    options = {"table": "shop.shouted", "warehouse": str(folder / "lake")}
    plan = plan_read(*open_existing(options))
    rows = [row for file in plan.files for one in read_file(plan, file) for row in one.to_pylist()]
    return sorted(row["value"] for row in rows)


def test_twice_in_a_row(kaa_node: BrokerProcess, topic: str, tmp_path: Path) -> None:
    cluster = Cluster(kaa_node.bootstrap_servers)
    cluster.create(topic, 2)
    cluster.create(f"{topic}-shouted", 1)
    folder = tmp_path / "shop"
    arguments = ["pipeline", "init", str(folder), "--sdp", "--topic", topic]
    made = CliRunner().invoke(root, [*arguments, "--servers", kaa_node.bootstrap_servers])
    assert made.exit_code == 0, made.output
    orders, large = f"{topic}-orders", f"{topic}-large"
    cluster.create(orders, 1)
    cluster.create(large, 1)
    (recipe,) = blocks("spark-recipes.md", "Declarative pipelines")
    names = {"orders": orders, "large-orders": large}
    recipe = with_places(recipe, kaa_node.bootstrap_servers, folder, names)
    (folder / "transformations" / "alerts.py").write_text(recipe)
    for first, last in ((0, 20), (20, 35)):
        cluster.send(topic, numbered(first, last))
        prices = [json.dumps({"id": one, "price": 10 * one}) for one in range(first, last)]
        cluster.send(orders, [(None, one.encode()) for one in prices])
        run(folder)
        found = [json.loads(one) for one in written(kaa_node.bootstrap_servers, large)]
        assert sorted(one["id"] for one in found) == list(range(11, last))
        expected = sorted(f"V{one}" for one in range(last))
        assert landed(folder) == expected
        assert written(kaa_node.bootstrap_servers, f"{topic}-shouted") == expected


def written(servers: str, topic: str) -> list[str]:
    partition = TopicPartition(topic, 0)
    found: list[str] = []
    settings = {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=200).values():
                found += [(record.value or b"").decode() for record in records]
    return sorted(found)
