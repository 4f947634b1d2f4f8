"""``kaa lake``: tables that are made of topics."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import EXIT_FAILED, client_options, complain, exit_code, pairs, say, tell
from kaa.cli.output import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.cli.client import Session
    from kaa.spark.lake.driver import RoundReport
    from kaa.spark.lake.running import Runner
    from kaa.spark.lake.settings import LakeSettings


@click.group(name="lake")
def command() -> None:
    """Keep tables of topics: Iceberg, or folders of Parquet files.

    \b
    Examples:
      kaa lake run orders --once
      kaa lake status orders
      kaa lake compact orders
    """


def table_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that say which table is meant."""
    for option in reversed(
        (
            click.argument("topic"),
            click.option("--table", metavar="[NAMESPACE.]NAME", help="Default: like the topic."),
            click.option(
                "--warehouse",
                metavar="FOLDER|URL",
                help="Where the files are.  [default: kaa-data/lake]",
            ),
            click.option("--layout", type=click.Choice(["iceberg", "parquet"]), default="iceberg"),
            click.option("--mode", type=click.Choice(["append", "upsert"]), default="append"),
            click.option("--partition-by", metavar="TERMS", help="day(timestamp), country, ..."),
            click.option(
                "--option",
                "options",
                multiple=True,
                metavar="NAME=VALUE",
                help="Formats (valueFormat=avro), catalog.*, store.*, columns, ...",
            ),
        )
    ):
        function = option(function)
    return client_options(function)


def _settings(session: Session, topic: str, given: dict[str, Any]) -> LakeSettings:
    from kaa.spark.lake.settings import lake_settings

    partition_by = given["partition_by"]
    return lake_settings(
        {
            **{f"kafka.{name}": value for name, value in session.settings.items()},
            "topic": topic,
            "table": given["table"],
            "warehouse": given["warehouse"],
            "layout": given["layout"],
            "mode": given["mode"],
            "partitionBy": partition_by,
            "intervalSeconds": given.get("interval"),
            **pairs(given["options"], "--option"),
        }
    )


def _guarded(work: Callable[[], None]) -> None:
    """Runs a command; what a user can do something about is told in one line."""
    try:
        work()
    except ImportError as error:
        complain(f"{error.name or error} is missing: pip install 'kaa[lake]'")
        sys.exit(EXIT_FAILED)
    except Exception as error:
        from kaa.client.errors import ClientError
        from kaa.spark.errors import SparkSourceError
        from kaa.spark.lake.table import LakeError

        if isinstance(error, ClientError):
            tell(error)
            sys.exit(exit_code(error))
        if isinstance(error, LakeError | SparkSourceError | ValueError):
            complain(str(error))
            sys.exit(EXIT_FAILED)
        raise


@command.command()
@table_options
@click.option("--once", is_flag=True, help="Stop when all that is there now is in the table.")
@click.option("--master", metavar="URL", help="The Spark master.  [default: local[*]]")
@click.option("--no-spark", is_flag=True, help="Work in this process alone, without Spark.")
@click.option(
    "--interval",
    type=float,
    metavar="SECONDS",
    help="Between two rounds when all is read.  [default: 10, 60 for upsert]",
)
def run(
    session: Session,
    topic: str,
    once: bool,
    master: str | None,
    no_spark: bool,
    interval: float | None,
    **given: Any,
) -> None:
    """Land a topic in a table, once or from now on.

    \b
    Examples:
      kaa lake run orders --once
      kaa lake run orders --partition-by 'day(timestamp)' --interval 60
      kaa lake run orders --layout parquet --warehouse s3://bucket/lake
      kaa lake run orders --option valueFormat=avro --option schemaRegistry.url=http://host:8081
    """

    def work() -> None:
        from kaa.spark.lake.driver import LakeDriver, open_table
        from kaa.spark.lake.running import LocalRunner

        settings = _settings(session, topic, {**given, "interval": interval})
        table = open_table(settings)

        def land(runner: Runner, stop: threading.Event) -> None:
            LakeDriver(settings, table, runner, is_once=once, report=_say_round, stop=stop).run()

        if no_spark:
            stop = threading.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            land(LocalRunner(), stop)
        else:
            _land_by_spark(f"kaa lake {settings.table}", master, land)
        say(f"{settings.table} is up to date" if once else "stopped")

    _guarded(work)


def _land_by_spark(
    name: str, master: str | None, land: Callable[[Runner, threading.Event], None]
) -> None:
    from kaa.cli.spark_run import run_on_spark
    from kaa.spark.lake.running import SparkRunner
    from kaa.spark.quiet import StandardErrorAside, quiet_config
    from kaa.spark.sessions import session as spark_session

    with StandardErrorAside():
        run_on_spark(
            lambda: spark_session(master, app_name=name, config=quiet_config()),
            lambda spark, stop: land(SparkRunner(spark), stop),
        )


