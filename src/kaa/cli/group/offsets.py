"""`kaa group seek` and `delete-offsets`: what changes how far a group is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_PARTLY,
    client_options,
    complain,
    outcome_code,
    run,
    say,
    show_outcome,
)
from kaa.cli.command import GROUP, TOPIC, Verb
from kaa.cli.output import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.cli.client import Session
    from kaa.cli.group.seek import Plan
    from kaa.client.admin.admin import Admin
    from kaa.model.topics import TopicPartition


@click.command(cls=Verb)
@click.argument("name", type=GROUP)
@click.option("--to", "target", metavar="POINT", help="start, end, 42, +42, -42, @TIME; see above.")
@click.option(
    "--by",
    "shift",
    type=int,
    metavar="N",
    help="Move by this many records; a negative number moves back.",
)
@click.option(
    "--from-file",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Offsets from a CSV with topic, partition and offset, as this command prints it.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    type=TOPIC,
    metavar="TOPIC[:0,1]",
    help="Only this topic, or these partitions of it.  [default: all that the group committed]",
)
@click.option(
    "--execute", "--yes", "execute", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def seek(
    session: Session,
    name: str,
    target: str | None,
    shift: int | None,
    from_file: Path | None,
    topics: tuple[str, ...],
    execute: bool,
) -> None:
    """Move the offsets of a group; without --execute, only show the plan.

    --to takes the points of kaa consume --from: start, end, an offset, +N after the first, -N
    before the end, @TIME (2026-01-31T10:00:00, -10m). The group must have no members meanwhile.

    \b
    Examples:
      kaa group seek billing --to start
      kaa group seek billing --to @-1h -t orders --execute
      kaa group seek billing --by -100 -t orders:0,1 --execute
      kaa group seek billing --to end -o csv > offsets.csv
      kaa group seek other --from-file offsets.csv --execute
    """
    from kaa.cli.group.seek import SeekError, make_plan, read_targets, read_topics

    if (target is not None) + (shift is not None) + (from_file is not None) != 1:
        raise click.UsageError("give one of --to, --by and --from-file")
    try:
        wanted = read_topics(topics)
        targets = None if from_file is None else read_targets(from_file.read_text("utf-8"))
    except (SeekError, OSError, UnicodeDecodeError) as error:
        raise click.UsageError(str(error)) from error

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            try:
                plan = await make_plan(
                    admin, name, wanted, target, shift, targets, time.time_ns() // 1_000_000
                )
            except SeekError as error:
                raise click.UsageError(str(error)) from error
            return await _seek(session, admin, name, plan, execute=execute)

    run(session, work)


async def _seek(session: Session, admin: Admin, name: str, plan: Plan, *, execute: bool) -> int:
    from kaa.client.errors import KafkaError
    from kaa.client.group.offsets import OffsetAndMetadata

    group = (await admin.describe_groups([name]))[name]
    members = 0 if isinstance(group, KafkaError) else len(group.members)
    failures: dict[str, Exception | None] = {}
    is_refused = execute and members > 0
    if execute and not is_refused:
        offsets = {one.partition: OffsetAndMetadata(one.offset) for one in plan.steps}
        outcome = await admin.alter_group_offsets(name, offsets)
        failures = {str(partition): error for partition, error in outcome.items()}
    rows = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "committed": one.committed,
            "offset": one.offset,
            "end_offset": one.end_offset,
            "lag": max(0, one.end_offset - one.offset),
        }
        for one in plan.steps
    ]
    columns = ["topic", "partition", "committed", "offset", "end_offset", "lag"]
    show(session.output, columns, rows, "offset")
    if is_refused:
        complain(f"group {name} has members ({members}), which would go on where they are")
        click.echo("  next         stop them, then run it again (kaa group describe)", err=True)
        return EXIT_FAILED
    if not execute:
        more = "; its members must stop first" if members else ""
        say(f"nothing was changed; add --execute to do it{more}")
    code = outcome_code(failures)
    return code if plan.is_whole else code or EXIT_PARTLY


@click.command("delete-offsets", cls=Verb)
@click.argument("name", type=GROUP)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    type=TOPIC,
    metavar="TOPIC[:0,1]",
    help="The topic, or partitions of it.",
)
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def delete_offsets(session: Session, name: str, topics: tuple[str, ...], yes: bool) -> None:
    """Delete the offsets of a group in topics that no member reads.

    \b
    Examples:
      kaa group delete-offsets billing -t orders
      kaa group delete-offsets billing -t orders:0,1 --yes
    """
    from kaa.cli.group.seek import SeekError, read_topics

    try:
        wanted = read_topics(topics)
    except SeekError as error:
        raise click.UsageError(str(error)) from error

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            committed = await admin.list_group_offsets(name)
            partitions, missing = _committed_of(committed, wanted)
            if missing:
                complain(f"group {name} has no committed offsets of {', '.join(missing)}")
                click.echo(f"  next         see what it has (kaa group describe {name})", err=True)
                return EXIT_NOT_FOUND
            outcome: dict[Any, Any] = dict.fromkeys(partitions)
            if yes:
                outcome = dict(await admin.delete_group_offsets(name, partitions))
        show_outcome(session, outcome, "deleted" if yes else "would be deleted")
        if not yes:
            say("nothing was deleted; add --yes to do it")
        return outcome_code({str(one): error for one, error in outcome.items()})

    run(session, work)


def _committed_of(
    committed: Iterable[TopicPartition], wanted: Mapping[str, list[int] | None]
) -> tuple[list[TopicPartition], list[str]]:
    """The committed partitions that are meant, and what of the wish is not among them."""
    found: list[TopicPartition] = []
    missing: list[str] = []
    for topic, numbers in wanted.items():
        own = [one for one in sorted(committed) if one.topic == topic]
        if numbers is None:
            found += own
            missing += [] if own else [topic]
            continue
        found += [one for one in own if one.partition in numbers]
        known = {one.partition for one in own}
        missing += [f"{topic}-{number}" for number in numbers if number not in known]
    return found, missing
