"""From the options of a query to its schema, readers and writers: what `pyspark_kaa` calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.spark.errors import OptionError
from kaa.spark.options import sink_options, source_options
from kaa.spark.schema import columns_of, ddl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from kaa.spark.sink import TopicStreamWriter, TopicWriter
    from kaa.spark.topic_reader import TopicReader
    from kaa.spark.topic_stream import TopicStreamReader


def schema_of(options: Mapping[str, str]) -> str | StructType:
    """The columns of a query that reads; Spark asks before it says whether it is a stream."""
    given = {name.lower(): value for name, value in options.items()}
    include_headers = given.get("includeheaders", "").strip().lower() == "true"
    columns = columns_of(given.get("columns"), include_headers=include_headers)
    if not _decodes(options):
        return ddl(columns)
    from kaa.spark.formats.readers import decoded_schema, is_decoding, plan_of

    if not is_decoding(options):
        return ddl(columns)

    # Where a query begins plays no part in its columns, and differs for streams.
    topics = {name: value for name, value in options.items() if "offset" not in name.lower()}
    plan = plan_of(options, source_options(topics, is_stream=False))
    return decoded_schema(plan, columns)


def _decodes(options: Mapping[str, str]) -> bool:
    """Whether keys or values become columns; without them nothing more is imported."""
    return any(name.lower() in {"valueformat", "keyformat"} for name in options)


def reader_of(options: Mapping[str, str], schema: StructType) -> TopicReader:
    """The reader of a query over what is there now."""
    from kaa.spark.topic_reader import TopicReader

    source = source_options(options, is_stream=False)
    if _decodes(options):
        from kaa.spark.formats.readers import DecodingReader, is_decoding, plan_of

        if is_decoding(options):
            return DecodingReader(source, schema, plan_of(options, source, schema))
    return TopicReader(source, schema)


def stream_reader_of(options: Mapping[str, str], schema: StructType) -> TopicStreamReader:
    """The reader of a streaming query."""
    from kaa.spark.topic_stream import TopicStreamReader

    source = source_options(options, is_stream=True)
    if _decodes(options):
        from kaa.spark.formats.readers import is_decoding, plan_of, stream_reader

        if is_decoding(options):
            return stream_reader(source, schema, plan_of(options, source, schema))
    return TopicStreamReader(source, schema)


def writer_of(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TopicWriter:
    """The writer of a query that runs once; OptionError for a mode other than append."""
    from kaa.spark.sink import TopicWriter

    if overwrite:
        raise OptionError("a topic cannot be overwritten; use mode('append')")
    return TopicWriter(sink_options(options), schema)


def stream_writer_of(options: Mapping[str, str], schema: StructType) -> TopicStreamWriter:
    """All output modes are appends: a topic keeps what it has, also in complete mode."""
    from kaa.spark.sink import TopicStreamWriter

    return TopicStreamWriter(sink_options(options), schema)
