"""History of a tiered topic in Spark: from the store, through brokers, by Spark's own connector.

One broker of Kaa whose tier is a directory, one session with two cores, one partition of 1 KiB
records, of which the disk keeps the active segment alone. All readings end in Spark's no-op sink
and are timed in turns, after a first one that does not count. The processor time is the broker's.
The last figure makes a Parquet table of the history in one process, whose processor time counts.

`KAA_BENCH_TIER_MIB` says how much history: 1024 by default.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa

from benches.figure import Figure
from kaa.client import NewTopic
from kaa.client.sync import Admin
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import lake_settings
from kaa.spark.options import sink_options
from kaa.spark.sessions import session
from kaa.spark.writing import RowWriter
from tests.spark.reference import reference_jars
from tests.support.broker_process import BrokerProcess
from tests.support.tiered import ONE_REPLICA, QUICK, wait_until_tiered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
ROUNDS = 3
RECORD_BYTES = 1024
BATCH_ROWS = 10_000
SEGMENT_BYTES = 64 * 1024 * 1024
TOPIC = "history"
CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}


def run() -> list[Figure]:
    rows = int(os.environ.get("KAA_BENCH_TIER_MIB", "1024")) * 1024 * 1024 // RECORD_BYTES
    jars = reference_jars()
    config = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
    }
    with tempfile.TemporaryDirectory(prefix="kaa-bench-") as name:
        folder = Path(name)
        store = (folder / "tier").as_uri()
        settings = (*QUICK, *ONE_REPLICA, f"rsm.config.url={store}")
        with BrokerProcess(folder / "broker", *settings) as node:
            _fill(node.bootstrap_servers, rows)
            wait_until_tiered(node.bootstrap_servers, TOPIC, tail_max=SEGMENT_BYTES // RECORD_BYTES)
            spark = session(
                f"local[{CORES}]",
                app_name="bench",
                config=config | ({"spark.jars": jars} if jars else {}),
            )
            spark.sparkContext.setLogLevel("ERROR")
            sides: dict[str, tuple[str, dict[str, str]]] = {
                "from the store": ("kaa", {"tierStore": store}),
                "through brokers": ("kaa", {}),
            }
            if jars:
                sides["Spark's connector"] = ("kafka", {})
            figures = _readings(spark, node, sides, rows)
            spark.stop()
            return [*figures, _convert(node.bootstrap_servers, store, folder / "lake")]


def _fill(servers: str, rows: int) -> None:
    with Admin({"bootstrap.servers": servers}) as admin:
        admin.run(lambda one: one.create_topics([NewTopic(TOPIC, 1, 1, CONFIG)]))
    text = [(b"%07d " % number * 128)[:RECORD_BYTES] for number in range(BATCH_ROWS)]
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"key-%05d" % number for number in range(BATCH_ROWS)]),
            "value": pa.array(text, pa.binary()),
        }
    )
    options = {"kafka.bootstrap.servers": servers, "topic": TOPIC}
    RowWriter(sink_options(options)).write(batch for _ in range(rows // BATCH_ROWS))


def _readings(
    spark: SparkSession,
    node: BrokerProcess,
    sides: dict[str, tuple[str, dict[str, str]]],
    rows: int,
) -> list[Figure]:
    assert node.process is not None
    broker = psutil.Process(node.process.pid)
    rates: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(ROUNDS + 1):
        for side, (source, options) in sides.items():
            before = sum(broker.cpu_times()[:2])
            started = time.perf_counter()
            _read(spark, node.bootstrap_servers, source, options)
            seconds = time.perf_counter() - started
            if turn:
                rates[side].append(rows * RECORD_BYTES / seconds / 1e6)
                cpu[side].append(sum(broker.cpu_times()[:2]) - before)
    first, *others = sides
    return [
        Figure(
            f"{rows * RECORD_BYTES >> 20} MiB of history, {CORES} cores",
            statistics.median(rates[first]),
            "MB/s",
            {side: statistics.median(rates[side]) for side in others},
            rounds={"kaa" if side == first else side: some for side, some in rates.items()},
        ),
        Figure(
            "processor time of the broker",
            statistics.median(cpu[first]),
            "seconds",
            {side: statistics.median(cpu[side]) for side in others},
            higher_is_better=False,
        ),
    ]


def _read(spark: SparkSession, servers: str, source: str, options: dict[str, str]) -> None:
    frame = (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", servers)
        .options(subscribe=TOPIC, **options)
        .load()
    )
    frame.write.format("noop").mode("overwrite").save()


def _convert(servers: str, store: str, folder: Path) -> Figure:
    settings: dict[str, Any] = {
        "topic": TOPIC,
        "warehouse": str(folder),
        "layout": "parquet",
        "kafka.bootstrap.servers": servers,
        "tier": "only",
        "tierStore": store,
    }
    reports: list[Any] = []
    table = open_table(lake_settings(settings))
    started = time.process_time()
    LakeDriver(table, LocalRunner(), is_once=True, report=reports.append).run()
    seconds = time.process_time() - started
    size = sum(report.rows for report in reports) * RECORD_BYTES
    return Figure("convert to Parquet", size / seconds / 2**20, "MiB/s per core")
