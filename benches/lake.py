"""Topics to tables: MiB of values per second and core, raw and decoded, without Spark around it.

One process fetches from a broker, decodes and writes Parquet, as a Spark task does; its processor
time counts, so that the broker and others on the machine do not. Values are 1 KiB, half of it
random and half of it one letter, and small Avro orders. Iceberg table, zstd, one commit; the size
of the values alone counts, and the median of several rounds.

Upserts change a share of the keys, chosen at random, in a table of 16 buckets; compaction writes
files of one round each together; the last figures are what commits of one record leave behind.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benches.figure import Figure
from benches.formats import SCHEMA, _encoded, _order
from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.maintenance import rewrite_manifests
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lake.store import path_of
from kaa.testing import Broker

if TYPE_CHECKING:
    from kaa.spark.lake.driver import RoundReport
    from kaa.spark.lake.settings import LakeSettings

RAW_ROWS = 60_000
DECODED_ROWS = 200_000
UPSERT_KEYS = 200_000
UPSERT_BYTES = 100
UPSERT_SHARES = (0.001, 0.01, 0.1)
UPSERT_ROUNDS = 3
COMPACTED_FILES = 30
COMMITS = 100
ROUNDS = 5
RAW_TARGET = 50.0
UNIT = "MiB/s per core"
# What Redpanda documents for its translation to Iceberg, with decoding; another machine.
PEER = {"a peer, as documented": 5.0}


def run() -> list[Figure]:
    import fastavro

    chance = random.Random(7)
    raw = [chance.randbytes(512) + b"x" * 512 for _ in range(RAW_ROWS)]
    schema = fastavro.parse_schema(SCHEMA)
    orders = [_encoded(_order(number), schema) for number in range(10_000)]
    decoded = [orders[number % 10_000] for number in range(DECODED_ROWS)]
    with Broker(process=True) as broker:
        raw_rates = _rates(broker, raw, {})
        avro = {"valueFormat": "avro", "valueSchema": json.dumps(SCHEMA)}
        decoded_rates = _rates(broker, decoded, avro)
        size = sum(map(len, orders)) // len(orders)
        return [
            Figure(
                "raw records of 1 KiB",
                median(raw_rates),
                UNIT,
                target=RAW_TARGET,
                rounds={"kaa": raw_rates},
            ),
            Figure(
                f"Avro of {size} bytes to columns",
                median(decoded_rates),
                UNIT,
                dict(PEER),
                rounds={"kaa": decoded_rates},
            ),
            *_upserts(broker),
            _compaction(broker, raw),
            *_commits(broker),
        ]


def _upserts(broker: Broker) -> list[Figure]:
    """The cost of a round by the share of keys that it changes."""
    topic = broker.topic(partitions=1)
    value = "x" * UPSERT_BYTES
    for number in range(0, UPSERT_KEYS, 500):
        topic.seed([(f"key-{one:09}", value) for one in range(number, number + 500)])
    chance = random.Random(11)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(broker, topic.name, folder, mode="upsert")
        LakeDriver(open_table(settings), LocalRunner(), is_once=True).run()
        whole = sum(one.size_bytes for one in open_table(settings).files())
        for share in UPSERT_SHARES:
            times, sizes = [], []
            for _ in range(UPSERT_ROUNDS):
                changed = chance.sample(range(UPSERT_KEYS), int(UPSERT_KEYS * share))
                for at in range(0, len(changed), 500):
                    topic.seed([(f"key-{one:09}", value) for one in changed[at : at + 500]])
                before = _bytes_in(folder)
                started = time.process_time()
                LakeDriver(open_table(settings), LocalRunner(), is_once=True).run()
                times.append(time.process_time() - started)
                sizes.append((_bytes_in(folder) - before) / whole)
            name = f"upsert of {share:.1%} of {UPSERT_KEYS:,} keys of {UPSERT_BYTES} bytes"
            figures += [
                Figure(
                    name,
                    median(times),
                    "CPU seconds per round",
                    higher_is_better=False,
                    rounds={"kaa": times},
                ),
                Figure(
                    f"{name}, written",
                    median(sizes),
                    "of the table's bytes",
                    higher_is_better=False,
                    rounds={"kaa": sizes},
                ),
            ]
    return figures


def _bytes_in(folder: str) -> int:
    return sum(one.stat().st_size for one in Path(folder).rglob("*") if one.is_file())


def _compaction(broker: Broker, values: list[bytes]) -> Figure:
    topic = broker.topic(partitions=1)
    for number in range(0, len(values), 500):
        topic.seed(values[number : number + 500])
    size_mib = sum(map(len, values)) / 2**20
    rates = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            rows = str(len(values) // COMPACTED_FILES)
            settings = _settings(broker, topic.name, folder, maxRecordsPerRound=rows)
            LakeDriver(open_table(settings), LocalRunner(), is_once=True).run()
            table = open_table(settings)
            table.load()
            started = time.process_time()
            compact(table, plan_compaction(table))
            rates.append(size_mib / (time.process_time() - started))
    return Figure(
        f"compaction of {COMPACTED_FILES} files of 1 KiB records",
        median(rates),
        UNIT,
        rounds={"kaa": rates},
    )


def _commits(broker: Broker) -> list[Figure]:
    """What many small commits leave: without care, and after compaction and manifests."""
    topic = broker.topic(partitions=1)
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(broker, topic.name, folder)
        table: Any = open_table(settings)
        for number in range(COMMITS):
            topic.seed([str(number)])
            LakeDriver(table, LocalRunner(), is_once=True).run()
        before = _named_bytes(table)
        compact(table, plan_compaction(table))
        rewrite_manifests(table)
        after = _named_bytes(table)
    return [
        Figure(
            f"metadata of the newest version after {COMMITS} commits",
            float(before),
            "bytes",
            higher_is_better=False,
        ),
        Figure(
            "the same after compaction and writing manifests together",
            float(after),
            "bytes",
            higher_is_better=False,
        ),
    ]


def _named_bytes(table: Any) -> int:
    """Of the manifests of the newest snapshot, their list and the metadata file."""
    handle = table.data.handle
    snapshot = handle.current_snapshot()
    named = [handle.metadata_location, snapshot.manifest_list]
    named += [one.manifest_path for one in snapshot.manifests(handle.io)]
    return sum(Path(path_of(one)).stat().st_size for one in named)


def _settings(broker: Broker, topic: str, folder: str, **options: str) -> LakeSettings:
    given = {"topic": topic, "warehouse": folder, **options}
    return lake_settings({**given, "kafka.bootstrap.servers": broker.bootstrap_servers})


def _rates(broker: Broker, values: list[bytes], options: dict[str, Any]) -> list[float]:
    """Of several rounds, each into a table of its own."""
    topic = broker.topic(partitions=1)
    for number in range(0, len(values), 500):
        topic.seed(values[number : number + 500])
    size_mib = sum(map(len, values)) / 2**20
    rates = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            table = lake_settings(
                {
                    "topic": topic.name,
                    "warehouse": folder,
                    "kafka.bootstrap.servers": broker.bootstrap_servers,
                    **options,
                }
            )
            reports: list[RoundReport] = []
            opened = open_table(table)
            opened.load()
            started = time.process_time()
            LakeDriver(opened, LocalRunner(), is_once=True, report=reports.append).run()
            seconds = time.process_time() - started
            rows = sum(one.rows for one in reports)
            if rows != len(values):
                raise AssertionError(f"{rows} rows instead of {len(values)}")
            rates.append(size_mib / seconds)
    return rates
