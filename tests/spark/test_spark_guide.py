"""Sections of docs/guides/spark.md run as they stand, and print what they show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kaa.spark
from kaa.testing import Registry
from tests.spark.conftest import Cluster
from tests.spark.guides import blocks, run, shown
from tests.spark.test_lake import land, settings_of

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

PAGE = "spark.md"
JANUARY_MS, FEBRUARY_MS = 1_767_225_600_000, 1_769_904_000_000
ORDER = json.dumps(
    {
        "type": "object",
        "properties": {"customer": {"type": "string"}, "price": {"type": "number"}},
    }
)


def order(customer: str, price: float) -> tuple[None, bytes]:
    return None, json.dumps({"customer": customer, "price": price}).encode()


def test_read_less(
    spark: SparkSession, servers: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(servers)
    cluster.create(topic, 2)
    old = [order("a", 15.0)] * 5
    new = [order("b", 20.0), order("c", 30.0), order("d", 1.5)]
    cluster.send(topic, old, partition=0, first_timestamp_ms=JANUARY_MS)
    cluster.send(topic, new, partition=0, first_timestamp_ms=FEBRUARY_MS)
    cluster.send(topic, [*old, order("e", 50.0)], partition=1, first_timestamp_ms=FEBRUARY_MS)
    (program,) = blocks(PAGE, "Read less")
    program = program.replace("localhost:9092", servers).replace('"orders"', f'"{topic}"')
    run(program, {"kaa": kaa, "spark": spark})
    told = capsys.readouterr().out
    assert told.replace(f"{topic}:", "orders:") == shown(PAGE, "Read less")


def test_every_topic_and_table_as_a_view(
    spark: SparkSession,
    servers: str,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heading = "Every topic and table as a view"
    cluster = Cluster(servers)
    names = {name: f"{topic}.{name}" for name in ("clicks", "orders", "payments")}
    for name in names.values():
        cluster.create(name, 1)
    cluster.send(names["clicks"], [(None, b"home")])
    cluster.send(names["payments"], [order("a", 1.0)])
    land(spark, settings_of(servers, names["clicks"], tmp_path, table="clicks"))
    with Registry() as registry:
        number = registry.register(f"{names['orders']}-value", ORDER, kind="JSON")
        rows = [registry.frame(number, order("a", price)[1]) for price in (10.0, 20.0)]
        cluster.send(names["orders"], [(None, one) for one in rows])
        (program,) = blocks(PAGE, heading)
        prefix = re.sub(r"\W", "_", topic).lower()
        program = program.replace("http://localhost:8081", registry.url)
        program = program.replace("kaa-data/lake", str(tmp_path / "lake"))
        program = program.replace("shop_", f"{prefix}_").replace("localhost:9092", servers)
        # Other tests have topics too.
        program = program.replace(
            '"warehouse"', f'"subscribePattern": "{topic}[.].*",\n"warehouse"'
        )
        left = run(program, {"kaa": kaa, "spark": spark})
    views: Any = left["views"]
    views.detach()
    told = capsys.readouterr().out.replace(prefix, "shop").replace(topic, "shop")
    # Names of tests are longer, so that columns are wider.
    lines = told.splitlines()
    assert [one.split() for one in lines] == [
        one.split() for one in shown(PAGE, heading).splitlines()
    ]
