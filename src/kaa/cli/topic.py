"""``kaa topic``: topics of any Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_NOT_FOUND,
    client_options,
    complain,
    outcome_code,
    pairs,
    run,
    say,
    show_outcome,
)
from kaa.cli.command import TOPIC, TOPIC_SETTING, Noun
from kaa.cli.output import print_rows, show, styled

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.client.admin import Admin, ConfigEntry
    from kaa.client.metadata import Topic


@click.group(cls=Noun, name="topic")
def command() -> None:
    """List, create, describe, change and delete topics.

    \b
    Examples:
      kaa topic list
      kaa topic create orders -p 3
      kaa topic describe orders
    """


@command.command("list")
@click.option("--internal", is_flag=True, help="Also topics of Kafka itself.")
@client_options
def list_topics(session: Session, internal: bool) -> None:
    """List topics.

    \b
    Examples:
      kaa topic list
      kaa topic list -b broker:9092 -o name
    """

    async def work() -> None:
        from kaa.client.admin import Admin

        async with Admin(session.settings) as admin:
            topics = await admin.list_topics(internal=internal)
        rows = [
            {
                "name": topic.name,
                "partitions": len(topic.partitions),
                "replicas": max((len(one.replicas) for one in topic.partitions), default=0),
                "internal": topic.is_internal,
                "id": str(topic.topic_id),
            }
            for topic in topics
        ]
        show(session.output, ["name", "partitions", "replicas"], rows, wide=["internal", "id"])

    run(session, work)


@command.command()
@click.argument("names", nargs=-1, required=True)
@click.option("-p", "--partitions", type=int, default=-1, help="Default: the broker's.")
@click.option("-r", "--replication-factor", type=int, default=-1, help="Default: the broker's.")
@click.option(
    "-c",
    "--config",
    "configs",
    type=TOPIC_SETTING,
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it and create nothing.")
@client_options
def create(
    session: Session,
    names: tuple[str, ...],
    partitions: int,
    replication_factor: int,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics.

    \b
    Examples:
      kaa topic create orders
      kaa topic create orders payments -p 6 -r 3 -c cleanup.policy=compact
      kaa topic create orders --dry-run
    """
    settings = pairs(configs, "--config")

    async def work() -> int:
        from kaa.client.admin import Admin, NewTopic

        new = [NewTopic(name, partitions, replication_factor, settings) for name in names]
        async with Admin(session.settings) as admin:
            answered = await admin.create_topics(new, validate_only=dry_run)
        # As they were asked for; a broker answers in any order.
        outcome = {name: answered[name] for name in names if name in answered}
        for name, error in outcome.items():
            if error is not None and if_not_exists and error.error.name == "TOPIC_ALREADY_EXISTS":
                outcome[name] = None
                say(f"{name} is there already")
        done = "would be created" if dry_run else "created"
        show_outcome(session, outcome, done)
        return outcome_code(outcome)

    run(session, work)


@command.command()
@click.argument("names", nargs=-1, required=True, type=TOPIC)
@client_options
def describe(session: Session, names: tuple[str, ...]) -> None:
    """Show partitions, offsets and settings of topics.

    \b
    Examples:
      kaa topic describe orders
      kaa topic describe orders -o json
    """

    async def work() -> int:
        from kaa.client.admin import Admin
        from kaa.client.metadata import Topic

        async with Admin(session.settings) as admin:
            found = await admin.describe_topics(names)
            topics = [one for one in found.values() if isinstance(one, Topic)]
            described = [await _describe(admin, topic) for topic in topics]
        rows = [{"name": one["name"], **part} for one in described for part in one["partitions"]]
        show(
            session.output,
            ["name", *_PARTITION_COLUMNS],
            rows,
            document=described,
            text=lambda: _print_topics(described),
        )
        return outcome_code(
            {name: None if isinstance(one, Topic) else one for name, one in found.items()}
        )

    run(session, work)


