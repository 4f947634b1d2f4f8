"""Where Spark finds the data source `kaa_table`: tables that `kaa lake` keeps, and own ones.

    spark.read.format("kaa_table").option("warehouse", "lake").option("table", "orders").load()
    totals.writeStream.format("kaa_table").option("warehouse", "lake").option("table", "totals")...

`atOffsets` reads the state at an offset of each partition, `version`, `snapshotId`,
`asOfTimestamp`, `branch` or `tag` one version; a stream reads what is added. What queries
write, streaming or not, is a table of the same kind. Spark alone reads and writes neither Iceberg
nor the manifests of a folder. As in `pyspark_kaa`, nothing is imported here that may be missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType
else:
    try:
        from pyspark.sql.datasource import DataSource
    except ImportError:  # Without Spark nobody asks for a source, and an import must not fail.
        DataSource = object


class DefaultSource(DataSource):
    """The format `kaa_table`."""

    options: dict[str, str]

    @classmethod
    def name(cls) -> str:
        return "kaa_table"

    def schema(self) -> Any:
        from kaa.spark.lake.kaa_table.reader import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> Any:
        from kaa.spark.lake.kaa_table.reader import TableReader

        return TableReader(self.options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        from kaa.spark.lake.kaa_table.stream import TableStreamReader

        return TableStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from kaa.spark.lake.kaa_table.sink import TableWriter

        return TableWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        from kaa.spark.lake.kaa_table.sink import TableStreamWriter

        return TableStreamWriter(self.options, schema, overwrite=overwrite)
