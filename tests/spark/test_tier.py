"""A tiered topic as a DataFrame and as a stream: history from the store, the rest from the node."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.conftest import read, read_stream, run_to_end
from tests.support.broker_thread import broker_thread
from tests.support.pace import PATIENCE_SECONDS
from tests.support.tiered import (
    LATEST_TIERED,
    ONE_REPLICA,
    QUICK,
    fill,
    make_topic,
    offset_of,
    wait_until_tiered,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 2_000
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "tiered-storage.md"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def servers(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = (*QUICK, *ONE_REPLICA, f"rsm.config.url={store.as_uri()}")
    with broker_thread(tmp_path_factory.mktemp("data"), *settings) as node:
        make_topic(node.bootstrap_servers, "history")
        fill(node.bootstrap_servers, "history", COUNT)
        wait_until_tiered(node.bootstrap_servers, "history")
        yield node.bootstrap_servers


def test_batch_and_stream(spark: SparkSession, servers: str, store: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"subscribe": "history", "includeHeaders": True}
    tiered = options | {"tierStore": store.as_uri()}
    expected = read(spark, servers, **options).orderBy("offset").collect()
    assert len(expected) == COUNT
    assert read(spark, servers, **tiered).orderBy("offset").collect() == expected
    block = re.search(r"```python\n(history = .*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {"spark": spark, "store": store.as_uri()}
    exec(block[1].replace("localhost:9092", servers), names)
    assert names["history"].count() == COUNT
    end = offset_of(servers, "history", LATEST_TIERED) + 1
    only = read(spark, servers, **tiered, tier="only", minPartitions=5)
    assert only.orderBy("offset").collect() == expected[:end]
    assert only.rdd.getNumPartitions() >= 5
    # A stream over the history in several batches, ended, gone on with, and then continuous.
    stream = read_stream(
        spark, servers, **tiered, startingOffsets="earliest", maxOffsetsPerTrigger=700
    )
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "rows"
    batches = run_to_end(stream, checkpoint, "parquet", path=str(folder))
    assert sum(batch["numInputRows"] for batch in batches) == COUNT
    assert len(batches) >= 3
    fill(servers, "history", 500, start=COUNT)
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(folder))
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while spark.read.parquet(str(folder)).count() < COUNT + 500:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, "the stream did not come to the end"
            time.sleep(0.2)  # noqa: TID251  Nobody tells of the rows of another query.
    finally:
        query.stop()
    rows = spark.read.parquet(str(folder)).orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(COUNT + 500))
    assert rows[:COUNT] == expected
