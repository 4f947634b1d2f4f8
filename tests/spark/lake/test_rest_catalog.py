"""Iceberg tables in a catalog that is reached over HTTP, on disk and in an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kaa.spark.lake.driver import open_table
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.store import Store
from kaa.spark.lake.table import LakeError
from kaa.testing import Broker
from tests.spark.lake.landing import land, places
from tests.support.object_store import emulated_s3
from tests.support.rest_catalog import RestCatalog

ROWS = 40
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(params=["disk", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(str(tmp_path / "lake")) if request.param == "disk" else emulated_s3(request)


@pytest.fixture
def catalog(store: Store, tmp_path: Path) -> Iterator[RestCatalog]:
    with RestCatalog(tmp_path, store.url, store.iceberg_properties()) as running:
        yield running


def settings_of(
    broker: Broker, catalog: RestCatalog, store: Store, topic: str, **options: str
) -> LakeSettings:
    return lake_settings(
        {
            "topic": topic,
            "warehouse": store.url,
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "catalog.type": "rest",
            "catalog.uri": catalog.uri,
            "catalog.token": catalog.token,
            "partitionBy": "bucket(4, key)",
            "maxRecordsPerRound": "15",
            **{f"store.{name}": value for name, value in store.options.items()},
            **options,
        }
    )


def test_every_record_once_though_answers_get_lost(
    broker: Broker, catalog: RestCatalog, store: Store
) -> None:
    topic = broker.topic(partitions=2)
    topic.seed([(f"k{one}", f"v{one}") for one in range(ROWS)])
    settings = settings_of(broker, catalog, store, topic.name)
    open_table(settings).load()
    before = catalog.commits
    catalog.fates = ["lost after", "lost before", "", "lost after"]
    assert land(settings) >= 3
    assert not catalog.fates
    assert catalog.commits > before + 4
    expected = sorted((one.partition, one.offset, one.value) for one in topic.records())
    assert places(settings) == expected
    # Only what is new is read by the next run.
    topic.seed([("k1", "again")])
    assert land(settings) == 1
    assert len(places(settings)) == ROWS + 1


@pytest.mark.parametrize("store", ["disk"], indirect=True)
@pytest.mark.parametrize("offer", ["listed", "refused"])
def test_dead_letters_come_with_their_rounds_though_answers_get_lost(
    broker: Broker, catalog: RestCatalog, store: Store, offer: str
) -> None:
    catalog.transactions = offer
    topic = broker.topic(partitions=1)
    values = ["no number" if one % 10 == 0 else f'{{"n": {one}}}' for one in range(ROWS)]
    topic.seed([("k", one) for one in values])
    formats = {"valueFormat": "json", "valueSchema": SCHEMA}
    settings = settings_of(broker, catalog, store, topic.name, **formats)
    table: Any = open_table(settings)
    table.load()
    table.prepare(table.schema())
    before = len(catalog.made)
    catalog.fates = ["lost after", "lost before", "expired", "", "lost after"]
    assert land(settings) == 3
    assert not catalog.fates
    rows, letters = (
        sorted(one.handle.scan().to_arrow().column("offset").to_pylist())
        for one in (table.data, table.dead)
    )
    assert letters == [0, 10, 20, 30]
    assert rows == [one for one in range(ROWS) if one % 10]
    name, dead = table.data.handle.name()[1], table.dead.handle.name()[1]
    commits = [(dead, name)] if offer == "listed" else [(dead,), (name,)]
    assert catalog.made[before:] == commits * 3
    if offer == "refused":
        assert catalog.transactions_asked == 1


def test_a_catalog_that_answers_no_commit_ends_the_run(
    broker: Broker, catalog: RestCatalog, store: Store
) -> None:
    topic = broker.topic()
    topic.seed([("k", "v")])
    settings = settings_of(broker, catalog, store, topic.name)
    table = open_table(settings)
    table.load()
    table.prepare(table.schema())
    catalog.fates = ["lost before"] * 20
    with pytest.raises(LakeError, match="not known whether"):
        land(settings)
    catalog.fates = []
    assert land(settings) == 1
    assert len(places(settings)) == 1


def test_a_wrong_token_is_told_and_not_shown(
    broker: Broker, catalog: RestCatalog, store: Store
) -> None:
    with pytest.raises(LakeError, match="catalog") as refusal:
        open_table(settings_of(broker, catalog, store, "t", **{"catalog.token": "a secret"}))
    assert "a secret" not in str(refusal.value)
