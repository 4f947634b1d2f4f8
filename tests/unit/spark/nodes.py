"""What the tests of this folder do to a running node, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

import kaa
from kaa.client import NewTopic, TopicPartition
from kaa.client.sync import Admin
from kaa.spark.lookup import Lookup
from kaa.spark.options import SourceOptions, sink_options, source_options
from kaa.spark.plan import OffsetRange
from kaa.spark.range_reader import RangeReader, Task
from kaa.spark.writing import RowWriter


class Topic:
    """One topic of a node."""

    def __init__(self, servers: str, name: str, partitions: int = 1, **configs: str) -> None:
        self.servers = servers
        self.name = name
        self.settings = {"bootstrap.servers": servers}
        wanted = {key.replace("_", "."): value for key, value in configs.items()}
        with Admin(self.settings) as admin:
            outcome = admin.run(
                lambda one: one.create_topics([NewTopic(name, partitions, 1, wanted)])
            )
        assert outcome == {name: None}, outcome

    def send(self, values: Sequence[bytes | None], partition: int = 0, **settings: str) -> None:
        """Writes values in batches of ten thousand, each with a key of its number."""
        given = {f"kafka.{key.replace('_', '.')}": value for key, value in settings.items()}
        options = sink_options(
            given | {"kafka.bootstrap.servers": self.servers, "topic": self.name}
        )
        keys = [b"key-%d" % number for number in range(len(values))]
        batches = [
            pa.RecordBatch.from_pydict(
                {
                    "key": pa.array(keys[first : first + 10_000], pa.binary()),
                    "value": pa.array(values[first : first + 10_000], pa.binary()),
                    "partition": pa.array(
                        [partition] * len(values[first : first + 10_000]), pa.int32()
                    ),
                }
            )
            for first in range(0, len(values), 10_000)
        ]
        RowWriter(options).write(batches)

    def delete_before(self, offset: int, partition: int = 0) -> None:
        with Admin(self.settings) as admin:
            admin.run(
                lambda one: one.delete_records({TopicPartition(self.name, partition): offset})
            )

    def options(self, **options: str) -> SourceOptions:
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": self.name}
        return source_options(given | options, is_stream=False)

    def task(self, start: int, end: int, partition: int = 0) -> Task:
        topic_id = Lookup(self.options()).partitions().topic_ids[self.name]
        name = TopicPartition(self.name, partition)
        return Task(OffsetRange(name, start, end), topic_id, kaa.__version__)

    def batches(
        self, start: int, end: int, columns: tuple[str, ...], /, **options: str
    ) -> Iterator[pa.RecordBatch]:
        return RangeReader(self.options(**options), self.task(start, end), columns).batches()

    def values(self, start: int, end: int, /, **options: str) -> list[bytes | None]:
        return [
            value
            for batch in self.batches(start, end, ("value",), **options)
            for value in batch.column("value").to_pylist()
        ]
