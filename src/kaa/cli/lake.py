"""`kaa lake`: tables that are made of topics."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    client_options,
    complain,
    exit_code,
    pairs,
    say,
    tell,
)
from kaa.cli.extras import needs
from kaa.cli.output import show
from kaa.cli.spark_run import run_configured, spark_options
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.cli.client import Session
    from kaa.spark.lake.driver import RoundReport
    from kaa.spark.lake.running import Runner
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import LakeTable


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
            click.option(
                "--mode",
                type=click.Choice(["append", "upsert"]),
                help="A row per record, or per key.  [default: the table's, append for a new one]",
            ),
            click.option(
                "--partition-by", metavar="TERMS", help="Of a new table: day(timestamp), country."
            ),
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


def _on_runner(
    name: str, given: dict[str, Any], work: Callable[[Runner, threading.Event], None]
) -> None:
    """Runs the work with tasks on Spark, or in this process; a signal sets the event."""
    from kaa.spark.lake.running import LocalRunner, SparkRunner

    if given["no_spark"]:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        work(LocalRunner(), stop)
        return
    run_configured(name, given, lambda spark, stop: work(SparkRunner(spark), stop))


def lake_settings_of(
    session: Session, topic: str, given: dict[str, Any], more: dict[str, Any] | None = None
) -> LakeSettings:
    """The settings of a table out of the options of a command."""
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
            **(more or {}),
        }
    )


def guarded(work: Callable[[], None]) -> None:
    """Runs a command; what a user can do something about is reported in one line."""
    try:
        with needs("lake"):
            work()
    except click.ClickException:
        raise
    except Exception as error:
        from kaa.client.errors import ClientError
        from kaa.spark.errors import SparkSourceError
        from kaa.spark.lake.table import (
            ConflictError,
            LakeError,
            NoTableError,
            UnknownOutcomeError,
        )

        if isinstance(error, ConflictError):
            complain("another writer committed to the table meanwhile; try again")
            sys.exit(EXIT_FAILED)
        if isinstance(error, UnknownOutcomeError):
            complain(f"it is not known whether the table was changed: {error}; look and try again")
            sys.exit(EXIT_FAILED)
        if isinstance(error, NoTableError):
            complain(str(error))
            sys.exit(EXIT_NOT_FOUND)
        if isinstance(error, ClientError):
            tell(error)
            sys.exit(exit_code(error))
        if isinstance(error, LakeError | SparkSourceError | ValueError | OSError):
            complain(str(error))
            sys.exit(EXIT_FAILED)
        raise


@command.command()
@table_options
@click.option("--once", is_flag=True, help="Stop when all that is there now is in the table.")
@spark_options
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
    interval: float | None,
    **given: Any,
) -> None:
    """Land a topic in a table, once or continuously.

    \b
    Examples:
      kaa lake run orders --once
      kaa lake run orders --partition-by 'day(timestamp)' --interval 60
      kaa lake run orders --layout parquet --warehouse s3://bucket/lake
      kaa lake run orders --option valueFormat=avro --option schemaRegistry.url=http://host:8081
    """

    def work() -> None:
        from kaa.spark.lake.driver import open_table

        settings = lake_settings_of(session, topic, {**given, "interval": interval})
        land(f"kaa lake {settings.table}", open_table(settings), given, is_once=once)
        say(f"{settings.table} is up to date" if once else "stopped")

    guarded(work)


def land(name: str, table: LakeTable, given: dict[str, Any], *, is_once: bool) -> None:
    """Brings a table up to date, once or from now on, where the options of Spark say."""
    from kaa.spark.lake.driver import LakeDriver

    def work(runner: Runner, stop: threading.Event) -> None:
        LakeDriver(table, runner, is_once=is_once, report=_say_round, stop=stop).run()

    _on_runner(name, given, work)


def _say_round(report: RoundReport) -> None:
    rate = report.rows / report.seconds if report.seconds else 0.0
    letters = f", {count_text(report.dead_letters, 'dead letter')}" if report.dead_letters else ""
    say(
        f"{count_text(report.rows, 'row')} in {count_text(report.files, 'file')}{letters}, "
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
        from kaa.spark.lake.driver import open_known
        from kaa.spark.lake.status import table_status

        settings = lake_settings_of(session, topic, given)
        found = table_status(open_known(settings))
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
            held = f"{count_text(found.rows, 'row')} in {count_text(found.files, 'file')}"
            say(f"{held}; last commit {last}")
        if found.problem is not None:
            complain(found.problem)

    guarded(work)


Rows = list[dict[str, Any]]


def _maintenance(
    name: str, text: str, example: str, *, more: Callable[..., Any] = lambda function: function
) -> Callable[[Callable[..., Rows]], Callable[..., None]]:
    """A command that shows its plan, and carries it out with --yes, with tasks on Spark."""

    def decorate(plan: Callable[..., Rows]) -> Callable[..., None]:
        def function(session: Session, topic: str, yes: bool, **given: Any) -> None:
            def work() -> None:
                from kaa.spark.lake.running import LocalRunner

                settings = lake_settings_of(session, topic, given)
                rows = plan(settings, LocalRunner(), given, yes=False)

                def carry_out(runner: Runner, _: threading.Event) -> None:
                    rows[:] = plan(settings, runner, given, yes=True)

                if rows and yes:
                    _on_runner(f"kaa lake {name} {settings.table}", given, carry_out)
                columns = list(rows[0]) if rows else ["nothing"]
                show(session.output, columns, rows, columns[0])
                if rows and not yes:
                    say("nothing was changed; add --yes to do it")

            guarded(work)

        function.__doc__ = (
            f"{text}\n\n    \b\n    Examples:\n      {example}\n      {example} --yes\n"
        )
        yes = click.option("--yes", is_flag=True, help="Do it; otherwise only the plan is shown.")
        return command.command(name)(table_options(spark_options(yes(more(function)))))

    return decorate


@_maintenance(
    "compact",
    "Write small files together.",
    "kaa lake compact orders",
    more=click.option("--sort-by", metavar="COLUMNS", help="Within files.  [default: offsets]"),
)
def _compact(settings: LakeSettings, runner: Runner, given: dict[str, Any], *, yes: bool) -> Rows:
    from kaa.spark.lake.compaction import compact, plan_compaction
    from kaa.spark.lake.driver import open_known

    table = open_known(settings)
    table.load()
    plan = plan_compaction(table)
    if yes:
        names = [one.strip() for one in (given["sort_by"] or "").split(",")]
        compact(table, plan, runner, [one for one in names if one])
    return [
        {
            "part": ", ".join(map(str, one.part or ())) or "all",
            "files": len(one.files),
            "size_bytes": one.size_bytes,
        }
        for one in plan
    ]


@_maintenance(
    "manifests", "Write small manifests together.", "kaa lake manifests orders"
)  # fmt: skip
def _manifests(settings: LakeSettings, runner: Runner, given: dict[str, Any], *, yes: bool) -> Rows:
    from kaa.spark.lake.driver import open_known
    from kaa.spark.lake.maintenance import count_manifests, rewrite_manifests

    del runner, given
    table = open_known(settings)
    table.load()
    before = count_manifests(table)
    if yes:
        rewrite_manifests(table)
    return [{"manifests": before}] if before > 1 else []


@_maintenance("expire", "Forget versions older than a week.", "kaa lake expire orders")
def _expire(settings: LakeSettings, runner: Runner, given: dict[str, Any], *, yes: bool) -> Rows:
    from kaa.limits import LAKE_KEEP_SECONDS, LAKE_KEEP_VERSIONS
    from kaa.spark.lake.driver import open_known
    from kaa.spark.lake.maintenance import expire, plan_expiry

    del runner, given
    table = open_known(settings)
    table.load()
    versions = plan_expiry(table, keep=LAKE_KEEP_VERSIONS, older_than_seconds=LAKE_KEEP_SECONDS)
    if yes:
        expire(table, versions)
    return [{"version": one} for one in versions]


@command.command()
@table_options
@click.option(
    "--from",
    "start",
    required=True,
    metavar="rows|earliest|latest|JSON",
    help="""After the rows that are there, at an end of the topic, or {"0": 12, "1": 7}.""",
)
@click.option("--yes", is_flag=True, help="Do it; otherwise only the plan is shown.")
def resume(session: Session, topic: str, start: str, yes: bool, **given: Any) -> None:
    """Say where a table that was rolled back goes on.

    \b
    Examples:
      kaa lake resume orders --from rows
      kaa lake resume orders --from '{"0": 12, "1": 7}' --yes
    """

    def work() -> None:
        from kaa.spark.lake import resuming
        from kaa.spark.lake.driver import open_known

        table = open_known(lake_settings_of(session, topic, given))
        offsets = resuming.resume_offsets(table, start)
        before = table.load().offsets
        rows = [
            {"partition": one, "offset_now": before.get(one), "offset": at}
            for one, at in sorted(offsets.items())
        ]
        if yes:
            resuming.resume(table, offsets)
        show(session.output, ["partition", "offset_now", "offset"], rows, "partition")
        if not yes:
            say("nothing was changed; add --yes to do it")

    guarded(work)


@command.command()
@table_options
@click.option("--yes", is_flag=True, help="Do it; otherwise only the plan is shown.")
def alter(session: Session, topic: str, yes: bool, **given: Any) -> None:
    """Change what a table keeps of its settings.

    \b
    Examples:
      kaa lake alter orders --partition-by 'hour(timestamp)'
      kaa lake alter orders --option targetFileBytes=268435456 --yes
    """

    def work() -> None:
        from kaa.spark.lake import altering
        from kaa.spark.lake.driver import open_known

        options = pairs(given["options"], "--option")
        place = {name for name in options if name.startswith(("catalog.", "store."))}
        said = {"partitionBy": given["partition_by"], "mode": given["mode"], **options}
        wanted = {
            name: value for name, value in said.items() if value is not None and name not in place
        }
        unsaid = {**given, "partition_by": None, "mode": None}
        unsaid["options"] = tuple(f"{name}={options[name]}" for name in place)
        table = open_known(lake_settings_of(session, topic, unsaid))
        table.load()
        changes = altering.plan_alter(table, wanted)
        if yes and changes:
            altering.alter(table, changes)
        rows = [{"setting": one.name, "now": one.before, "then": one.after} for one in changes]
        show(session.output, ["setting", "now", "then"], rows, "setting")
        if rows and not yes:
            say("nothing was changed; add --yes to do it")

    guarded(work)


@_maintenance("orphans", "Delete files that no version names.", "kaa lake orphans orders")
def _orphans(settings: LakeSettings, runner: Runner, given: dict[str, Any], *, yes: bool) -> Rows:
    from kaa.spark.lake.driver import open_known
    from kaa.spark.lake.maintenance import plan_orphans, remove_orphans

    del given
    table = open_known(settings)
    table.load()
    plan = plan_orphans(table, runner=runner)
    if yes:
        remove_orphans(table, plan, runner)
    return [
        {"url": one.url, "size_bytes": one.size_bytes, "age_hours": int(one.age_seconds / 3600)}
        for one in plan
    ]
