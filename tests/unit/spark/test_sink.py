"""What the writers do beside the rows: versions, and the query whose batch is taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructType

from kaa.client import NewTopic
from kaa.client.sync import Admin
from kaa.spark.errors import VersionMismatchError
from kaa.spark.once.tasks import TaskNames, write_transaction
from kaa.spark.options import sink_options
from kaa.spark.sink import TopicStreamWriter, TopicWriter
from tests.support.both_clusters import bootstrap, kaa_node, topic_name

__all__ = ["bootstrap", "kaa_node", "topic_name"]

SCHEMA = StructType().add("value", BinaryType())


def test_driver_and_executor_must_have_the_same_version() -> None:
    given = sink_options({"kafka.bootstrap.servers": "localhost:1", "topic": "t"})
    for writer in (TopicWriter(given, SCHEMA), TopicStreamWriter(given, SCHEMA)):
        writer._rows._version = "0.0.0"
        with pytest.raises(VersionMismatchError, match=r"the driver has kaa 0\.0\.0"):
            writer.write(iter([]))


def test_a_stream_whose_tasks_told_nothing_is_found_by_its_checkpoint(
    bootstrap: str, topic_name: str, tmp_path: Path
) -> None:
    import pyarrow as pa

    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.run(lambda one: one.create_topics([NewTopic(topic_name, 1, 1)]))

    def ongoing() -> list[str]:
        with Admin({"bootstrap.servers": bootstrap}) as admin:
            found = admin.run(lambda one: one.list_transactions(states=["Ongoing"]))
        return [one.transactional_id for one in found if topic_name in one.transactional_id]

    given = sink_options(
        {
            "kafka.bootstrap.servers": bootstrap,
            "topic": topic_name,
            "exactlyOnce": "true",
            "checkpointLocation": str(tmp_path),
        }
    )
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"x"], pa.binary())})
    write_transaction(given, TaskNames(topic_name, "run", 0, 0, 0), iter([rows]))
    assert len(ongoing()) == 1
    # Without the id of the query there is nothing to be done, and it never raises.
    TopicStreamWriter(given, SCHEMA).abort([None], 0)
    assert len(ongoing()) == 1
    (tmp_path / "metadata").write_text(json.dumps({"id": topic_name}))
    TopicStreamWriter(given, SCHEMA).abort([None], 0)
    assert ongoing() == []
