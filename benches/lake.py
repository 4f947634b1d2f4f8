"""Topics to tables: MiB of values per second and core, raw and decoded, without Spark around it.

One process fetches from a broker, decodes and writes Parquet, as a Spark task does; its processor
time counts, so that the broker and others on the machine do not. Values are 1 KiB, half of it
random and half of it one letter, and small Avro orders. Iceberg table, zstd, one commit; the size
of the values alone counts, and the median of several rounds.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from benches.figure import Figure
from benches.formats import SCHEMA, _encoded, _order
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import lake_settings
from kaa.testing import Broker

if TYPE_CHECKING:
    from kaa.spark.lake.driver import RoundReport

RAW_ROWS = 60_000
DECODED_ROWS = 200_000
UPSERT_KEYS = 200_000
UPSERT_BYTES = 100
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
            _upsert(broker),
        ]


def _upsert(broker: Broker) -> Figure:
    """The cost of a round of few records: it rewrites every bucket that it touches."""
    topic = broker.topic(partitions=1)
    value = "x" * UPSERT_BYTES
    for number in range(0, UPSERT_KEYS, 500):
        topic.seed([(f"key-{one}", value) for one in range(number, number + 500)])
    chance = random.Random(11)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        table = lake_settings(
            {
                "topic": topic.name,
                "warehouse": folder,
                "mode": "upsert",
                "kafka.bootstrap.servers": broker.bootstrap_servers,
            }
        )
        opened = open_table(table)
        for _ in range(ROUNDS + 1):
            started = time.process_time()
            LakeDriver(table, opened, LocalRunner(), is_once=True).run()
            times.append(time.process_time() - started)
            topic.seed([(f"key-{chance.randrange(UPSERT_KEYS)}", value) for _ in range(1000)])
    rounds = times[1:]  # The first one filled the table.
    return Figure(
        f"upsert of 1,000 records, {UPSERT_KEYS:,} keys of {UPSERT_BYTES} bytes in 16 buckets",
        median(rounds),
        "CPU seconds per round",
        higher_is_better=False,
        rounds={"kaa": rounds},
    )


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
            LakeDriver(table, opened, LocalRunner(), is_once=True, report=reports.append).run()
            seconds = time.process_time() - started
            rows = sum(one.rows for one in reports)
            if rows != len(values):
                raise AssertionError(f"{rows} rows instead of {len(values)}")
            rates.append(size_mib / seconds)
    return rates
