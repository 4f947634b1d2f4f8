"""The file of a pipeline, read and checked before anything starts."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, Final

from kaa.spark.pipeline.shape import problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BOOTSTRAP: Final = "bootstrap.servers"


class PipelineError(Exception):
    """What is wrong with a pipeline, a line for each problem."""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic or a table."""

    name: str
    topic: str | None
    table: str | None
    options: Mapping[str, str]
    watermark: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Step:
    """SQL text, or a function on DataFrames."""

    name: str
    sql: str | None
    function: str | None
    inputs: tuple[str, ...]

    def load(self) -> Callable[..., Any]:
        """Imports the function."""
        assert self.function is not None
        module, _, name = self.function.partition(":")
        found = getattr(import_module(module), name, None)
        if not callable(found):
            raise PipelineError(f"steps.{self.name}: {module} has no function {name}")
        return found  # type: ignore[no-any-return]  # It is callable.


@dataclass(frozen=True, slots=True)
class Sink:
    """A topic, or a table of a topic."""

    name: str
    origin: str
    topic: str | None
    table: str | None
    mode: str
    key: str | None
    value: str | None
    options: Mapping[str, str]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline that can run, as far as the file alone tells."""

    name: str
    storage: str
    kafka: Mapping[str, str] = field(repr=False)
    configuration: Mapping[str, str]
    master: str | None
    available_now: bool
    processing_time: str
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]

    @property
    def kafka_options(self) -> dict[str, str]:
        return {f"kafka.{name}": value for name, value in self.kafka.items()}

    def topic_of(self, name: str) -> tuple[str, Mapping[str, str]] | None:
        """The topic behind a source or a sink, with the options of its formats."""
        for source in self.sources:
            if source.name == name and source.topic is not None:
                return source.topic, source.options
        for sink in self.sinks:
            if sink.name == name and sink.topic is not None:
                return sink.topic, {}
        return None


def read(path: Path, overrides: Mapping[str, str] | None = None) -> Pipeline:
    """Reads a file; ``overrides`` are settings of clients that win over those of the file."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise PipelineError(f"{path} is not YAML: {error}") from error
    return parse(document, os.environ, overrides)


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    text = resources.files("kaa.spark.pipeline").joinpath("schema.json").read_text()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def parse(
    document: Any, environment: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Pipeline:
    """The pipeline of a parsed file; raises with all that is wrong."""
    found: list[str] = []
    document = _substituted(document, environment, found)
    found += problems(document, schema())
    if found:
        raise PipelineError("\n".join(found))
    trigger = document.get("trigger", {})
    pipeline = Pipeline(
        name=document["name"],
        storage=document["storage"],
        kafka={**_texts(document.get("kafka", {})), **(overrides or {})},
        configuration=_texts(document.get("configuration", {})),
        master=document.get("master"),
        available_now=bool(trigger.get("availableNow", False)),
        processing_time=trigger.get("processingTime", "1 second"),
        sources=tuple(_source(name, one) for name, one in document["sources"].items()),
        steps=tuple(
            Step(name, one.get("sql"), one.get("function"), tuple(one.get("inputs", ())))
            for name, one in document.get("steps", {}).items()
        ),
        sinks=tuple(_sink(name, one) for name, one in document["sinks"].items()),
    )
    found += _wiring(pipeline)
    if found:
        raise PipelineError("\n".join(found))
    return pipeline


def _substituted(value: Any, environment: Mapping[str, str], found: list[str]) -> Any:
    if isinstance(value, dict):
        return {name: _substituted(one, environment, found) for name, one in value.items()}
    if isinstance(value, list):
        return [_substituted(one, environment, found) for one in value]
    if not isinstance(value, str):
        return value

    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            found.append(f"the environment has no variable {match[1]}")
        return environment.get(match[1], "")

    return _VARIABLE.sub(variable, value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in values.items()}


def _source(name: str, one: dict[str, Any]) -> Source:
    mark = one.get("watermark")
    return Source(
        name,
        one.get("topic"),
        one.get("table"),
        _texts(one.get("options", {})),
        None if mark is None else (mark["column"], mark["delay"]),
    )


def _sink(name: str, one: dict[str, Any]) -> Sink:
    return Sink(
        name,
        one["from"],
        one.get("topic"),
        one.get("table"),
        one.get("mode", "append"),
        one.get("key"),
        one.get("value"),
        _texts(one.get("options", {})),
    )


def _wiring(pipeline: Pipeline) -> list[str]:
    """What the schema cannot say."""
    found: list[str] = []
    if _BOOTSTRAP not in pipeline.kafka:
        found.append(f"kafka: {_BOOTSTRAP} is missing")
    seen: set[str] = set()
    for source in pipeline.sources:
        if (source.topic is None) == (source.table is None):
            found.append(f"sources.{source.name}: give either topic or table")
        if source.table is not None and source.watermark is not None:
            found.append(f"sources.{source.name}: a table has no watermark")
        seen.add(source.name)
    for step in pipeline.steps:
        if (step.sql is None) == (step.function is None):
            found.append(f"steps.{step.name}: give either sql or function")
        if step.name in seen:
            found.append(f"steps.{step.name}: there is a source or step of this name")
        found += [
            f"steps.{step.name}: {one!r} is no source and no step before it"
            for one in step.inputs
            if one not in seen
        ]
        seen.add(step.name)
    for sink in pipeline.sinks:
        found += _sink_problems(pipeline, sink, seen)
    return found


def _sink_problems(pipeline: Pipeline, sink: Sink, seen: set[str]) -> list[str]:
    place = f"sinks.{sink.name}"
    if (sink.topic is None) == (sink.table is None):
        return [f"{place}: give either topic or table"]
    if sink.table is not None:
        if pipeline.topic_of(sink.origin) is None:
            advice = "write the step to a topic, and name that sink here"
            return [f"{place}: a table is made of a topic; {sink.origin!r} is none: {advice}"]
        return [] if sink.mode in {"append", "upsert"} else [f"{place}: append or upsert"]
    if sink.origin not in seen:
        return [f"{place}: {sink.origin!r} is no source and no step"]
    return [f"{place}: upsert is for tables"] if sink.mode == "upsert" else []
