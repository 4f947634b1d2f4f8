"""The reader of the format `kaa_table`: one Spark task for each file of the table.

The version is chosen when a DataFrame is planned, so that every action on it sees the same rows. A
schema of the user may name fewer columns; only those are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kaa.spark.formats.untyped import pa
from kaa.spark.lake.table import LakeError
from kaa.spark.lake.table_state import (
    offsets_option,
    open_existing,
    plan_read,
    read_file,
    version_of,
)
from kaa.spark.option_names import TABLE, check_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import StructType

    from kaa.spark.formats.untyped import RecordBatch
    from kaa.spark.lake.folder import FolderLake
    from kaa.spark.lake.iceberg.catalog import IcebergLake
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table_state import ReadPlan

_NAMED: Final = ("snapshotId", "asOfTimestamp", "branch", "tag")
_WHICH: Final = ("version", "atOffsets", *_NAMED)


def schema_of(options: Mapping[str, str]) -> Any:
    """The columns of the table, for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    settings, table = _open(options)
    # A stream may begin before the first row of its table; a folder has no columns then.
    schema = table.schema() if settings.layout == "iceberg" else _plan(options).schema
    return from_arrow_schema(schema)


def _open(options: Mapping[str, str]) -> tuple[LakeSettings, IcebergLake | FolderLake]:
    check_names(options, TABLE, ("catalog.", "store."))
    return open_existing({name.lower(): value for name, value in options.items()})


def _plan(options: Mapping[str, str]) -> ReadPlan:
    settings, table = _open(options)
    given = {name.lower(): value for name, value in options.items()}
    said = [one for one in _WHICH if one.lower() in given]
    if len(said) > 1:
        raise LakeError(f"{' and '.join(said)} both say which state is read; leave one out")
    below = offsets_option(given.get("atoffsets"))
    version = given.get("version")
    if said and said[0] in _NAMED:
        version = version_of(table, said[0], given[said[0].lower()])
    return plan_read(settings, table, below, version=version)


class TableReader(DataSourceReader):
    """Reads the files of one version."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._plan = _plan(options)
        self._names = [one.name for one in schema.fields]

    def __getstate__(self) -> dict[str, Any]:
        """For tasks, each of which gets its own file."""
        return {"_plan": replace(self._plan, files=()), "_names": self._names}

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(one) for one in self._plan.files] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        if partition.value is None:
            return
        needed = {*self._names, *(("partition", "offset") if self._plan.below else ())}
        fields = [one for one in self._plan.schema if one.name in needed]
        narrow = replace(self._plan, schema=pa.schema(fields))
        for batch in read_file(narrow, partition.value):
            yield batch.select(self._names)
