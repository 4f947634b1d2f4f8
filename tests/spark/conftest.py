"""One Spark session for all tests of a run, one node of Kaa, and Apache Kafka beside it."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaa.client import NewTopic
from kaa.client.sync import Admin, Producer
from kaa.spark.sessions import session
from tests.spark.programs import JAVA_OPTIONS, kill_all
from tests.spark.reference import reference_jars
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Names of topics, also over workers that share a node.
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of this folder share one session, so one worker runs them all.

    Those that start programs of their own name other groups, so that any worker runs them.
    """
    folder = Path(__file__).parent
    for item in items:
        if item.path.parent == folder:
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                # The first of them starts Java and Python workers.
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(autouse=True)
def _no_program_is_left() -> Iterator[None]:
    yield
    kill_all()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    config = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    if jars := reference_jars():
        config["spark.jars"] = jars
    running = session("local[2]", app_name="tests", config=config)
    running.sparkContext.setLogLevel("ERROR")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def kaa_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def servers(kaa_node: BrokerProcess) -> str:
    return kaa_node.bootstrap_servers


@pytest.fixture(params=["kaa", pytest.param("kafka", marks=pytest.mark.oracle)])
def both_servers(request: pytest.FixtureRequest) -> str:
    """A test with this runs twice, against Kaa and against Kafka."""
    fixture = "kaa_node" if request.param == "kaa" else "real_kafka"
    found = request.getfixturevalue(fixture).bootstrap_servers
    assert isinstance(found, str)
    return found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)
    return f"{name[:100]}-{os.getpid()}-{next(_numbers)}"


class Cluster:
    """What tests do to a cluster from outside of Spark."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.settings = {"bootstrap.servers": servers}

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        wanted = {key.replace("_", "."): value for key, value in configs.items()}
        with Admin(self.settings) as admin:
            outcome = admin.run(
                lambda one: one.create_topics([NewTopic(name, partitions, 1, wanted)])
            )
        assert outcome == {name: None}, outcome

    def admin(self, work: Any) -> Any:
        with Admin(self.settings) as admin:
            return admin.run(work)

    def send(
        self,
        topic: str,
        rows: Sequence[tuple[bytes | None, bytes | None]],
        *,
        partition: int | None = None,
        first_timestamp_ms: int | None = None,
        **settings: str,
    ) -> None:
        given = self.settings | {key.replace("_", "."): value for key, value in settings.items()}
        with Producer(given) as producer:
            sent = [
                producer.send(
                    topic,
                    value,
                    key=key,
                    partition=partition,
                    timestamp_ms=None
                    if first_timestamp_ms is None
                    else first_timestamp_ms + number,
                )
                for number, (key, value) in enumerate(rows)
            ]
            for one in sent:
                one.result()


def numbered(first: int, last: int) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % number, b"v%d" % number) for number in range(first, last)]


def read(spark: SparkSession, servers: str, **options: Any) -> DataFrame:
    """A batch query; with `format="kafka"` through Spark's own connector."""
    reader = spark.read.format(options.pop("format", "kaa"))
    return reader.option("kafka.bootstrap.servers", servers).options(**options).load()


def read_stream(spark: SparkSession, servers: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format(options.pop("format", "kaa"))
    return reader.option("kafka.bootstrap.servers", servers).options(**options).load()


def run_to_end(
    frame: DataFrame, checkpoint: Path, sink: str = "noop", **options: Any
) -> list[dict[str, Any]]:
    """Runs a stream over all that is available; gives the progress of its batches."""
    query = (
        frame.writeStream.format(sink)
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(200), "the query did not end"
    finally:
        query.stop()
    return [json.loads(one.json) for one in query.recentProgress]


def values(frame: DataFrame) -> list[bytes | None]:
    """The values of a DataFrame, sorted."""
    rows = frame.select("value").collect()
    return sorted((None if row.value is None else bytes(row.value) for row in rows), key=str)
