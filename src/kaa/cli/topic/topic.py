"""`kaa topic`: topics of any Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_PARTLY,
    client_options,
    outcome_code,
    pairs,
    run,
    say,
    show_outcome,
    tell,
)
from kaa.cli.cluster.replica_health import NOT_SERVED, min_insync_replicas, problem_of
from kaa.cli.command import TOPIC, TOPIC_SETTING, Noun
from kaa.cli.directories import move
from kaa.cli.output import print_rows, show, styled
from kaa.cli.topic.apply import apply
from kaa.cli.topic.delete import delete, trim
from kaa.cli.topic.names import matcher
from kaa.cli.topic.tier import tier
from kaa.model.words import count_text

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.cli.reading import LogBounds
    from kaa.client.admin.admin import Admin, ConfigEntry
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
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", type=TOPIC)
@click.option("-r", "--regex", is_flag=True, help="The patterns are regular expressions.")
@click.option("--internal", is_flag=True, help="Also topics of Kafka itself.")
@client_options
def list_topics(session: Session, patterns: tuple[str, ...], regex: bool, internal: bool) -> None:
    """List topics, with what all replicas of them take on disk.

    A PATTERN is as in a shell: * stands for anything, ? for one letter, [ab] for one of these.

    \b
    Examples:
      kaa topic list
      kaa topic list 'orders-*' payments
      kaa topic list --regex 'orders-[0-9]+'
      kaa topic list -b broker:9092 -o name
    """
    is_meant = matcher(patterns, is_regex=regex)

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.list_topics(internal=internal)
            topics = [topic for topic in found if is_meant(topic.name)]
            sizes = await _sizes(admin) if topics and session.output != "name" else None
        rows = [
            {
                "name": topic.name,
                "partitions": len(topic.partitions),
                "replicas": max((len(one.replicas) for one in topic.partitions), default=0),
                "internal": topic.is_internal,
                "id": str(topic.topic_id),
                "size_bytes": None if sizes is None else sizes.get(topic.name, 0),
            }
            for topic in topics
        ]
        columns = ["name", "partitions", "replicas", "size_bytes"]
        show(session.output, columns, rows, wide=["internal", "id"])
        if patterns and not rows:
            say(f"no topic matches {' or '.join(patterns)}")

    run(session, work)


async def _sizes(admin: Admin) -> dict[str, int] | None:
    """Bytes on disk by topic; None where this user may not know."""
    from kaa.client.errors import KafkaError

    try:
        dirs = await admin.describe_log_dirs()
    except KafkaError:
        return None
    sizes: dict[str, int] = {}
    for one in dirs:
        for replica in one.replicas:
            topic = replica.partition.topic
            sizes[topic] = sizes.get(topic, 0) + replica.size_bytes
    return sizes


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
@click.option("--if-not-exists", is_flag=True, help="A topic that already exists is fine.")
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
        from kaa.client.admin.admin import Admin, NewTopic

        new = [NewTopic(name, partitions, replication_factor, settings) for name in names]
        async with Admin(session.settings) as admin:
            answered = await admin.create_topics(new, validate_only=dry_run)
        # As they were asked for; a broker answers in any order.
        outcome = {name: answered[name] for name in names if name in answered}
        for name, error in outcome.items():
            if error is not None and if_not_exists and error.error.name == "TOPIC_ALREADY_EXISTS":
                outcome[name] = None
                say(f"{name} already exists")
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
        from kaa.client.admin.admin import Admin
        from kaa.client.metadata import Topic

        async with Admin(session.settings) as admin:
            found = await admin.describe_topics(names)
            topics = [one for one in found.values() if isinstance(one, Topic)]
            minima = await min_insync_replicas(admin, topics)
            described = [
                await _describe(admin, topic, minima.get(topic.name, 1)) for topic in topics
            ]
        is_whole = all(
            part["end_offset"] is not None for one in described for part in one["partitions"]
        )
        rows = [{"name": one["name"], **part} for one in described for part in one["partitions"]]
        show(
            session.output,
            ["name", *_PARTITION_COLUMNS],
            rows,
            document=described,
            text=lambda: _print_topics(described),
        )
        code = outcome_code(
            {name: None if isinstance(one, Topic) else one for name, one in found.items()}
        )
        return code if is_whole else code or EXIT_PARTLY

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
    "problem",
)


async def _describe(admin: Admin, topic: Topic, minimum: int) -> dict[str, Any]:
    from kaa.client.admin.admin import ConfigSource
    from kaa.client.metadata import NO_NODE
    from kaa.model.kinds import ResourceType
    from kaa.model.topics import TopicPartition

    first, end = await _bounds(admin, topic)
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
                "first_offset": first.get(name),
                "end_offset": end.get(name),
                "problem": problem_of(one, minimum) or (None if name in end else NOT_SERVED),
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


async def _bounds(admin: Admin, topic: Topic) -> LogBounds:
    """Of the partitions that can be asked: what else is known of a topic is shown all the same."""
    from kaa.cli.reading import LogBounds, bounds_of
    from kaa.client.errors import ClientError, KafkaError
    from kaa.client.metadata import NO_NODE
    from kaa.model.topics import TopicPartition
    from kaa.wire.errors import Errors

    led = []
    for one in topic.partitions:
        name = TopicPartition(topic.name, one.partition)
        if one.leader_id == NO_NODE:
            tell(KafkaError(Errors.LEADER_NOT_AVAILABLE, f"partition {name}"))
        else:
            led.append(name)
    try:
        return await bounds_of(admin, led)
    except ClientError as error:
        tell(error)
        return LogBounds({}, {})


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
            f"{styled(topic['name'], bold=True)}  {count_text(len(partitions), 'partition')}, "
            f"{count_text(records, 'offset')} in use, id {topic['id']}"
        )
        is_well = all(one["problem"] is None for one in partitions)
        print_rows(_PARTITION_COLUMNS[:-1] if is_well else _PARTITION_COLUMNS, partitions)
        for name, value in topic["configs"].items():
            click.echo(f"{name}={value}")


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
        from kaa.client.admin.admin import Admin, ConfigChange, ConfigOperation
        from kaa.client.errors import KafkaError
        from kaa.model.kinds import ResourceType

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
@click.option("--total", type=int, help="The new number of partitions.")
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
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            count = total
            if count is None:
                topic = await admin.describe_topic(name)
                count = len(topic.partitions) + (added or 0)
            outcome = await admin.create_partitions({name: count}, validate_only=dry_run)
        verb = "would have" if dry_run else "has"
        show_outcome(session, outcome, f"{verb} {count_text(count, 'partition')}")
        return outcome_code(outcome)

    run(session, work)


for verb in (apply, delete, move, trim, tier):
    command.add_command(verb)