_PARTITION_COLUMNS = (
    "partition",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "offline",
    "first_offset",
    "end_offset",
)


async def _describe(admin: Admin, topic: Topic) -> dict[str, Any]:
    from kaa.client.admin import ConfigSource, ResourceType
    from kaa.client.metadata import NO_NODE, TopicPartition
    from kaa.client.offsets import EARLIEST, LATEST

    led = [
        TopicPartition(topic.name, one.partition)
        for one in topic.partitions
        if one.leader_id != NO_NODE
    ]
    first = await admin.list_offsets(dict.fromkeys(led, EARLIEST))
    end = await admin.list_offsets(dict.fromkeys(led, LATEST))
    entries: list[ConfigEntry] = await admin.describe_configs(ResourceType.TOPIC, topic.name)
    partitions = []
    for one in topic.partitions:
        name = TopicPartition(topic.name, one.partition)
        partitions.append(
            {
                "partition": one.partition,
                "leader": None if one.leader_id == NO_NODE else one.leader_id,
                "leader_epoch": one.leader_epoch,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
                "offline": list(one.offline_replicas),
                "first_offset": first[name].offset if name in first else None,
                "end_offset": end[name].offset if name in end else None,
            }
        )
    return {
        "name": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": partitions,
        "configs": {
            entry.name: entry.value
            for entry in entries
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        },
    }


def _print_topics(topics: list[dict[str, Any]]) -> None:
    for number, topic in enumerate(topics):
        if number:
            click.echo()
        partitions = topic["partitions"]
        records = sum(
            one["end_offset"] - one["first_offset"]
            for one in partitions
            if one["first_offset"] is not None
        )
        click.echo(
            f"{styled(topic['name'], bold=True)}  {len(partitions)} partitions, "
            f"{records} offsets in use, id {topic['id']}"
        )
        print_rows(_PARTITION_COLUMNS, partitions)
        for name, value in topic["configs"].items():
            click.echo(f"{name}={value}")


@command.command()
@click.argument("names", nargs=-1, required=True, type=TOPIC)
@click.option("--yes", "--execute", "yes", is_flag=True, help="Do it; without, plan alone.")
@client_options
def delete(session: Session, names: tuple[str, ...], yes: bool) -> None:
    """Delete topics with all their records.

    \b
    Examples:
      kaa topic delete orders        # shows what would go
      kaa topic delete orders --yes
    """

    async def work() -> int:
        from kaa.client.admin import Admin
        from kaa.client.errors import KafkaError

        async with Admin(session.settings) as admin:
            if yes:
                answered = await admin.delete_topics(names)
                # As they were asked for; a broker answers in any order.
                outcome = {name: answered[name] for name in names if name in answered}
            else:
                found = await admin.describe_topics(names)
                outcome = {
                    name: one if isinstance(one, KafkaError) else None
                    for name, one in found.items()
                }
        show_outcome(session, outcome, "deleted" if yes else "would be deleted")
        if not yes:
            say("nothing was deleted; add --yes to do it")
        return outcome_code(outcome)

    run(session, work)


