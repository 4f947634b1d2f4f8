"""What a user may say about a table."""

from __future__ import annotations

from typing import Any

import pytest

from kaa.spark.lake.partitioning import Term
from kaa.spark.lake.settings import COLUMNS, lake_settings
from kaa.spark.lake.table import LakeError

GIVEN = {"topic": "shop.orders-1", "kafka.bootstrap.servers": "a:1", "warehouse": "/lake"}


def test_defaults() -> None:
    settings = lake_settings(GIVEN)
    assert (settings.namespace, settings.name) == ("kaa", "shop_orders_1")
    assert settings.columns == COLUMNS
    assert settings.store.url == "file:///lake"
    source = settings.source()
    assert source["isolationLevel"] == "read_committed"
    assert source["kafka.bootstrap.servers"] == "a:1"
    assert "a:1" not in repr(settings)


def test_everything() -> None:
    settings = lake_settings(
        {
            **GIVEN,
            "table": "shop.orders",
            "partitionBy": "day(timestamp)",
            "valueFormat": "avro",
            "valueSchema": '"int"',
            "catalog.type": "rest",
            "store.region": "x",
            "columns": "offset",
            "failOnDataLoss": "false",
            "maxRecordsPerRound": 5,
        }
    )
    assert (settings.namespace, settings.name) == ("shop", "orders")
    assert settings.terms == (Term("day", "timestamp"),)
    assert settings.catalog == {"type": "rest"}
    assert settings.round_rows == 5
    # What dead letters need is read too.
    read = settings.source()
    assert read["columns"] == "offset,partition,topic,timestamp,key,value"
    assert read["failOnDataLoss"] == "false"


def test_a_decoded_value_need_not_stay_raw() -> None:
    assert "value" not in lake_settings({**GIVEN, "valueFormat": "json"}).columns


def test_upsert_is_divided_by_key() -> None:
    settings = lake_settings({**GIVEN, "mode": "upsert", "buckets": 8, "columns": "value"})
    assert settings.terms == (Term("bucket", "key", 8),)
    assert set(settings.columns) == {"value", "partition", "offset", "timestamp", "key"}


def test_upserts_rest_longer() -> None:
    assert lake_settings(GIVEN).interval_seconds == 10
    assert lake_settings({**GIVEN, "mode": "upsert"}).interval_seconds == 60
    assert lake_settings({**GIVEN, "intervalSeconds": "0.5"}).interval_seconds == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": None}, "needs the option topic"),
        ({"kafka.bootstrap.servers": None}, "needs the option kafka.bootstrap.servers"),
        ({"layout": "orc"}, "layout is iceberg or parquet"),
        ({"colour": "red"}, "unknown options of a table: colour"),
        ({"columns": "price"}, "no column of a record: price"),
        ({"mode": "upsert", "partitionBy": "topic"}, "partitionBy cannot be chosen"),
        ({"buckets": "none"}, "a number above 0"),
        ({"intervalSeconds": "soon"}, "intervalSeconds is a number of seconds"),
        ({"intervalSeconds": "-1"}, "intervalSeconds is a number of seconds"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LakeError, match=message):
        lake_settings({**GIVEN, **options})
