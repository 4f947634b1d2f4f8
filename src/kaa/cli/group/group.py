"""`kaa group`: groups of every kind, how far they are, and how to move them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_UNHEALTHY,
    client_options,
    outcome_code,
    run,
    say,
    show_outcome,
)
from kaa.cli.command import GROUP, Noun
from kaa.cli.group.offsets import delete_offsets, seek
from kaa.cli.output import print_rows, show, styled
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.cli.client import Session
    from kaa.client.admin.groups import GroupDescription, PartitionLag

_LAG_COLUMNS = ("topic", "partition", "committed", "end_offset", "lag", "client_id", "host")


@click.group(cls=Noun, name="group")
def command() -> None:
    """List, describe, move, watch and delete groups: classic, consumer, share and streams.

    \b
    Examples:
      kaa group list
      kaa group lag billing
      kaa group seek billing --to start --execute
    """


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Stable, Empty, ...")
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Classic, Consumer, Share, Streams."
)
@client_options
def list_groups(session: Session, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """List groups with their type and state.

    \b
    Examples:
      kaa group list
      kaa group list --state Empty -o name
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.list_groups(states=states, types=types)
        rows = [
            {
                "name": one.group_id,
                "type": one.group_type or None,
                "state": one.state or None,
                "protocol": one.protocol_type or None,
            }
            for one in found
        ]
        show(session.output, ["name", "type", "state"], rows, wide=["protocol"])

    run(session, work)


@command.command()
@click.argument("names", nargs=-1, required=True, type=GROUP)
@client_options
def describe(session: Session, names: tuple[str, ...]) -> None:
    """Show the state of groups, their members and what these have.

    \b
    Examples:
      kaa group describe billing
      kaa group describe billing shipping -o yaml
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.client.errors import KafkaError

        async with Admin(session.settings) as admin:
            found = await admin.describe_groups(names)
        groups = [_group(one) for one in found.values() if not isinstance(one, KafkaError)]
        rows = [{"group": one["name"], **member} for one in groups for member in one["members"]]
        show(
            session.output,
            ["group", *_MEMBER_COLUMNS],
            rows,
            "member_id",
            document=groups,
            text=lambda: _print_groups(groups, is_wide=session.output == "wide"),
        )
        return outcome_code(
            {name: one if isinstance(one, KafkaError) else None for name, one in found.items()}
        )

    run(session, work)


_MEMBER_COLUMNS = ("client_id", "host", "member_id", "instance_id", "partitions")
_MEMBER_COLUMNS_WIDE = ("topics", "epoch")
# Members of a streams group have tasks instead.
_TASK_COLUMNS = ("client_id", "host", "member_id", "tasks", "standby_tasks")


def _group(group: GroupDescription) -> dict[str, Any]:
    return {
        "name": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "protocol": group.protocol_type,
        "assignor": group.assignor or None,
        "coordinator": None if group.coordinator is None else group.coordinator.node_id,
        "epoch": group.epoch,
        "members": [
            {
                "client_id": one.client_id,
                "host": one.host,
                "member_id": one.member_id,
                "instance_id": one.instance_id,
                "partitions": [str(partition) for partition in one.assignment],
                "tasks": [str(task) for task in one.active_tasks],
                "standby_tasks": [str(task) for task in one.standby_tasks],
                "topics": list(one.topics),
                "epoch": one.epoch,
            }
            for one in group.members
        ],
    }


def _print_groups(groups: Sequence[dict[str, Any]], *, is_wide: bool) -> None:
    for number, group in enumerate(groups):
        if number:
            click.echo()
        click.echo(
            f"{styled(group['name'], bold=True)}  {group['type']} group, {group['state']}, "
            f"{count_text(len(group['members']), 'member')}, assignor {group['assignor'] or '-'}, "
            f"coordinator {group['coordinator']}"
        )
        if group["members"]:
            is_streams = group["protocol"] == "streams"
            columns = _TASK_COLUMNS if is_streams else _MEMBER_COLUMNS
            more = _MEMBER_COLUMNS_WIDE if is_wide else ()
            print_rows((*columns, *more), group["members"])


@command.command()
@click.argument("names", nargs=-1, required=True, type=GROUP)
@click.option("--max", "lag_max", type=int, help="Exit code 7 if a group is further behind.")
@client_options
def lag(session: Session, names: tuple[str, ...], lag_max: int | None) -> None:
    """Show how far groups are behind, partition by partition.

    \b
    Examples:
      kaa group lag billing
      kaa group lag billing --max 1000 || echo too far behind
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        rows: list[dict[str, Any]] = []
        async with Admin(session.settings) as admin:
            for name in names:
                found = await admin.group_lag(name)
                rows += [{"group": name, **lag_row(one)} for one in found]
        columns = ["group", *_LAG_COLUMNS]
        show(session.output, columns, rows, "partition", wide=["start_offset", "member_id"])
        totals = {
            name: sum(row["lag"] or 0 for row in rows if row["group"] == name) for name in names
        }
        for name, total in totals.items():
            say(f"{name} is {count_text(total, 'record')} behind")
        is_late = lag_max is not None and any(total > lag_max for total in totals.values())
        return EXIT_UNHEALTHY if is_late else 0

    run(session, work)


def lag_row(one: PartitionLag) -> dict[str, Any]:
    """How far a group is in a partition."""
    member = one.member
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "committed": one.committed,
        "end_offset": one.end_offset,
        "lag": one.lag,
        "client_id": None if member is None else member.client_id,
        "host": None if member is None else member.host,
        "start_offset": one.start_offset,
        "member_id": None if member is None else member.member_id,
    }


_NOTHING_TO_DELETE = "see which groups there are (kaa group list); this one is gone already"


@command.command()
@click.argument("names", nargs=-1, required=True, type=GROUP)
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def delete(session: Session, names: tuple[str, ...], yes: bool) -> None:
    """Delete groups without members, with their offsets.

    \b
    Examples:
      kaa group delete billing
      kaa group delete billing shipping --yes
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.client.errors import KafkaError

        async with Admin(session.settings) as admin:
            if yes:
                outcome = await admin.delete_groups(names)
            else:
                found = await admin.describe_groups(names)
                outcome = {
                    name: one if isinstance(one, KafkaError) else None
                    for name, one in found.items()
                }
        show_outcome(session, outcome, "deleted" if yes else "would be deleted")
        if not yes and None in outcome.values():
            say("nothing was deleted; add --yes to do it")
        return outcome_code(outcome, next_step=_NOTHING_TO_DELETE)

    run(session, work)


@command.command()
@click.argument("name", type=GROUP)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after this many looks.")
@client_options
def watch(session: Session, name: str, interval_s: float, count: int | None) -> None:
    """Watch how far a group is: lag, rates, time behind and where it is going.

    \b
    Examples:
      kaa group watch billing
      kaa group watch billing --interval 1 -n 10 -o jsonl
    """

    async def work() -> int:
        from kaa.cli.group.watch import watch_group
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            await watch_group(admin, name, session.output, interval_s, count)
        return 0

    run(session, work)


command.add_command(seek)
command.add_command(delete_offsets)
