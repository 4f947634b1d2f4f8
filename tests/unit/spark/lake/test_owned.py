"""What a table keeps of its settings, and what may differ from it."""

from __future__ import annotations

from typing import Any

import pytest

from kaa.spark.lake.owned import adopted, from_properties, kept, to_properties
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.table import LakeError


def settings(**options: Any) -> LakeSettings:
    return lake_settings({"topic": "orders", "kafka.bootstrap.servers": "a:1", **options})


FULL = settings(
    partitionBy="day( timestamp ),key",
    columns="partition,offset,timestamp,key",
    valueFormat="avro",
    **{"schemaRegistry.url": "http://r", "schemaRegistry.basicAuth": "u:secret"},
)


def test_the_name_alone_is_enough_later() -> None:
    found = adopted(settings(**{"schemaRegistry.basicAuth": "u:secret"}), kept(FULL))
    assert found == FULL
    upsert = settings(mode="upsert", buckets=3, columns="value")
    assert adopted(settings(), kept(upsert)) == upsert
    assert adopted(settings(mode="upsert", columns="value"), kept(upsert)) == upsert


def test_secrets_are_not_kept() -> None:
    assert "secret" not in str(kept(FULL))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitionBy": "hour(timestamp)"}, r"partitionBy=day\(timestamp\), key, and hour"),
        ({"partitionBy": ""}, "and nothing is asked for"),
        ({"mode": "upsert"}, "mode=append, and upsert is asked for"),
        ({"columns": "offset"}, "columns="),
        ({"valueFormat": "json"}, "valueFormat=avro, and json"),
        ({"topic": "other", "table": "orders"}, "topic=orders, and other"),
    ],
)
def test_a_difference_is_refused_with_both_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LakeError, match=message):
        adopted(settings(**options), kept(FULL))


def test_the_same_may_be_said_again_and_files_may_be_written_otherwise() -> None:
    again = settings(
        partitionBy="day(timestamp), key",
        columns="key, partition,offset,timestamp",
        compression="snappy",
    )
    found = adopted(again, kept(FULL))
    assert found.compression == "snappy"
    assert found.terms == FULL.terms


def test_properties_of_iceberg() -> None:
    stored = kept(FULL)
    properties = to_properties(stored)
    assert "kaa.partitionBy" not in properties
    found = from_properties({**properties, "other": "x"})
    assert {**found, "partitionBy": stored["partitionBy"]} == stored
    with pytest.raises(LakeError, match="version 2"):
        from_properties({**properties, "kaa.settings-version": "2"})


def test_a_table_that_a_query_fills_has_no_topic() -> None:
    of_query = lake_settings({"table": "totals", "partitionBy": "day(at)"}, has_topic=False)
    stored = kept(of_query)
    assert stored.items() >= {"mode": "append", "partitionBy": "day(at)"}.items()
    assert not stored.keys() & {"topic", "columns"}
    assert adopted(lake_settings({"table": "totals"}, has_topic=False), stored) == of_query