def _say_round(report: RoundReport) -> None:
    rate = report.rows / report.seconds if report.seconds else 0.0
    letters = f", {report.dead_letters} dead letters" if report.dead_letters else ""
    say(
        f"{report.rows} rows in {report.files} files{letters}, "
        f"{report.size_bytes / 2**20:.1f} MiB, {report.seconds:.1f} s, "
        f"{rate:.0f} rows/s, lag {report.lag}"
    )


@command.command()
@table_options
def status(session: Session, topic: str, **given: Any) -> None:
    """Show how far a table is, partition by partition.

    \b
    Examples:
      kaa lake status orders
      kaa lake status orders -o json
    """

    def work() -> None:
        from kaa.spark.lake.driver import open_table
        from kaa.spark.lake.status import table_status

        settings = _settings(session, topic, given)
        found = table_status(settings, open_table(settings))
        rows = [
            {
                "partition": one.partition,
                "offset": one.offset,
                "end_offset": one.end_offset,
                "lag": one.lag,
                "committed_ms": found.committed_ms,
            }
            for one in found.partitions
        ]
        document = {
            "table": settings.table,
            "version": found.version,
            "mode": found.mode,
            "committed_ms": found.committed_ms,
            "files": found.files,
            "rows": found.rows,
            "size_bytes": found.size_bytes,
            "lag": found.lag,
            "partitions": rows,
        }
        columns = ["partition", "offset", "end_offset", "lag"]
        show(session.output, columns, rows, "partition", document=document)
        ago = found.seconds_since_commit
        if session.output == "table":
            last = "never" if ago is None else f"{ago:.0f} s ago"
            say(f"{found.rows} rows in {found.files} files; last commit {last}")

    _guarded(work)


def _maintenance(
    name: str, text: str, example: str
) -> Callable[[Callable[..., list[dict[str, Any]]]], Callable[..., None]]:
    """A command that shows its plan, and carries it out with --yes."""

    def decorate(plan: Callable[..., list[dict[str, Any]]]) -> Callable[..., None]:
        def function(session: Session, topic: str, yes: bool, **given: Any) -> None:
            def work() -> None:
                rows = plan(_settings(session, topic, given), yes)
                columns = list(rows[0]) if rows else ["nothing"]
                show(session.output, columns, rows, columns[0])
                if rows and not yes:
                    say("nothing was changed; add --yes to do it")

            _guarded(work)

        function.__doc__ = (
            f"{text}\n\n    \b\n    Examples:\n      {example}\n      {example} --yes\n"
        )
        yes = click.option("--yes", is_flag=True, help="Do it; without this the plan is shown.")
        return command.command(name)(table_options(yes(function)))

    return decorate


@_maintenance("compact", "Write small files together.", "kaa lake compact orders")
def _compact(settings: LakeSettings, yes: bool) -> list[dict[str, Any]]:
    from kaa.spark.lake.driver import open_table
    from kaa.spark.lake.maintenance import compact, plan_compaction

    table = open_table(settings)
    table.load()
    plan = plan_compaction(table, settings)
    if yes:
        compact(table, settings, plan)
    return [
        {
            "part": ", ".join(map(str, one.part)) or "all",
            "files": len(one.files),
            "size_bytes": one.size_bytes,
        }
        for one in plan
    ]


@_maintenance("expire", "Forget versions older than a week.", "kaa lake expire orders")
def _expire(settings: LakeSettings, yes: bool) -> list[dict[str, Any]]:
    from kaa.limits import LAKE_KEEP_SECONDS, LAKE_KEEP_VERSIONS
    from kaa.spark.lake.driver import open_table
    from kaa.spark.lake.maintenance import expire, plan_expiry

    table = open_table(settings)
    table.load()
    versions = plan_expiry(table, keep=LAKE_KEEP_VERSIONS, older_than_seconds=LAKE_KEEP_SECONDS)
    if yes:
        expire(table, versions)
    return [{"version": one} for one in versions]


@_maintenance("orphans", "Delete files that no version names.", "kaa lake orphans orders")
def _orphans(settings: LakeSettings, yes: bool) -> list[dict[str, Any]]:
    from kaa.spark.lake.driver import open_table
    from kaa.spark.lake.maintenance import plan_orphans, remove_orphans

    table = open_table(settings)
    table.load()
    table.prepare(table.schema())
    plan = plan_orphans(table)
    if yes:
        remove_orphans(table, plan)
    return [
        {"url": one.url, "size_bytes": one.size_bytes, "age_hours": int(one.age_seconds / 3600)}
        for one in plan
    ]
