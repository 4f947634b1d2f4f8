"""Where Spark finds the data source `kaa`.

On its first look for a format, Spark imports every top-level module whose name begins with
`pyspark_` and registers its `DefaultSource`. One such module that raises takes all Python
sources away with it, so this one imports nothing that may be missing; everything else is loaded
when it is used.
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
    """The format `kaa`: topics of Kaa, or of any Kafka, as rows."""

    options: dict[str, str]

    @classmethod
    def name(cls) -> str:
        return "kaa"

    def schema(self) -> Any:
        from kaa.spark.entry import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> Any:
        from kaa.spark.entry import reader_of

        return reader_of(self.options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802  Spark's name.
        from kaa.spark.entry import stream_reader_of

        return stream_reader_of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from kaa.spark.entry import writer_of

        return writer_of(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        from kaa.spark.entry import stream_writer_of

        return stream_writer_of(self.options, schema)
