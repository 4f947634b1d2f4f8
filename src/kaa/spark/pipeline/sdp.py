"""A pipeline as a project of Spark Declarative Pipelines, and a first file to begin with.

`spark-pipelines run` reads what is there and ends, each time. Its sinks only append, and tables
of its own need a catalog that outlives a run. So the project has none: sources and steps become
temporary views, sinks are the formats `kaa` and `kaa_table`, and runs go on from each other by
their checkpoints alone.

A view that is a stream must be named `STREAM(view)` in SQL there, which is written after `from`
and `join`. Variables of the environment stay variables, so that no secret is in the project.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any, Final

from kaa.spark.pipeline.spec import VARIABLE, PipelineError, load, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kaa.spark.pipeline.spec import Pipeline, Sink, Source, Step

SAMPLE: Final = """\
# kaa pipeline validate pipeline.yaml && kaa pipeline run pipeline.yaml
name: {name}
storage: {folder}/storage
kafka:
  bootstrap.servers: {servers}

sources:
  events: {{topic: {topic}}}

steps:
  shouted:
    sql: select key, upper(cast(value as string)) as value, timestamp from events

sinks:
  shouted: {{from: shouted, topic: {topic}-shouted, key: key, value: value}}
  history: {{from: shouted, table: {name}.shouted, options: {{warehouse: {folder}/lake}}}}
