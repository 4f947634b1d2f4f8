"""From the options of a query to its schema, readers and writers: what ``pyspark_kaa`` calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.spark.errors import OptionError
from kaa.spark.options import sink_options, source_options
from kaa.spark.schema import columns_of, ddl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from kaa.spark.sink import KaaStreamWriter, KaaWriter
    from kaa.spark.source import KaaReader
    from kaa.spark.stream import KaaStreamReader


def schema_of(options: Mapping[str, str]) -> str:
    """The columns of a query that reads; Spark asks before it says whether it is a stream."""
    given = {name.lower(): value for name, value in options.items()}
    include_headers = given.get("includeheaders", "").strip().lower() == "true"
    return ddl(columns_of(given.get("columns"), include_headers=include_headers))


def reader_of(options: Mapping[str, str], schema: StructType) -> KaaReader:
    from kaa.spark.source import KaaReader

    return KaaReader(source_options(options, is_stream=False), schema)


def stream_reader_of(options: Mapping[str, str], schema: StructType) -> KaaStreamReader:
    from kaa.spark.stream import KaaStreamReader

    return KaaStreamReader(source_options(options, is_stream=True), schema)


def writer_of(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> KaaWriter:
    from kaa.spark.sink import KaaWriter

    if overwrite:
        raise OptionError("a topic cannot be overwritten; use mode('append')")
    return KaaWriter(sink_options(options), schema)


def stream_writer_of(options: Mapping[str, str], schema: StructType) -> KaaStreamWriter:
    """All output modes are appends: a topic keeps what it has, also in complete mode."""
    from kaa.spark.sink import KaaStreamWriter

    return KaaStreamWriter(sink_options(options), schema)
