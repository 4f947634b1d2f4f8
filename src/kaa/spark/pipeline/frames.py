"""Sources and steps of a pipeline as DataFrames. Every name is also a view, for SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaa.spark.pipeline.spec import Pipeline, Sink, Source


def build(spark: Any, pipeline: Pipeline) -> dict[str, Any]:
    """The DataFrame of each source and step, by its name."""
    frames: dict[str, Any] = {}
    for source in pipeline.sources:
        frames[source.name] = _read(spark, pipeline, source)
        frames[source.name].createOrReplaceTempView(source.name)
    for step in pipeline.steps:
        if step.sql is not None:
            frame = spark.sql(step.sql)
        else:
            names = step.inputs or frames
            frame = step.load()(**{name: frames[name] for name in names})
        frame.createOrReplaceTempView(step.name)
        frames[step.name] = frame
    return frames


def _read(spark: Any, pipeline: Pipeline, source: Source) -> Any:
    if source.table is not None:
        reader = spark.read.format("kaa_table").option("table", source.table)
        return reader.options(**source.options).load()
    reader = spark.readStream.format("kaa").options(**pipeline.kafka_options)
    reader = reader.option("subscribe", source.topic).option("startingOffsets", "earliest")
    frame = reader.options(**source.options).load()
    mark = source.watermark
    return frame if mark is None else frame.withWatermark(mark["column"], mark["delay"])


def rows_for_topic(frame: Any, sink: Sink) -> Any:
    """The columns of records: what the sink says, else the row as JSON."""
    key = [] if sink.key is None else [f"cast({sink.key} as string) as key"]
    if sink.value is None and "value" in frame.columns:
        return frame.selectExpr(*key, "value") if key else frame
    value = sink.value or "to_json(struct(*))"
    return frame.selectExpr(*key, f"cast({value} as string) as value")
