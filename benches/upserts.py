"""Upserts of a table with many keys, beside MERGE of the Iceberg runtime on Spark 4.1.4.

`scripts/bench upserts` takes ten million keys, `--keys N` others. A topic of so many keys is landed
in a table of 16 buckets; the runtime, which has no release for a newer Spark, gets a copy of it,
divided and sorted the same way, and merges on read, which deletes by position as we do. Then shares
of the keys, chosen at random, change in both: as records of the topic here, and as rows of a
Parquet file there, so that Kaa fetches and decodes on top of what the runtime does. Processor time
is that of everything the side runs, without the broker; tasks of Kaa run in this one process, those
of the runtime on two cores. Both have to end with one row per key.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import psutil

from benches.figure import Figure
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import lake_settings
from kaa.testing import Broker
from tests.spark.lake.engines import Stranger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.spark.lake.settings import LakeSettings
    from kaa.testing import Topic

KEYS: Final = 10_000_000
VALUE_BYTES: Final = 100
SHARES: Final = (0.001, 0.01, 0.1)
ROUNDS: Final = 3
SEED: Final = 11
BATCH: Final = 2_000
PEER: Final = "Iceberg 1.12 MERGE on Spark 4.1.4"
OURS: Final = "kaa.db.ours"
THEIRS: Final = "kaa.db.theirs"
_SPARK: Final = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "16"}


class Side:
    """One side of the comparison: what a round costs."""

    def __init__(self, folder: Path, processor_seconds: Callable[[], float]) -> None:
        self._folder = folder
        self._processor_seconds = processor_seconds
        # By share: seconds, processor seconds and bytes of each round.
        self.rounds: dict[float, list[tuple[float, float, float]]] = {}

    def measure(self, share: float, work: Callable[[], object]) -> None:
        size, processor = _bytes_in(self._folder), self._processor_seconds()
        started = time.monotonic()
        work()
        seconds = time.monotonic() - started
        spent = self._processor_seconds() - processor
        written = (_bytes_in(self._folder) - size) / 2**20
        self.rounds.setdefault(share, []).append((seconds, spent, written))


def run(keys: int = KEYS) -> list[Figure]:
    chance = random.Random(SEED)
    with (
        Broker(process=True) as broker,
        tempfile.TemporaryDirectory(prefix="kaa-upserts-") as place,
    ):
        folder = Path(place)
        topic = broker.topic(partitions=1)
        settings = lake_settings(
            {
                "topic": topic.name,
                "table": "db.ours",
                "warehouse": str(folder),
                "mode": "upsert",
                "maxRecordsPerRound": "1000000",
                "kafka.bootstrap.servers": broker.bootstrap_servers,
            }
        )
        _send(topic, range(keys))
        _land(settings)
        with Stranger(folder, folder / "catalog.db", folder / "output", settings=_SPARK) as spark:
            _copy(spark)
            tree = psutil.Process(spark.process_id)
            ours = Side(folder / "db" / "ours", time.process_time)
            theirs = Side(folder / "db" / "theirs", lambda: _processor_seconds(tree))
            for share in SHARES:
                for _ in range(ROUNDS):
                    changed = chance.sample(range(keys), max(1, int(keys * share)))
                    _send(topic, changed)
                    ours.measure(share, lambda: _land(settings))
                    changes = _changes(folder, changed)
                    merge = _merge(changes)
                    theirs.measure(share, lambda merge=merge: spark.sql(merge))  # type: ignore[misc]
            _check(spark, keys)
        return [one for share in SHARES for one in _figures(share, keys, ours, theirs)]


def _send(topic: Topic, numbers: Iterable[int]) -> None:
    value, waiting = "x" * VALUE_BYTES, []
    for number in numbers:
        waiting.append((f"key-{number:09}", value))
        if len(waiting) == BATCH:
            topic.seed(waiting)
            waiting = []
    if waiting:
        topic.seed(waiting)


def _land(settings: LakeSettings) -> None:
    LakeDriver(open_table(settings), LocalRunner(), is_once=True).run()


def _copy(spark: Stranger) -> None:
    """The same rows in a table of the runtime's own, divided and sorted as ours."""
    spark.sql(
        f"CREATE TABLE {THEIRS} USING iceberg PARTITIONED BY (bucket(16, key)) TBLPROPERTIES "
        "('format-version'='2', 'write.merge.mode'='merge-on-read', "
        "'write.parquet.compression-codec'='zstd') "
        f"AS SELECT * FROM {OURS} WHERE false"
    )
    spark.sql(f"ALTER TABLE {THEIRS} WRITE ORDERED BY key")
    spark.sql(f"INSERT INTO {THEIRS} SELECT * FROM {OURS}")


def _changes(folder: Path, numbers: list[int]) -> Path:
    import pyarrow.parquet as typed_parquet

    pq: Any = typed_parquet
    path = folder / "changes.parquet"
    keys = pa.array([b"key-%09d" % one for one in numbers], pa.binary())
    values = pa.array([b"y" * VALUE_BYTES] * len(numbers), pa.binary())
    pq.write_table(pa.table({"key": keys, "value": values}), path)
    return path


def _merge(changes: Path) -> str:
    return (
        f"MERGE INTO {THEIRS} t USING (SELECT * FROM parquet.`{changes}`) s ON t.key = s.key "
        "WHEN MATCHED THEN UPDATE SET t.value = s.value "
        "WHEN NOT MATCHED THEN INSERT (key, value) VALUES (s.key, s.value)"
    )


def _check(spark: Stranger, keys: int) -> None:
    for table in (OURS, THEIRS):
        (found,) = spark.sql(f"SELECT count(*) AS n, count(DISTINCT key) AS keys FROM {table}")
        if found != {"n": keys, "keys": keys}:
            raise AssertionError(f"{table} has {found} instead of {keys} keys")


def _figures(share: float, keys: int, ours: Side, theirs: Side) -> list[Figure]:
    name = f"upsert of {share:.1%} of {keys:,} keys"
    units = ("seconds", "CPU seconds", "MiB written")
    return [
        Figure(
            f"{name}, {unit}",
            median(one[at] for one in ours.rounds[share]),
            unit,
            {PEER: median(one[at] for one in theirs.rounds[share])},
            higher_is_better=False,
            rounds={
                "kaa": [one[at] for one in ours.rounds[share]],
                PEER: [one[at] for one in theirs.rounds[share]],
            },
        )
        for at, unit in enumerate(units)
    ]


def _processor_seconds(root: psutil.Process) -> float:
    """Of a process and of those it has started."""
    total = 0.0
    for one in (root, *root.children(recursive=True)):
        times = one.cpu_times()
        total += times.user + times.system
    return total


def _bytes_in(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
