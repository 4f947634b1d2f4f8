"""Spark beside Spark's own connector and beside what a Python source can reach at all.

The *ceiling* is a source that reads nothing and hands over one constant Arrow batch again and again
with the rows, columns and sizes of the others. No Python source is faster than that.

One broker of Kaa, one session with two cores, one set of topics. Each reading is timed several
times, in turns, after a first one that does not count; reported are the median and the spread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from kaa.client import NewTopic
from kaa.client.sync import Admin
from kaa.spark.options import sink_options
from kaa.spark.sessions import session
from kaa.spark.writing import RowWriter
from tests.spark.reference import reference_jars
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

RESULTS = Path(__file__).parent / "results"
PARTITIONS = 2
BATCH_ROWS = 10_000
TURNS = 3


class CeilingPartition(InputPartition):
    """So many rows of so many bytes."""

    def __init__(self, rows: int, size: int) -> None:
        super().__init__((rows, size))
        self.rows = rows
        self.size = size


class CeilingReader(DataSourceReader):
    """Hands over a constant batch."""

    def __init__(self, rows: int, size: int) -> None:
        self._rows = rows
        self._size = size

    def partitions(self) -> list[InputPartition]:
        return [CeilingPartition(self._rows // PARTITIONS, self._size) for _ in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CeilingPartition)
        rows = BATCH_ROWS if partition.size < 1_000 else 2_500
        batch = constant_batch(rows, partition.size)
        for _ in range(partition.rows // rows):
            yield batch


def constant_batch(rows: int, size: int) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "key": pa.array([b"key-00000"] * rows, pa.binary()),
        "value": pa.array([b"x" * size] * rows, pa.binary()),
        "topic": pa.array(["topic"] * rows),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)


class CeilingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands over constant batches of so many rows, until all are read."""

    def __init__(self, rows: int, size: int, limit: int) -> None:
        self._rows = rows
        self._size = size
        self._limit = limit

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name.
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadMaxRows:  # noqa: N802  Spark's name.
        return ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name.
        """All is available from the beginning."""

    def latestOffset(  # noqa: N802  Spark's name.
        self, start: dict[str, int], limit: object
    ) -> dict[str, int]:
        del limit
        return {"rows": min(self._rows, start["rows"] + self._limit)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        rows = (end["rows"] - start["rows"]) // PARTITIONS
        return [CeilingPartition(rows, self._size) for _ in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CeilingPartition)
        yield constant_batch(partition.rows, partition.size)

    def commit(self, end: dict[str, int]) -> None:
        """There is nothing to tell."""

    def stop(self) -> None:
        """There is nothing to close."""


class Ceiling(DataSource):
    """The source that reads nothing."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset bigint, "
            "timestamp timestamp, timestampType int"
        )

    def reader(self, schema: Any) -> DataSourceReader:
        del schema
        return CeilingReader(int(self.options["rows"]), int(self.options["size"]))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802  Spark's name.
        del schema
        numbers = [int(self.options[name]) for name in ("rows", "size", "limit")]
        return CeilingStreamReader(*numbers)


class Bench:
    """One broker, one session, and the topics of all readings."""

    def __init__(self, spark: SparkSession, node: BrokerProcess, folder: str, turns: int) -> None:
        self._spark = spark
        self._node = node
        self._folder = folder
        self._turns = turns
        assert node.process is not None
        self._broker = psutil.Process(node.process.pid)
        self.rows: list[dict[str, Any]] = []

    def fill(self, topic: str, count: int, size: int, codec: str) -> None:
        settings = {"bootstrap.servers": self._node.bootstrap_servers}
        with Admin(settings) as admin:
            admin.run(lambda one: one.create_topics([NewTopic(topic, PARTITIONS, 1)]))
        options = {
            "kafka.bootstrap.servers": self._node.bootstrap_servers,
            "topic": topic,
            "kafka.compression.type": codec,
        }
        text = [(b"%07d " % number * (size // 8 + 1))[:size] for number in range(BATCH_ROWS)]
        batches = [
            pa.RecordBatch.from_pydict(
                {
                    "key": pa.array([b"key-%05d" % (n % 100_000) for n in range(BATCH_ROWS)]),
                    "value": pa.array(text, pa.binary()),
                    "partition": pa.array([number % PARTITIONS] * BATCH_ROWS, pa.int32()),
                }
            )
            for number in range(PARTITIONS)
        ]
        writer = RowWriter(sink_options(options))
        writer.write(batches[number % PARTITIONS] for number in range(count // BATCH_ROWS))

    def fill_few(self, topic: str, count: int) -> None:
        settings = {"bootstrap.servers": self._node.bootstrap_servers}
        with Admin(settings) as admin:
            admin.run(lambda one: one.create_topics([NewTopic(topic, PARTITIONS, 1)]))
        self.write("kaa", topic, count, 100)

    def compare(
        self, name: str, count: int, size: int, sides: dict[str, Callable[[], object]]
    ) -> None:
        """Times all sides in turns."""
        times: dict[str, list[float]] = {side: [] for side in sides}
        cpu: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(self._turns + 1):
            for side, work in sides.items():
                before = sum(self._broker.cpu_times()[:2])
                started = time.perf_counter()
                work()
                seconds = time.perf_counter() - started
                if turn:
                    times[side].append(seconds)
                    cpu[side].append(sum(self._broker.cpu_times()[:2]) - before)
        row: dict[str, Any] = {"name": name, "records": count, "record_bytes": size, "sides": {}}
        for side in sides:
            median = statistics.median(times[side])
            row["sides"][side] = {
                "seconds": times[side],
                "median_seconds": median,
                "mb_per_second": count * size / median / 1e6,
                "records_per_second": count / median,
                "broker_cpu_seconds": statistics.median(cpu[side]),
            }
        self.rows.append(row)
        print(f"{name}: " + ", ".join(
            f"{side} {values['median_seconds']:.2f} s" for side, values in row["sides"].items()
        ), flush=True)  # fmt: skip

    # --- readings

    def read(self, source: str, topic: str, **options: Any) -> None:
        frame = (
            self._spark.read.format(source)
            .option("kafka.bootstrap.servers", self._node.bootstrap_servers)
            .options(subscribe=topic, **options)
            .load()
        )
        frame.write.format("noop").mode("overwrite").save()

    def ceiling(self, count: int, size: int) -> None:
        frame = self._spark.read.format("ceiling").options(rows=count, size=size).load()
        frame.write.format("noop").mode("overwrite").save()

    def stream(self, source: str, topic: str, **options: Any) -> list[float]:
        frame = (
            self._spark.readStream.format(source)
            .option("kafka.bootstrap.servers", self._node.bootstrap_servers)
            .options(subscribe=topic, startingOffsets="earliest", **options)
            .load()
        )
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", tempfile.mkdtemp(dir=self._folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [one["durationMs"]["triggerExecution"] / 1e3 for one in query.recentProgress]

    def write(self, source: str, topic: str, count: int, size: int) -> None:
        frame = self._spark.range(0, count, 1, PARTITIONS).selectExpr(
            "cast(id as string) key", f"repeat('x', {size}) value"
        )
        writer = frame.write.format(source).mode("append")
        writer.option("kafka.bootstrap.servers", self._node.bootstrap_servers).option(
            "topic", topic
        ).save()

    def micro_batches(self, topic: str) -> None:
        """The time of a batch of few rows: all but the first of each run. The first run of each
        side does not count.
        """
        sides: dict[str, list[float]] = {"kaa": [], "kafka": [], "ceiling": []}
        for turn in range(self._turns + 1):
            for source, times in sides.items():
                options = {"maxOffsetsPerTrigger": 200}
                if source == "ceiling":
                    options = {"rows": 3_000, "size": 100, "limit": 200}
                measured = self.stream(source, topic, **options)
                if turn:
                    times += measured[1:]
        self.rows.append(
            {
                "name": "micro-batch of 200 rows",
                "records": 200,
                "record_bytes": 100,
                "sides": {
                    side: {
                        "seconds": times,
                        "median_seconds": statistics.median(times),
                    }
                    for side, times in sides.items()
                },
            }
        )


def rows_of(megabytes: int, size: int) -> int:
    """Whole batches for each partition, and one at least."""
    per_round = PARTITIONS * BATCH_ROWS
    return max(1, megabytes * 1_000_000 // size // per_round) * per_round


def measure(bench: Bench, megabytes: int) -> None:
    """All readings, each side in turns."""
    for size, label in ((100, "100 B"), (1024, "1 KiB")):
        count = rows_of(megabytes, size)
        for codec in ("none", "lz4", "zstd"):
            topic = f"read-{size}-{codec}"
            bench.fill(topic, count, size, codec)
            sides: dict[str, Callable[[], object]] = {
                "kaa": lambda topic=topic: bench.read("kaa", topic),  # type: ignore[misc]
                "kafka": lambda topic=topic: bench.read("kafka", topic),  # type: ignore[misc]
                "ceiling": lambda c=count, s=size: bench.ceiling(c, s),  # type: ignore[misc]
            }
            if codec == "none":
                sides["kaa, local files"] = lambda topic=topic: bench.read(  # type: ignore[misc]
                    "kaa", topic, localFiles=True
                )
            bench.compare(f"read {label}, {codec}", count, size, sides)
    count = rows_of(megabytes, 100)
    bench.compare("stream 100 B, none", count, 100, {
        "kaa": lambda: bench.stream("kaa", "read-100-none"),
        "kafka": lambda: bench.stream("kafka", "read-100-none"),
    })  # fmt: skip
    written = count // 2
    bench.compare("write 100 B", written, 100, {
        "kaa": lambda: bench.write("kaa", "written", written, 100),
        "kafka": lambda: bench.write("kafka", "written", written, 100),
    })  # fmt: skip
    bench.fill_few("few", 3_000)
    bench.micro_batches("few")


def ratio(sides: dict[str, Any], other: str) -> str:
    if other not in sides:
        return ""
    return f"{sides[other]['median_seconds'] / sides['kaa']['median_seconds']:.2f}"


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Spark: Kaa beside Spark's own connector",
        "",
        "Median of the turns; a ratio above 1 means that Kaa is faster. The ceiling is a source",
        "in Python that reads nothing and hands over constant Arrow batches. CPU is the broker's.",
        "",
        "| query | Kaa s | MB/s | reference s | to reference | to ceiling | local | CPU s | ref |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        sides = row["sides"]
        kaa, reference = sides["kaa"], sides["kafka"]
        local = sides.get("kaa, local files")
        cells = [
            row["name"],
            f"{kaa['median_seconds']:.2f}",
            f"{kaa['mb_per_second']:.0f}" if "mb_per_second" in kaa else "",
            f"{reference['median_seconds']:.2f}",
            ratio(sides, "kafka"),
            ratio(sides, "ceiling"),
            f"{local['median_seconds']:.2f}" if local else "",
            f"{kaa['broker_cpu_seconds']:.2f}" if "broker_cpu_seconds" in kaa else "",
            f"{reference['broker_cpu_seconds']:.2f}" if "broker_cpu_seconds" in kaa else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="values per topic")
    parser.add_argument("--turns", type=int, default=TURNS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kaa-bench-") as folder:
        config = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": reference_jars(),
        }
        with BrokerProcess(Path(folder, "broker")) as node:
            spark = session(f"local[{PARTITIONS}]", app_name="bench", config=config)
            spark.sparkContext.setLogLevel("ERROR")
            spark.dataSource.register(Ceiling)
            bench = Bench(spark, node, folder, arguments.turns)
            measure(bench, arguments.megabytes)
            spark.stop()
    facts = {"megabytes": arguments.megabytes, "turns": arguments.turns, "cores": PARTITIONS}
    (RESULTS / "spark.json").write_text(json.dumps({**facts, "rows": bench.rows}, indent=1) + "\n")
    (RESULTS / "spark.md").write_text(table(bench.rows))
    plot(bench.rows)
    return 0


def plot(rows: list[dict[str, Any]]) -> None:
    """Bars with the spread of the turns, where matplotlib is installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed; no picture was made")
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    timed = [row for row in rows if row["name"].startswith("read ")]
    sides = ("kaa", "kafka", "ceiling")
    figure, axes = plt.subplots(figsize=(10, 5))
    for index, side in enumerate(sides):
        sizes = [row["records"] * row["record_bytes"] / 1e6 for row in timed]
        rates = [
            [size / seconds for seconds in row["sides"][side]["seconds"]]
            for size, row in zip(sizes, timed, strict=True)
        ]
        middle = [statistics.median(some) for some in rates]
        low = [mid - min(some) for mid, some in zip(middle, rates, strict=True)]
        high = [max(some) - mid for mid, some in zip(middle, rates, strict=True)]
        places = [number + (index - 1) * 0.27 for number in range(len(timed))]
        axes.bar(places, middle, 0.25, yerr=[low, high], capsize=3, label=side)
    axes.set_xticks(range(len(timed)), [row["name"].removeprefix("read ") for row in timed])
    axes.set_ylabel("MB of values per second")
    axes.set_title("Batch read to no-op, two cores: median and range of the turns")
    axes.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "spark.png", dpi=110)


if __name__ == "__main__":
    sys.exit(main())
