"""`kaa tier audit` and `kaa tier convert`: jobs over remote storage, on Spark or without it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import EXIT_UNHEALTHY, client_options, pairs, say
from kaa.cli.command import TOPIC, Verb
from kaa.cli.extras import needs
from kaa.cli.output import show
from kaa.cli.progress import Progress
from kaa.cli.spark_run import run_configured, spark_options
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.cli.client import Session
    from kaa.spark.tier.audit import AuditTask, SegmentReport
    from kaa.spark.tier.stores import StoreReference
    from kaa.tier.metadata.model import SegmentMetadata


def job_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that say where the store is and where the tasks run; executors get those of the
    store, so no secret may be among them.
    """
    for option in reversed(
        (
            click.option("--store", "address", metavar="URL", help="As in rsm.config.url."),
            click.option(
                "--store-file",
                metavar="PATH",
                help="Settings named as after rsm.config., on every machine; may hold secrets.",
            ),
            click.option(
                "--option",
                "options",
                multiple=True,
                metavar="NAME=VALUE",
                help="A setting of the store, named as after rsm.config.; no secrets.",
            ),
        )
    ):
        function = option(function)
    return spark_options(function)


def _reference(address: str | None, file: str | None, options: tuple[str, ...]) -> StoreReference:
    from kaa.spark.errors import OptionError
    from kaa.spark.tier.stores import store_reference

    try:
        found = store_reference(address, pairs(options, "--option"), file)
        if found is not None:
            with needs("lake"):
                found.open()
    except OptionError as error:
        raise click.ClickException(str(error)) from None
    if found is None:
        raise click.UsageError("--store or --store-file must be given")
    return found


# --- audit


@click.command(cls=Verb, name="audit")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", type=TOPIC)
@job_options
@client_options
def audit(
    session: Session,
    topics: tuple[str, ...],
    address: str | None,
    store_file: str | None,
    options: tuple[str, ...],
    **spark: Any,
) -> None:
    """Read every object of topics in remote storage, and judge every batch.

    Compares checksums, offsets, leader epochs and indexes, and changes nothing. Ends with exit code
    7 if something is missing or wrong.

    \b
    Examples:
      kaa tier audit orders --store file:///var/tier --no-spark
      kaa tier audit orders --store s3://bucket/tier --master spark://host:7077
    """
    from kaa.cli.lake import guarded

    store = _reference(address, store_file, options)

    def work() -> None:
        import asyncio

        from kaa.spark.tier.audit import audit_tasks

        segments = asyncio.run(_segments(session, topics))
        tasks = audit_tasks(store, segments)
        size = sum(one.size_bytes for one in segments)
        found = count_text(len(segments), "segment")
        say(f"{found} of {size / 2**20:,.1f} MiB in {count_text(len(tasks), 'task')}")
        _report(session, _audited(tasks, size, spark))

    guarded(work)


async def _segments(session: Session, topics: tuple[str, ...]) -> list[SegmentMetadata]:
    from kaa.cli.topic.tier import tiered_partitions
    from kaa.client.admin.admin import Admin
    from kaa.tier.verify import readable

    async with Admin(session.settings) as admin:
        found = await tiered_partitions(session, admin, topics)
    return [segment for cache in found.values() for segment in readable(cache)]


def _report(session: Session, reports: Sequence[SegmentReport]) -> None:
    rows, findings = _summary(reports)
    columns = ["topic", "partition", "segments", "bytes", "batches", "records", "absent", "small"]
    document = {"partitions": rows, "findings": findings}
    show(session.output, [*columns, "findings"], rows, "topic", document=document)
    for finding in findings:
        say(f"{finding['kind']}: {finding['what']}")
    _advise(rows)
    if findings:
        sys.exit(EXIT_UNHEALTHY)


def _audited(tasks: list[AuditTask], size: int, given: dict[str, Any]) -> list[SegmentReport]:
    from kaa.spark.tier.audit import run_tasks

    reports: list[SegmentReport] = []

    def work(spark: Any) -> None:
        with Progress("auditing", "bytes", total=size) as progress:

            def advance(some: Sequence[SegmentReport]) -> None:
                reports.extend(some)
                progress.advance(sum(one.bytes for one in some))

            run_tasks(tasks, spark, advance)

    if given["no_spark"] or not tasks:
        work(None)
    else:
        run_configured("kaa tier audit", given, lambda spark, _stop: work(spark))
    return reports


