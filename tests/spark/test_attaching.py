"""Topics and tables as views."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kaa.spark
from kaa.spark.errors import OptionError, SparkSourceError
from kaa.testing import Registry
from tests.spark.conftest import Cluster, numbered
from tests.spark.test_lake import land, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO = '{"type": "record", "name": "A", "fields": [{"name": "id", "type": "long"}]}'


def test_every_topic_and_table_is_a_view(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    cluster = Cluster(servers)
    base = topic.replace("-", "_").lower()
    for name in (f"{topic}.json", f"{topic}-avro", f"{topic}-raw"):
        cluster.create(name, 1)
    rows = [{"id": 1, "price": 2, "tags": ["a"]}, {"id": 2, "price": 0.5}]
    cluster.send(f"{topic}.json", [(b"k", json.dumps(row).encode()) for row in rows])
    cluster.send(f"{topic}-raw", numbered(0, 3))
    settings = settings_of(servers, f"{topic}-raw", tmp_path)
    land(spark, settings)
    with Registry() as registry:
        number = registry.register(f"{topic}-avro-value", AVRO)
        cluster.send(f"{topic}-avro", [(None, registry.frame(number, b"\x0e"))])
        options = {
            "kafka.bootstrap.servers": servers,
            "subscribePattern": f"{topic}.*|__.*",
            "schemaRegistry.url": registry.url,
            "warehouse": str(tmp_path / "lake"),
        }
        views = kaa.spark.attach(spark, options)
        shown = {one.name: (one.kind, one.source, one.columns) for one in views}
        assert shown == {
            f"{base}_avro": ("topic", f"{topic}-avro", "registry"),
            f"{base}_json": ("topic", f"{topic}.json", "inferred"),
            f"{base}_raw": ("topic", f"{topic}-raw", "record"),
            "lake_orders": ("table", "orders", "table"),
            "lake_orders_dead_letters": ("table", "orders_dead_letters", "table"),
        }
        assert f"{base}_json  topic {topic}.json" in str(views)
        found = spark.sql(
            f"select j.id, price, tags, a.id, l.offset from {base}_json j, {base}_avro a, "
            "lake_orders l where l.offset = 0 order by j.id"
        )
        assert list(map(tuple, found.collect())) == [(1, 2.0, ["a"], 7, 0), (2, 0.5, None, 7, 0)]
        # A view stays as it was when it was used, until it is asked to look again.
        cluster.send(f"{topic}.json", [(None, b'{"id": 3, "new": true}')])
        count = f"select count(*) from {base}_json"
        assert spark.sql(count).collect() == [(2,)]
        cluster.create(f"{topic}-late", 1)
        cluster.admin(lambda one: one.delete_topics([f"{topic}-raw"]))
        views.refresh()
        assert spark.sql(f"select count(new), count(*) from {base}_json").collect() == [(1, 3)]
        assert views[f"{base}_late"].columns == "record"
        assert not spark.catalog.tableExists(f"{base}_raw")
        views.detach()
        assert not spark.catalog.tableExists(f"{base}_json")
        assert len(views) == 0


def test_a_cluster_that_cannot_be_reached(spark: SparkSession) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(SparkSourceError, match=rf"the topics of {servers} cannot be listed"):
            kaa.spark.attach(spark, {"kafka.bootstrap.servers": servers})
    with pytest.raises(OptionError, match=r"give kafka\.bootstrap\.servers to attach topics"):
        kaa.spark.attach(spark, {"schemaRegistry.url": "http://localhost:1"})
    with pytest.raises(OptionError, match="there is no option warehous"):
        kaa.spark.attach(spark, {"kafka.bootstrap.servers": servers, "warehous": "lake"})
