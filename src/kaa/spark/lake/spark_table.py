"""The reader behind the format ``kaa_table``: one Spark task for each file of the table.

The version is chosen when a DataFrame is planned, so that every action on it sees the same rows. A
schema of the user may name fewer columns; only those are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kaa.spark.formats.untyped import pa
from kaa.spark.lake.reading import offsets_option, open_existing, plan_read, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import StructType

    from kaa.spark.formats.untyped import RecordBatch
    from kaa.spark.lake.reading import ReadPlan


def schema_of(options: Mapping[str, str]) -> Any:
    """The columns of the table, for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(_plan(options).schema)


def _plan(options: Mapping[str, str]) -> ReadPlan:
    given = {name.lower(): value for name, value in options.items()}
    settings, table = open_existing(given)
    below = offsets_option(given.get("atoffsets"))
    return plan_read(settings, table, below, version=given.get("version"))


class TableReader(DataSourceReader):
    """Reads the files of one version."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._plan = _plan(options)
        self._names = [one.name for one in schema.fields]

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(url) for url in self._plan.urls] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        if partition.value is None:
            return
        needed = {*self._names, *(("partition", "offset") if self._plan.below else ())}
        fields = [one for one in self._plan.schema if one.name in needed]
        narrow = replace(self._plan, schema=pa.schema(fields))
        for batch in read_file(narrow, partition.value):
            yield batch.select(self._names)
