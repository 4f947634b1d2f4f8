"""Tables of JSON that nobody has described, without Spark, in both layouts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import StringType

from kaa.spark.formats.untyped import pa
from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import open_table
from kaa.spark.lake.iceberg.catalog import open_catalog
from kaa.spark.lake.inferring import InferredColumns
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.table import LakeError
from kaa.testing import Broker
from tests.spark.lake import test_tables
from tests.spark.lake.test_tables import Make, dead_letters, rows, run

# The fixtures of the tests of tables.
broker, make = test_tables.broker, test_tables.make


def texts(*values: Any) -> list[str]:
    return [one if isinstance(one, str) else json.dumps(one) for one in values]


def decoded(row: dict[str, Any]) -> dict[str, Any]:
    record = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "headers")
    return {name: value for name, value in row.items() if name not in record and value is not None}


def test_columns_come_by_themselves_and_grow(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    first: list[dict[str, Any]] = [
        {"id": 1, "at": "2026-01-31", "who": {"name": "a"}},
        {"id": 2, "timestamp": True},
    ]
    topic.seed(texts(*first))
    settings = make(topic.name, valueFormat="json", partitionBy="at")
    (report,) = run(settings)
    assert (report.rows, report.dead_letters) == (2, 0)
    # One record of many has new fields, also in an object that was there.
    later: list[dict[str, Any]] = [{"id": number} for number in range(3, 50)]
    later[30] |= {"who": {"age": 7}, "tags": [0.5, 1], "none": None}
    topic.seed(texts(*later))
    (report,) = run(settings)
    assert (report.rows, report.dead_letters) == (47, 0)
    expected: list[dict[str, Any]] = [*first, *later]
    expected[1] = {"id": 2, "value_timestamp": True}
    expected[32] = {"id": 33, "who": {"name": None, "age": 7}, "tags": [0.5, 1.0]}
    expected[0] = {**expected[0], "who": {"name": "a", "age": None}}
    found = sorted((decoded(row) for row in rows(settings)), key=lambda row: row["id"])
    assert found == expected
    kinds = {one.name: one.type for one in open_table(settings).schema()}
    assert (kinds["id"], kinds["at"]) == (pa.int64(), pa.string())
    assert "none" not in kinds


def test_what_does_not_fit_a_column(make: Make, broker: Broker) -> None:
    """Integers that become numbers are dead letters with the reason; text takes everything."""
    topic = broker.topic(partitions=1)
    topic.seed(texts({"n": 1, "s": "a"}))
    settings = make(topic.name, valueFormat="json")
    run(settings)
    topic.seed(texts({"n": 1.5}, {"n": 2.0, "s": [1]}, {"n": "x", "late": 1}, "no JSON", "[]"))
    (report,) = run(settings)
    assert (report.rows, report.dead_letters) == (1, 4)
    assert [decoded(row) for row in rows(settings)] == [{"n": 1, "s": "a"}, {"n": 2, "s": "[1]"}]
    reasons = [
        one["kaa_error"] for one in sorted(dead_letters(settings), key=lambda one: one["offset"])
    ]
    assert reasons[0] == "1.5 where a whole number belongs"
    assert run(settings) == []


def test_numbers_that_are_doubles_from_the_beginning(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=1)
    topic.seed(texts({"n": 1}))
    settings = make(topic.name, valueFormat="json", jsonNumbers="double")
    run(settings)
    topic.seed(texts({"n": 1.5, "m": [1]}))
    (report,) = run(settings)
    assert report.dead_letters == 0
    assert [decoded(row) for row in rows(settings)] == [{"n": 1.0}, {"n": 1.5, "m": [1.0]}]
    # It is kept with the table.
    assert open_table(make(topic.name)).settings.formats["jsonNumbers"] == "double"
    with pytest.raises(LakeError, match="jsonNumbers=double, and exact is asked for"):
        open_table(make(topic.name, jsonNumbers="exact"))


def test_a_topic_without_a_record_and_keys(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=1)
    settings = make(topic.name, valueFormat="json", keyFormat="json", mode="upsert", buckets=1)
    run(settings)
    assert rows(settings) == []
    topic.seed([('{"k": 1}', '{"v": 1}'), ('{"k": 2}', '{"v": 2}'), ('{"k": 1}', '{"v": 3}')])
    (report,) = run(settings)
    assert report.dead_letters == 0
    found = [(row["key_k"], row["v"]) for row in rows(settings)]
    assert sorted(found) == [(1, 3), (2, 2)]


@pytest.mark.parametrize("make", ["iceberg"], indirect=True)
def test_a_column_that_was_dropped_is_not_looked_at_in_each_round(
    make: Make, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(partitions=1)
    topic.seed(texts({"a": 1, "b": 2}))
    settings = make(topic.name, valueFormat="json", maxRecordsPerRound=1)
    run(settings)
    catalog: Catalog = open_catalog(settings)
    with catalog.load_table((settings.namespace, settings.name)).update_schema() as update:
        update.delete_column("b")
    topic.seed(texts({"a": 2, "b": 3}, {"a": 3, "b": 4}))
    seen: list[Any] = []
    add = InferredColumns.add

    def count(self: InferredColumns, found: Any) -> None:
        seen.append(found)
        add(self, found)

    monkeypatch.setattr(InferredColumns, "add", count)
    assert len(run(settings)) == 2
    assert len(seen) == 1
    assert [decoded(row) for row in rows(settings)] == [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize("make", ["iceberg"], indirect=True)
def test_null_lists_of_objects_stay_null(make: Make, broker: Broker) -> None:
    """Pyiceberg makes empty ones of them, and a compaction would write these."""
    topic = broker.topic(partitions=1)
    topic.seed(texts({"a": 1}, {"a": 2, "tags": [{"x": 1, "y": 2}]}, {"a": 3, "tags": []}))
    settings = make(topic.name, valueFormat="json", maxRecordsPerRound=2)
    run(settings)
    table: Any = open_table(settings)
    # Another engine renames a part, and gives its name to a new one.
    with table.data.handle.update_schema() as update:
        update.rename_column(("tags", "element", "x"), "z")
    with table.data.handle.update_schema() as update:
        update.add_column(("tags", "element", "x"), StringType())
    expected = [{"a": 1}, {"a": 2, "tags": [{"z": 1, "y": 2, "x": None}]}, {"a": 3, "tags": []}]
    assert [decoded(row) for row in rows(settings)] == expected
    table.load()
    assert compact(table, plan_compaction(table), LocalRunner()) == 1
    assert [decoded(row) for row in rows(settings)] == expected
