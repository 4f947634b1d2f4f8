"""Iceberg tables in the catalog of AWS Glue, by an emulator, and what is special about its client.

The client repeats a request whose answer was lost, and the service then refuses the repetition as a
conflict, though the commit was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kaa.spark.lake.driver import open_table
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.table import ConflictError, TableCommit
from kaa.testing import Broker
from tests.spark.lake.landing import land, places
from tests.support.object_store import emulated_s3

Make = Callable[..., LakeSettings]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def make(request: pytest.FixtureRequest, broker: Broker) -> Make:
    """Makes settings of tables in the emulator's object store and catalog."""
    store = emulated_s3(request)
    # The emulator lives longer than the broker, whose topics have the same names again.
    namespace = store.url.split("/")[2].replace("-", "_")

    def settings(topic: str, **options: str) -> LakeSettings:
        return lake_settings(
            {
                "topic": topic,
                "warehouse": store.url,
                "table": f"{namespace}.rows",
                "kafka.bootstrap.servers": broker.bootstrap_servers,
                "catalog.type": "glue",
                **{f"catalog.glue.{name}": value for name, value in store.options.items()},
                **{f"store.{name}": value for name, value in store.options.items()},
                **options,
            }
        )

    return settings


def test_every_record_once_and_new_ones_later(make: Make, broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    topic.seed([(f"k{one}", f"v{one}") for one in range(40)])
    settings = make(topic.name, partitionBy="bucket(4, key)", maxRecordsPerRound="15")
    assert land(settings) >= 3
    topic.seed([("k1", "again")])
    assert land(settings) == 1
    expected = sorted((one.partition, one.offset, one.value) for one in topic.records())
    assert places(settings) == expected
    assert len(expected) == 41


def test_a_version_is_committed_to_once(make: Make, broker: Broker) -> None:
    topic = broker.topic()
    settings = make(topic.name)
    first, second = open_table(settings), open_table(settings)
    version = first.load().version
    assert second.load().version == version
    first.commit(version, TableCommit("first", {0: 0}, None, "append"))
    with pytest.raises(ConflictError):
        second.commit(version, TableCommit("second", {0: 0}, None, "append"))
    assert second.load().commit_id == "first"


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("answer", ["a conflict with itself", "none"])
def test_a_commit_whose_answer_was_lost(
    make: Make, broker: Broker, monkeypatch: pytest.MonkeyPatch, mode: str, answer: str
) -> None:
    from botocore.exceptions import ReadTimeoutError
    from pyiceberg.catalog.glue import GlueCatalog
    from pyiceberg.exceptions import CommitFailedException

    topic = broker.topic()
    topic.seed([("k1", "v1"), ("k2", "v2")])
    settings = make(topic.name, mode=mode)
    assert land(settings) == 1
    lost: list[str] = []
    update = GlueCatalog._update_glue_table

    def update_and_lose(self: Any, *arguments: Any, **named: Any) -> None:
        update(self, *arguments, **named)
        if not lost:
            lost.append(answer)
            if answer == "none":
                raise ReadTimeoutError(endpoint_url="glue")
            raise CommitFailedException("Glue detected concurrent update")

    monkeypatch.setattr(GlueCatalog, "_update_glue_table", update_and_lose)
    topic.seed([("k2", "newer"), ("k3", "v3")])
    assert land(settings) == 1
    assert lost == [answer]
    values = [value for _, _, value in places(settings)]
    expected = [b"v1", b"v2", b"newer", b"v3"]
    assert values == (expected if mode == "append" else [b"v1", *expected[2:]])
