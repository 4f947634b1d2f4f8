"""`kaa share`: share groups, how much is left for them, and how to move them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_PARTLY,
    client_options,
    outcome_code,
    run,
    say,
    show_outcome,
)
from kaa.cli.command import GROUP, TOPIC, Noun
from kaa.cli.output import show
from kaa.model.words import count_text

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.model.topics import TopicPartition

_MEMBER_COLUMNS = ("client_id", "host", "member_id", "partitions")


@click.group(cls=Noun, name="share")
def command() -> None:
    """List, describe, move and delete share groups.

    \b
    Examples:
      kaa share list
      kaa share offsets workers
      kaa share reset workers --to start --execute
    """


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Stable, Empty, ...")
@client_options
def list_groups(session: Session, states: tuple[str, ...]) -> None:
    """List share groups with their state.

    \b
    Examples:
      kaa share list
      kaa share list --state Empty -o name
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.list_groups(states=states, types=["share"])
        rows = [{"name": one.group_id, "state": one.state or None} for one in found]
        show(session.output, ["name", "state"], rows)

    run(session, work)


@command.command()
@click.argument("name", type=GROUP)
@client_options
def describe(session: Session, name: str) -> None:
    """Show the members of a share group, and what each takes records of.

    \b
    Examples:
      kaa share describe workers
      kaa share describe workers -o json
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            group = await admin.describe_share_group(name)
        members = [
            {
                "client_id": one.client_id,
                "host": one.host.lstrip("/"),
                "member_id": one.member_id,
                "partitions": [str(partition) for partition in one.assignment],
            }
            for one in group.members
        ]
        document: dict[str, Any] = {
            "name": group.group_id,
            "state": group.state,
            "assignor": group.assignor,
            "epoch": group.epoch,
            "members": members,
        }
        show(session.output, _MEMBER_COLUMNS, members, "member_id", document=document)
        say(f"{name} is {group.state}, with {count_text(len(members), 'member')}")

    run(session, work)


@command.command()
@click.argument("name", type=GROUP)
@client_options
def offsets(session: Session, name: str) -> None:
    """Show where a share group is, and how many records are left for it.

    \b
    Examples:
      kaa share offsets workers
      kaa share offsets workers -o csv
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            await admin.describe_share_group(name)
            found = await admin.list_share_group_offsets(name)
        rows = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "start_offset": position.start_offset,
                "lag": position.lag,
            }
            for one, position in sorted(found.items())
        ]
        show(session.output, ["topic", "partition", "start_offset", "lag"], rows, "start_offset")

    run(session, work)


@command.command()
@click.argument("name", type=GROUP)
@click.option(
    "--to", "target", required=True, metavar="POINT", help="start, end, an offset, @TIME, ..."
)
@click.option(
    "-t", "--topic", "topics", multiple=True, type=TOPIC, help="Topics; all that it has read."
)
@click.option("--execute", is_flag=True, help="Do it; otherwise only the plan is shown.")
@client_options
def reset(session: Session, name: str, target: str, topics: tuple[str, ...], execute: bool) -> None:
    """Move a share group without members; without --execute, only show the plan.

    --to takes the points of kaa consume --from: start, end, an offset, +N after the first, -N
    before the end, @TIME (2026-01-31T10:00:00, -10m).

    \b
    Examples:
      kaa share reset workers --to start
      kaa share reset workers --to @-1h -t jobs --execute
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            plan, is_whole = await _plan(admin, name, target, topics)
            failures: dict[str, Exception | None] = {}
            if execute:
                wanted = {one: offset for one, (offset, _) in plan.items()}
                outcome = await admin.alter_share_group_offsets(name, wanted)
                failures = {str(partition): error for partition, error in outcome.items()}
        rows = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "start_offset": offset,
                "lag": end - offset,
            }
            for one, (offset, end) in plan.items()
        ]
        show(session.output, ["topic", "partition", "start_offset", "lag"], rows, "start_offset")
        if not execute:
            say("nothing was changed; add --execute to do it")
        code = outcome_code(failures)
        return code if is_whole else code or EXIT_PARTLY

    run(session, work)


async def _plan(
    admin: Admin, name: str, target: str, topics: tuple[str, ...]
) -> tuple[dict[TopicPartition, tuple[int, int]], bool]:
    """By partition that can be asked, where the group goes, and the end; whether these are all."""
    from kaa.cli.group.seek import SeekError, parse_target
    from kaa.cli.reading import bounds_of
    from kaa.model.topics import TopicPartition

    try:
        point = parse_target(target, time.time_ns() // 1_000_000)
    except SeekError as error:
        raise click.UsageError(str(error)) from error
    if topics:
        described = [await admin.describe_topic(topic) for topic in topics]
        wanted = [
            TopicPartition(one.name, each.partition) for one in described for each in one.partitions
        ]
    else:
        wanted = sorted(await admin.list_share_group_offsets(name))
    if not wanted:
        raise click.UsageError(f"group {name} has read nothing; name topics with -t")
    first, end = await bounds_of(admin, wanted)
    times = {}
    if point.kind == "time":
        times = await admin.list_offsets(dict.fromkeys(end, point.value))
    plan = {}
    for one, last in end.items():
        # A broker answers -1 where no record is so new.
        at_time = times[one].offset if one in times and times[one].offset >= 0 else None
        plan[one] = (point.offset(first[one], last, at_time), last)
    return plan, len(plan) == len(wanted)


@command.command()
@click.argument("names", nargs=-1, required=True, type=GROUP)
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def delete(session: Session, names: tuple[str, ...], yes: bool) -> None:
    """Delete share groups without members, with all that they have read.

    \b
    Examples:
      kaa share delete workers
      kaa share delete workers --yes
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.client.errors import KafkaError

        outcome: dict[str, KafkaError | None] = dict.fromkeys(names)
        async with Admin(session.settings) as admin:
            if yes:
                outcome = await admin.delete_groups(names)
            else:
                for name in names:
                    try:
                        await admin.describe_share_group(name)
                    except KafkaError as error:
                        outcome[name] = error
        show_outcome(session, outcome, "deleted" if yes else "would be deleted")
        if not yes and None in outcome.values():
            say("nothing was deleted; add --yes to do it")
        return outcome_code(outcome)

    run(session, work)