@command.command()
@click.argument("names", nargs=-1, required=True, type=TOPIC)
@click.option(
    "-c",
    "--config",
    "configs",
    type=TOPIC_SETTING,
    multiple=True,
    metavar="NAME=VALUE",
    help="Set this.",
)
@click.option("-d", "--unset", multiple=True, metavar="NAME", help="Take this setting back.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it and change nothing.")
@client_options
def alter(
    session: Session,
    names: tuple[str, ...],
    configs: tuple[str, ...],
    unset: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change the settings of topics; others stay as they are.

    \b
    Examples:
      kaa topic alter orders -c retention.ms=86400000
      kaa topic alter orders payments -c cleanup.policy=compact -d retention.ms --dry-run
    """
    settings = pairs(configs, "--config")
    if not settings and not unset:
        raise click.UsageError("give --config or --unset")

    async def work() -> int:
        from kaa.client.admin import Admin, ConfigChange, ConfigOperation, ResourceType
        from kaa.client.errors import KafkaError

        changes = [ConfigChange(*pair) for pair in settings.items()]
        changes += [ConfigChange(one, None, ConfigOperation.DELETE) for one in unset]
        outcome: dict[str, Any] = {}
        async with Admin(session.settings) as admin:
            for name in names:
                try:
                    await admin.alter_configs(
                        ResourceType.TOPIC, name, changes, validate_only=dry_run
                    )
                except KafkaError as error:
                    outcome[name] = error
                else:
                    outcome[name] = None
        show_outcome(session, outcome, "would be changed" if dry_run else "changed")
        return outcome_code(outcome)

    run(session, work)


@command.command("add-partitions")
@click.argument("name", type=TOPIC)
@click.option("--add", "added", type=int, help="How many more.")
@click.option("--total", type=int, help="How many there shall be.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it and change nothing.")
@client_options
def add_partitions(
    session: Session, name: str, added: int | None, total: int | None, dry_run: bool
) -> None:
    """Add partitions to a topic. Keys may go to other partitions from then on.

    \b
    Examples:
      kaa topic add-partitions orders --add 3
      kaa topic add-partitions orders --total 12 --dry-run
    """
    if (added is None) == (total is None):
        raise click.UsageError("give either --add or --total")

    async def work() -> int:
        from kaa.client.admin import Admin

        async with Admin(session.settings) as admin:
            count = total
            if count is None:
                topic = await admin.describe_topic(name)
                count = len(topic.partitions) + (added or 0)
            outcome = await admin.create_partitions({name: count}, validate_only=dry_run)
        verb = "would have" if dry_run else "has"
        show_outcome(session, outcome, f"{verb} {count} partitions")
        return outcome_code(outcome)

    run(session, work)


@command.command()
@click.argument("name", type=TOPIC)
@click.option("--before", required=True, metavar="OFFSET|end", help="The first offset to keep.")
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Default: all.")
@click.option("--yes", "--execute", "yes", is_flag=True, help="Do it; without, plan alone.")
@client_options
def trim(session: Session, name: str, before: str, partitions: tuple[int, ...], yes: bool) -> None:
    """Delete the records of a topic before an offset.

    \b
    Examples:
      kaa topic trim orders --before end
      kaa topic trim orders --before 1000 -p 0 --yes
    """
    if before != "end" and not before.isdecimal():
        raise click.UsageError("--before takes an offset or 'end'")

    async def work() -> int:
        from kaa.client.admin import Admin
        from kaa.client.metadata import TopicPartition
        from kaa.client.offsets import EARLIEST, LATEST

        async with Admin(session.settings) as admin:
            topic = await admin.describe_topic(name)
            wanted = partitions or range(len(topic.partitions))
            names = [TopicPartition(name, partition) for partition in wanted]
            if not all(0 <= one.partition < len(topic.partitions) for one in names):
                complain(f"{name} has {len(topic.partitions)} partitions")
                return EXIT_NOT_FOUND
            first = await admin.list_offsets(dict.fromkeys(names, EARLIEST))
            end = await admin.list_offsets(dict.fromkeys(names, LATEST))
            target = {
                one: end[one].offset if before == "end" else min(int(before), end[one].offset)
                for one in names
            }
            if yes:
                target = await admin.delete_records(target)
        rows = [
            {
                "partition": one.partition,
                "first_offset": first[one].offset,
                "new_first_offset": max(first[one].offset, target[one]),
                "end_offset": end[one].offset,
            }
            for one in names
        ]
        columns = ["partition", "first_offset", "new_first_offset", "end_offset"]
        show(session.output, columns, rows, "partition")
        if not yes:
            say("nothing was deleted; add --yes to do it")
        return 0

    run(session, work)
