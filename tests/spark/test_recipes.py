"""The recipes of docs/guides/spark-recipes.md, run as they stand; runs go on from each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.conftest import Cluster, read
from tests.spark.guides import blocks, run, with_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PAGE = "spark-recipes.md"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


class Recipe:
    """One recipe with topics of its own."""

    def __init__(self, spark: SparkSession, servers: str, prefix: str, folder: Path) -> None:
        self._spark, self._servers, self._folder = spark, servers, folder
        self._prefix = prefix
        self._cluster = Cluster(servers)
        self._topics: dict[str, str] = {}

    def create(self, *names: str) -> None:
        for name in names:
            self._topics[name] = f"{self._prefix}-{name}"
            self._cluster.create(self._topics[name], 2)

    def send(self, topic: str, *rows: tuple[str, dict[str, Any]]) -> None:
        values = [(key.encode(), json.dumps(row).encode()) for key, row in rows]
        self._cluster.send(self._topics[topic], values)

    def run(self, heading: str) -> None:
        names: dict[str, Any] = {"__name__": "recipe"}
        for one in (*blocks(PAGE), *blocks(PAGE, heading)):
            run(with_places(one, self._servers, self._folder, self._topics), names)

    def found(self, topic: str) -> list[dict[str, Any]]:
        options = {"subscribe": self._topics[topic], "isolationLevel": "read_committed"}
        rows = read(self._spark, self._servers, **options).select("value").collect()
        return sorted((json.loads(row.value) for row in rows), key=str)


@pytest.fixture
def recipe(spark: SparkSession, servers: str, topic: str, tmp_path: Path) -> Iterator[Recipe]:
    before = spark.conf.get(PROVIDER) or ""
    yield Recipe(spark, servers, topic, tmp_path)
    spark.conf.set(PROVIDER, before)


def test_state_of_your_own(recipe: Recipe) -> None:
    recipe.create("payments", "alerts")

    def pay(customer: str, *outcomes: bool) -> None:
        rows = [(customer, {"customer": customer, "paid": one}) for one in outcomes]
        recipe.send("payments", *rows)

    heading = "State of your own: transformWithState"
    pay("a", True, False, False)
    pay("b", False, True, False, False, False, False)
    recipe.run(heading)
    (first,) = recipe.found("alerts")
    assert first["customer"] == "b"
    # The count goes on where it was.
    pay("a", False)
    recipe.run(heading)
    assert [one["customer"] for one in recipe.found("alerts")] == ["a", "b"]


def test_two_streams(recipe: Recipe) -> None:
    recipe.create("orders", "receipts", "paid")
    recipe.send("orders", *[(str(one), {"id": one, "price": one + 0.5}) for one in range(4)])
    recipe.send("receipts", ("1", {"order": 1}), ("7", {"order": 7}))
    recipe.run("Two streams: joins")
    assert recipe.found("paid") == [{"id": 1, "price": 1.5}]
    recipe.send("receipts", ("2", {"order": 2}))
    recipe.run("Two streams: joins")
    assert recipe.found("paid") == [{"id": 1, "price": 1.5}, {"id": 2, "price": 2.5}]