"""
_SPEC: Final = """\
name: {name}
storage: file://{folder}/storage
{configuration}libraries:
  - glob:
      include: transformations/**
"""
_HEAD: Final = '''\
"""The pipeline {name}, written by kaa pipeline init --sdp."""

import os
import sys
from pathlib import Path

from pyspark import pipelines as dp

# Functions of steps may lie beside spark-pipeline.yml.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def given(options):
    """Options, with variables of the environment filled in."""
    return {{name: os.path.expandvars(value) for name, value in options.items()}}
'''


def write_sample(folder: Path, servers: str, topic: str) -> Path:
    """Writes a pipeline to begin with."""
    _make(folder)
    file = folder / "pipeline.yaml"
    name = re.sub(r"\W+", "_", folder.name)
    here = str(folder.resolve())
    file.write_text(SAMPLE.format(name=name, folder=here, servers=servers, topic=topic))
    return file


def write_project(file: Path, folder: Path) -> None:
    """Writes the project that does what the file of a pipeline says."""
    document = load(file)
    variables = {name: f"${{{name}}}" for name in VARIABLE.findall(file.read_text())}
    pipeline = parse(document, variables)
    text = _transformations(pipeline)
    _make(folder / "transformations")
    settings = json.dumps(dict(pipeline.configuration))
    configuration = f"configuration: {settings}\n" if pipeline.configuration else ""
    here = str(folder.resolve())
    (folder / "spark-pipeline.yml").write_text(
        _SPEC.format(name=pipeline.name, folder=here, configuration=configuration)
    )
    (folder / "transformations" / f"{re.sub(r'[^A-Za-z0-9]+', '_', pipeline.name)}.py").write_text(
        text
    )
    for step in pipeline.steps:
        module = file.parent / f"{(step.function or '').partition(':')[0]}.py"
        if step.function is not None and module.is_file() and module.parent != folder:
            shutil.copy(module, folder / module.name)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise PipelineError(f"{folder}: {error.strerror}") from error


def _transformations(pipeline: Pipeline) -> str:
    streams = {source.name for source in pipeline.sources if source.topic is not None}
    parts = [_HEAD.format(name=pipeline.name)]
    parts += [_source(pipeline, one) for one in pipeline.sources]
    names = [one.name for one in pipeline.sources]
    for step in pipeline.steps:
        inputs = list(step.inputs or names) if step.sql is None else _named(step.sql, names)
        parts.append(_step(step, inputs, streams))
        if streams & set(inputs):
            streams.add(step.name)
        names.append(step.name)
    parts += [_sink(pipeline, number, one, streams) for number, one in enumerate(pipeline.sinks)]
    return "\n\n".join(parts)


def _named(sql: str, names: list[str]) -> list[str]:
    return [one for one in names if re.search(rf"\b{re.escape(one)}\b", sql)]


def _source(pipeline: Pipeline, source: Source) -> str:
    if source.table is not None:
        options = {"table": source.table, **source.options}
        return _view(source.name, [f'return spark.read.format("kaa_table"){_options(options)}'])
    return _view(source.name, [f"return {_topic(pipeline, source.topic, source)}"])


def _topic(pipeline: Pipeline, topic: str | None, source: Source | None = None) -> str:
    """The expression that reads a topic as a stream."""
    given = {} if source is None else source.options
    options = {"subscribe": topic, "startingOffsets": "earliest", **given}
    text = f'spark.readStream.format("kaa"){_options({**pipeline.kafka_options, **options})}'
    mark = None if source is None else source.watermark
    return text if mark is None else text + f".withWatermark({mark['column']!r}, {mark['delay']!r})"


def _step(step: Step, inputs: list[str], streams: set[str]) -> str:
    if step.sql is not None:
        sql = step.sql
        for name in streams & set(inputs):
            pattern = rf"(?i)\b(from|join)(\s+){re.escape(name)}\b"
            sql = re.sub(pattern, rf"\1\2STREAM({name})", sql)
        return _view(step.name, [f"return spark.sql({sql.strip()!r})"])
    module, _, function = str(step.function).partition(":")
    frames = ", ".join(f"{name}={_table(name, streams)}" for name in inputs)
    return _view(
        step.name, [f"from {module} import {function}", "", f"return {function}({frames})"]
    )


def _sink(pipeline: Pipeline, number: int, sink: Sink, streams: set[str]) -> str:
    if sink.mode != "append":
        raise PipelineError(
            f"sinks.{sink.name}: sinks of Spark Declarative Pipelines append, there is no mode "
            f"{sink.mode}"
        )
    if sink.origin in streams:
        frame = _table(sink.origin, streams)
    else:
        found = pipeline.topic_of(sink.origin)
        if found is None:
            raise PipelineError(f"sinks.{sink.name}: {sink.origin!r} is not a stream")
        frame = _topic(pipeline, found.topic)
    if sink.table is not None:
        kind, options = "kaa_table", {"table": sink.table, **sink.options}
    else:
        kind = "kaa"
        options = {**pipeline.kafka_options, "topic": str(sink.topic), **sink.options}
        frame += _record(pipeline, sink)
    views = {one.name for one in pipeline.sources} | {one.name for one in pipeline.steps}
    # Views and sinks share their names there.
    name = f"{sink.name}_sink" if sink.name in views else sink.name
    return (
        f"dp.create_sink({name!r}, {kind!r}, given({_dict(options)}))\n\n\n"
        f'@dp.append_flow(target={name!r}, name="flow_{number}")\n'
        f"def flow_{number}():\n    return {frame}\n"
    )


def _record(pipeline: Pipeline, sink: Sink) -> str:
    """The columns of records: what the sink says, else those of the topic, else the row as JSON."""
    source = next((one for one in pipeline.sources if one.name == sink.origin), None)
    is_raw = source is not None and not any("format" in one.lower() for one in source.options)
    if sink.value is None and sink.key is None and is_raw:
        return ""
    value = sink.value or ("value" if is_raw else "to_json(struct(*))")
    columns = [] if sink.key is None else [f"cast({sink.key} as string) as key"]
    columns.append(f"cast({value} as string) as value")
    return f".selectExpr({', '.join(map(repr, columns))})"


def _table(name: str, streams: set[str]) -> str:
    return f"spark.{'readStream' if name in streams else 'read'}.table({name!r})"


def _view(name: str, lines: list[str]) -> str:
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    function = "view_" + re.sub(r"\W", "_", name)
    return f"@dp.temporary_view(name={name!r})\ndef {function}():\n{body}\n"


def _options(options: Mapping[str, Any]) -> str:
    return f".options(**given({_dict(options)})).load()"


def _dict(options: Mapping[str, Any]) -> str:
    lines = "".join(f"        {name!r}: {value!r},\n" for name, value in options.items())
    return "{\n" + lines + "    }"
