"""The reader of batch queries."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

import kaa
from kaa.spark.lookup import Lookup
from kaa.spark.plan import batch_ranges, split
from kaa.spark.range_reader import RangeReader, Task
from kaa.spark.schema import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kaa.spark.options import SourceOptions
    from kaa.spark.plan import OffsetRange

_LOG = logging.getLogger(__name__)
_SAID: set[str] = set()


def tell_warnings(texts: tuple[str, ...]) -> None:
    """Logs what a user should know of the options, once in each process."""
    for text in texts:
        if text not in _SAID:
            _SAID.add(text)
            _LOG.warning("%s", text)


class RangePartition(InputPartition):
    """What one Spark task reads. No settings are in it: Spark may show it."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task

    def __repr__(self) -> str:
        partition, start, end = self.task.range
        return f"{partition}[{start}, {end})"


def columns_of_schema(schema: StructType) -> tuple[str, ...]:
    """The columns of the schema that Spark hands over: the source's own, or the user's."""
    return check_schema([(one.name, one.dataType.simpleString()) for one in schema.fields])


def partitions_of(
    options: SourceOptions, ranges: Iterable[OffsetRange], topic_ids: dict[str, str]
) -> list[InputPartition]:
    """Ranges cut into the partitions of a Spark job."""
    if options.tier is not None:
        from kaa.spark.tier.planning import tiered_tasks

        return [RangePartition(task) for task in tiered_tasks(options, ranges, topic_ids)]
    return [
        RangePartition(Task(one, topic_ids.get(one.partition.topic), kaa.__version__))
        for one in split(ranges, options.min_partitions, options.max_records_per_partition)
    ]


class TopicReader(DataSourceReader):
    """Plans once, so that every action on a DataFrame sees the same rows."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._columns = columns_of_schema(schema)

    def partitions(self) -> list[InputPartition]:
        tell_warnings(self._options.warnings)
        lookup = Lookup(self._options)
        found = lookup.partitions()
        start = lookup.resolve(self._options.start, found.partitions)
        end = lookup.tier_bounded(lookup.resolve(self._options.end, found.partitions), found)
        planned = partitions_of(self._options, batch_ranges(start, end), found.topic_ids)
        # Spark makes one partition of no partition, and asks for its rows.
        return planned or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            yield from RangeReader(self._options, partition.task, self._columns).batches()