def _summary(
    reports: Sequence[SegmentReport],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    findings: list[dict[str, Any]] = []
    for one in reports:
        place = {"topic": one.topic, "partition": one.partition}
        counts = ("segments", "bytes", "batches", "records", "absent", "small", "findings")
        row = rows.setdefault((one.topic, one.partition), place | dict.fromkeys(counts, 0))
        row["segments"] += 1
        row["small"] += one.is_small
        row["findings"] += len(one.findings)
        for name in ("bytes", "batches", "records", "absent"):
            row[name] += getattr(one, name)
        findings += [place | finding._asdict() for finding in one.findings]
    return [rows[key] for key in sorted(rows)], findings


def _advise(rows: Sequence[dict[str, Any]]) -> None:
    small = {row["topic"]: 0 for row in rows if row["small"]}
    for row in rows:
        if row["topic"] in small:
            small[row["topic"]] += row["small"]
    for topic, count in small.items():
        say(
            f"{topic} has {count_text(count, 'small segment')}; what is there stays, and a larger "
            "segment.bytes or segment.ms of the topic makes fewer of them"
        )


# --- convert


@click.command(cls=Verb, name="convert")
@click.argument("topic", type=TOPIC)
@job_options
@click.option("--table", metavar="[NAMESPACE.]NAME", help="Default: like the topic.")
@click.option("--warehouse", metavar="FOLDER|URL", help="As in kaa lake run.")
@click.option("--layout", type=click.Choice(["iceberg", "parquet"]), default="iceberg")
@click.option("--partition-by", metavar="TERMS", help="Of a new table: day(timestamp), country.")
@click.option(
    "--table-option",
    "table_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="As --option of kaa lake run: formats, catalog.*, ...",
)
@click.option("--yes", is_flag=True, help="Do it; otherwise only what would be done is shown.")
@client_options
def convert(
    session: Session,
    topic: str,
    address: str | None,
    store_file: str | None,
    options: tuple[str, ...],
    yes: bool,
    **given: Any,
) -> None:
    """Land the history of a topic in a table, without touching brokers.

    What is committed and in remote storage goes to the table; `kaa lake run` goes on from there.

    \b
    Examples:
      kaa tier convert orders --store file:///var/tier --no-spark
      kaa tier convert orders --store s3://bucket/tier --layout parquet --yes
    """
    from kaa.cli.lake import guarded, lake_settings_of, land

    _reference(address, store_file, options)

    def work() -> None:
        from kaa.spark.lake.driver import open_table

        store = {f"tierStore.{name}": text for name, text in pairs(options, "--option").items()}
        settings = lake_settings_of(
            session,
            topic,
            {**given, "mode": None, "options": given["table_options"]},
            {"tier": "only", "tierStore": address, "tierStoreFile": store_file, **store},
        )
        table = open_table(settings)
        rows = _plan(table)
        columns = ["partition", "offset", "end_offset", "segments", "bytes"]
        show(session.output, columns, rows, "partition")
        if not yes:
            say("nothing was done; --yes does it")
            return
        land(f"kaa tier convert {settings.table}", table, given, is_once=True)
        say(f"{settings.table} has what is in remote storage; kaa lake run goes on from there")

    guarded(work)


def _plan(table: Any) -> list[dict[str, Any]]:
    """From where to where each partition would be read, and how much that is."""
    from kaa.spark.lookup import Lookup
    from kaa.spark.options import source_options
    from kaa.spark.plan import OffsetRange
    from kaa.spark.tier.planning import planner_of

    source = source_options(table.settings.source(), is_stream=False)
    lookup = Lookup(source)
    found = lookup.partitions()
    reached = table.load().offsets
    starts = lookup.earliest(found.partitions)
    starts = {one: max(start, reached.get(one.partition, 0)) for one, start in starts.items()}
    ends = lookup.tier_bounded(lookup.latest(found.partitions), found)
    ranges = [OffsetRange(one, start, max(start, ends[one])) for one, start in starts.items()]
    return [
        {
            "partition": one.range.partition.partition,
            "offset": one.range.start,
            "end_offset": one.range.end,
            "segments": len({piece.segment.segment_id for piece in one.pieces}),
            "bytes": sum(piece.bytes for piece in one.pieces),
        }
        for one in planner_of(source).plan(ranges, found.topic_ids)
    ]
