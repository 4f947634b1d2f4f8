"""`kaa pipeline`: pipelines of YAML files, on Spark."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from kaa.cli.client import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_UNHEALTHY,
    QUIET_KEY,
    complain,
    exit_code,
    local_options,
    say,
    tell,
)
from kaa.cli.extras import needs
from kaa.cli.output import NO_PROGRESS_KEY, is_asked, show
from kaa.cli.progress import is_welcome
from kaa.model.words import count_text

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from rich.table import Table

    from kaa.spark.pipeline.progress import PartStatus
    from kaa.spark.pipeline.spec import Pipeline

_FILE = click.argument("file", type=click.Path(path_type=Path))
_COLUMNS = ["sink", "kind", "state", "rows", "rows_per_second", "mib_per_second"]
_COLUMNS += ["batch", "batch_seconds", "lag"]
_WIDE = ["lag_by_source"]
_TITLES = {
    "rows_per_second": "rows/s",
    "mib_per_second": "MiB/s",
    "batch_seconds": "batch s",
    "lag_by_source": "lag",
}


@click.group(name="pipeline")
def command() -> None:
    """Check, run and watch pipelines of topics, steps and tables.

    \b
    Examples:
      kaa pipeline validate orders.yaml
      kaa pipeline run orders.yaml
      kaa pipeline status orders.yaml
    """


def _guarded(work: Callable[[], int | None]) -> None:
    """Runs a command; what a user can do something about is reported in one line."""
    try:
        with needs("lake"):
            code = work()
    except click.ClickException:
        raise
    except Exception as error:
        from kaa.client.errors import ClientError
        from kaa.spark.errors import SparkSourceError
        from kaa.spark.lake.table import LakeError
        from kaa.spark.pipeline.spec import PipelineError

        if isinstance(error, ClientError):
            tell(error)
            sys.exit(exit_code(error))
        if isinstance(error, PipelineError | LakeError | SparkSourceError):
            for line in str(error).splitlines():
                complain(line)
            sys.exit(EXIT_FAILED)
        raise
    sys.exit(code or 0)


def _read(file: Path) -> Pipeline:
    from kaa.spark.pipeline.spec import read

    # Functions of steps may lie beside the file.
    sys.path.insert(0, str(file.resolve().parent))
    return read(file)


@command.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--sdp", is_flag=True, help="A project of Spark Declarative Pipelines.")
@click.option(
    "--from", "file", type=click.Path(path_type=Path), help="With --sdp: convert this file."
)
@click.option("--servers", default="localhost:9092", show_default=True)
@click.option("--topic", default="events", show_default=True, help="The topic of the sample.")
@local_options
def init(output: str, folder: Path, sdp: bool, file: Path | None, servers: str, topic: str) -> None:
    """Write a pipeline to begin with, or one as a project for `spark-pipelines`.

    \b
    Examples:
      kaa pipeline init shop
      kaa pipeline init shop --sdp
      kaa pipeline init shop-sdp --sdp --from orders.yaml
    """

    def work() -> None:
        from kaa.spark.pipeline.sdp import write_project, write_sample

        if file is not None and not sdp:
            raise click.UsageError("--from is for --sdp")
        made = file or write_sample(folder, servers, topic)
        next_command = f"kaa pipeline run {made}"
        if sdp:
            write_project(made, folder)
            next_command = f"cd {folder} && spark-pipelines run"
        show(output, ["folder", "next"], [{"folder": str(folder), "next": next_command}], "folder")

    _guarded(work)


@command.command()
@_FILE
@local_options
def validate(output: str, file: Path) -> None:
    """Check a file: its shape, its wiring, and that its functions can be imported.

    \b
    Examples:
      kaa pipeline validate orders.yaml
    """

    def work() -> None:
        from kaa.spark.pipeline.running import table_settings

        pipeline = _read(file)
        for step in pipeline.steps:
            if step.function is not None:
                step.load()
        for sink in pipeline.sinks:
            if sink.table is not None and pipeline.topic_of(sink.origin) is not None:
                table_settings(pipeline, sink)
        rows = [{"name": pipeline.name, "valid": True}]
        show(output, ["name", "valid"], rows)

    _guarded(work)


@command.command()
@_FILE
@local_options
def plan(output: str, file: Path) -> None:
    """Ask the brokers, and show what a run would read, do and write.

    \b
    Examples:
      kaa pipeline plan orders.yaml
      kaa pipeline plan orders.yaml -o json
    """

    def work() -> None:
        pipeline = _read(file)
        rows = [_source_row(pipeline, one) for one in pipeline.sources]
        for step in pipeline.steps:
            what = "sql" if step.sql is not None else str(step.function)
            rows.append({"part": "step", "name": step.name, "what": what, "detail": ""})
        for sink in pipeline.sinks:
            target = f"topic {sink.topic}" if sink.topic is not None else f"table {sink.table}"
            detail = f"from {sink.origin}, {sink.mode}"
            rows.append({"part": "sink", "name": sink.name, "what": target, "detail": detail})
        show(output, ["part", "name", "what", "detail"], rows)

    _guarded(work)


def _source_row(pipeline: Pipeline, source: Any) -> dict[str, Any]:
    if source.topic is None:
        what = f"table {source.table}"
        return {"part": "source", "name": source.name, "what": what, "detail": ""}
    from kaa.spark.lookup import Lookup
    from kaa.spark.options import source_options

    options = {**pipeline.kafka_options, "subscribe": source.topic}
    lookup = Lookup(source_options(options, is_stream=False))
    partitions = lookup.partitions().partitions
    earliest, latest = lookup.earliest(partitions), lookup.latest(partitions)
    records = sum(latest[one] - earliest[one] for one in partitions)
    detail = f"{count_text(len(partitions), 'partition')}, {count_text(records, 'record')}"
    return {
        "part": "source",
        "name": source.name,
        "what": f"topic {source.topic}",
        "detail": detail,
    }


@command.command()
@_FILE
@click.option("--once", is_flag=True, help="Read what is there now, then end.")
@click.option("--master", metavar="URL", help="The Spark master; overrides that of the file.")
@local_options
def run(output: str, file: Path, once: bool, master: str | None) -> None:
    """Run a pipeline, and show how it moves.

    \b
    Examples:
      kaa pipeline run orders.yaml
      kaa pipeline run orders.yaml --once
      kaa pipeline run orders.yaml --master spark://host:7077
    """

    def work() -> None:
        from kaa.cli.spark_run import run_on_spark
        from kaa.spark.pipeline.running import PipelineRun
        from kaa.spark.quiet import quiet_config
        from kaa.spark.sessions import session as spark_session

        pipeline = _read(file)
        if once:
            pipeline = replace(pipeline, available_now=True)
        parts: list[PartStatus] = []

        def start() -> SparkSession:
            spark = spark_session(
                master or pipeline.master,
                app_name=f"kaa pipeline {pipeline.name}",
                config={**quiet_config(), **pipeline.configuration},
            )
            spark.sparkContext.setLogLevel("ERROR")
            return spark

        def go(spark: SparkSession, stop: threading.Event) -> None:
            screen.wait("Spark runs, its queries start")
            running = PipelineRun(spark, pipeline, screen.show, stop)
            running.run()
            parts.extend(running.parts)

        with _Screen() as screen:
            run_on_spark(start, go)
        if any(one.state == "stopped" for one in parts):
            say("stopped; run the same command to continue")
        if output != "table":
            from kaa.spark.pipeline.progress import table_rows

            show(output, _COLUMNS, table_rows(parts), "sink", wide=_WIDE)

    _guarded(work)


class _Screen:
    """The moving table on a terminal; elsewhere a line when something is new.

    What Spark says meanwhile comes out above the table.
    """

    def __init__(self) -> None:
        from kaa.spark.quiet import StandardErrorAside

        self._live: Any = None
        self._last: dict[str, int] = {}
        is_drawn = is_welcome(sys.stderr) and not (is_asked(NO_PROGRESS_KEY) or is_asked(QUIET_KEY))
        self._aside = StandardErrorAside()
        if is_drawn:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._aside.stream)
            self._aside.write = lambda line: console.print(line, markup=False, highlight=False)
            self._live = Live(
                console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False
            )

    def __enter__(self) -> Self:
        self._aside.__enter__()
        if self._live is not None:
            self._live.start()
        self.wait("Spark starts: some ten seconds on a quiet machine")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._aside.__exit__(*exception)

    def wait(self, text: str) -> None:
        """Says what has to come before there is something to show."""
        if self._live is not None:
            from rich.spinner import Spinner

            self._live.update(Spinner("dots", text))

    def show(self, parts: list[PartStatus]) -> None:
        from kaa.spark.pipeline.progress import table_rows

        if any(one.state == "stopping" for one in parts):
            self._aside.hush()
        if self._live is not None:
            self._live.update(progress_table(parts))
            return
        for row in table_rows(parts):
            if row["batch"] is not None and row["batch"] > self._last.get(row["sink"], -1):
                self._last[row["sink"]] = row["batch"]
                say(
                    f"{row['sink']}: batch {row['batch']}, {count_text(row['rows'], 'row')}, "
                    f"{row['rows_per_second']} rows/s, {row['mib_per_second']} MiB/s, "
                    f"{row['batch_seconds']} s, lag {row['lag_by_source'] or 0}"
                )


def progress_table(parts: list[PartStatus]) -> Table:
    """How the parts of a run are doing, for a terminal."""
    from rich.table import Table

    from kaa.spark.pipeline.progress import table_rows

    table = Table(box=None, pad_edge=False)  # So that it fits 80 columns.
    shown = [*_COLUMNS[:-1], *_WIDE]
    for name in shown:
        is_text = name in {"sink", "kind", "state", "lag_by_source"}
        table.add_column(_TITLES.get(name, name), justify="left" if is_text else "right")
    for row in table_rows(parts):
        table.add_row(*(_cell(row[name]) for name in shown))
    return table


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,}"


@command.command()
@_FILE
@local_options
def status(output: str, file: Path) -> None:
    """Show how a pipeline is doing, from any terminal. Ends with 7 if its run was lost or failed.

    FILE is its file, or the folder of its storage.

    \b
    Examples:
      kaa pipeline status orders.yaml
      kaa pipeline status kaa-data/pipelines/orders
      kaa pipeline status orders.yaml -o json
    """

    def work() -> int:
        from kaa.spark.pipeline.progress import PartStatus, read_status, table_rows

        storage = file if file.is_dir() else Path(_read(file).storage)
        found = read_status(storage)
        if found is None:
            complain(f"no pipeline has run yet with the storage {storage}")
            return EXIT_NOT_FOUND
        parts = [PartStatus(**one) for one in found["sinks"]]
        show(output, _COLUMNS, table_rows(parts), "sink", wide=_WIDE, document=found)
        for part in parts:
            if part.error is not None:
                complain(f"{part.name}: {part.error}")
        if output == "table":
            say(f"{found['name']}: {found['state']}, {found['age_seconds']:.0f} s ago")
        has_failed = found["state"] == "lost" or any(one.error for one in parts)
        return EXIT_UNHEALTHY if has_failed else 0

    _guarded(work)
