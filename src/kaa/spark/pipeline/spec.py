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
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BOOTSTRAP: Final = "bootstrap.servers"


class PipelineError(Exception):
    """What is wrong with a pipeline, a line for each problem."""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic or a table."""

    name: str
    options: Mapping[str, str]
    topic: str | None = None
    table: str | None = None
    # The column and the delay.
    watermark: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """SQL text, or a function on DataFrames."""

    name: str
    sql: str | None = None
    function: str | None = None
    inputs: Sequence[str] = ()

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
    """A topic, or a table of a topic or of a step."""

    name: str
    origin: str
    options: Mapping[str, str]
    topic: str | None = None
    table: str | None = None
    mode: str = "append"
    key: str | None = None
    value: str | None = None


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

    def topic_of(self, name: str) -> Source | Sink | None:
        """The source or else the sink of this name, if it is a topic."""
        parts: tuple[Source | Sink, ...] = (*self.sources, *self.sinks)
        return next((one for one in parts if one.name == name and one.topic is not None), None)


def read(path: Path) -> Pipeline:
    """Reads a file."""
    return parse(load(path), os.environ)


def load(path: Path) -> Any:
    """The document of a file, as it is written."""
    import yaml

    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise PipelineError(f"{path} is not YAML: {error}") from error


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    text = resources.files("kaa.spark.pipeline").joinpath("schema.json").read_text()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def parse(document: Any, environment: Mapping[str, str]) -> Pipeline:
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
        kafka=_texts(document.get("kafka", {})),
        configuration=_texts(document.get("configuration", {})),
        master=document.get("master"),
        available_now=bool(trigger.get("availableNow", False)),
        processing_time=trigger.get("processingTime", "1 second"),
        sources=tuple(Source(name, **_fields(one)) for name, one in document["sources"].items()),
        steps=tuple(Step(name, **one) for name, one in document.get("steps", {}).items()),
        sinks=tuple(Sink(name, **_fields(one)) for name, one in document["sinks"].items()),
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

    return VARIABLE.sub(variable, value)


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a source or a sink: `from` is not a name that Python lets a field have."""
    fields = {"origin" if name == "from" else name: one for name, one in given.items()}
    return {**fields, "options": _texts(given.get("options", {}))}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }


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
            f"steps.{step.name}: {one!r} is neither a source nor a step before it"
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
    if sink.table is not None and pipeline.topic_of(sink.origin) is not None:
        return [] if sink.mode in {"append", "upsert"} else [f"{place}: append or upsert"]
    if sink.origin not in seen:
        return [f"{place}: {sink.origin!r} is neither a source nor a step"]
    if sink.table is not None and sink.mode in {"update", "upsert"}:
        advice = f"write {sink.origin!r} to a topic, and name that sink here with mode upsert"
        return [f"{place}: a table of a step is appended to, or complete; {advice}"]
    return [f"{place}: upsert is for tables"] if sink.mode == "upsert" else []
