"""`kaa topic delete` and `trim`: what destroys records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaa.cli.client import (
    EXIT_NOT_FOUND,
    EXIT_PARTLY,
    EXIT_USAGE,
    client_options,
    complain,
    outcome_code,
    run,
    say,
    show_outcome,
)
from kaa.cli.command import TOPIC, Verb
from kaa.cli.output import show
from kaa.cli.partitions import partitions_option, refuse_absent
from kaa.cli.topic.names import matcher
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.client.errors import ClientError
    from kaa.model.topics import TopicPartition

_NOTHING_TO_DELETE = "see which topics there are (kaa topic list); this one is gone already"


@click.command(cls=Verb)
@click.argument("names", nargs=-1, required=True, type=TOPIC)
@click.option("-r", "--regex", is_flag=True, help="NAMES are patterns of whole names.")
@click.option("--count", "expected", type=int, help="With --regex --yes: how many must match.")
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def delete(
    session: Session, names: tuple[str, ...], regex: bool, expected: int | None, yes: bool
) -> None:
    """Delete topics with all their records.

    Patterns never match topics of Kafka itself, and are carried out only if --count says how many
    topics they match, which the plan tells.

    \b
    Examples:
      kaa topic delete orders        # shows what would go
      kaa topic delete orders --yes
      kaa topic delete --regex 'test-.*'
      kaa topic delete --regex 'test-.*' --yes --count 3
    """
    patterns = names
    is_meant = matcher(patterns, is_regex=True) if regex else None

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.client.errors import KafkaError

        names: Sequence[str] = patterns
        async with Admin(session.settings) as admin:
            if is_meant is not None:
                found = await admin.list_topics()
                names = [topic.name for topic in found if is_meant(topic.name)]
                if not names:
                    complain(f"no topic matches {' or '.join(patterns)}")
                    return EXIT_NOT_FOUND
                if yes and expected != len(names):
                    complain(f"{count_text(len(names), 'topic')} would be deleted")
                    step = f"look at them without --yes; then add --count {len(names)}"
                    click.echo(f"  next         {step}", err=True)
                    return EXIT_USAGE
            if yes:
                answered = await admin.delete_topics(names)
                # As they were asked for; a broker answers in any order.
                outcome = {name: answered[name] for name in names if name in answered}
            else:
                described = await admin.describe_topics(names)
                outcome = {
                    name: one if isinstance(one, KafkaError) else None
                    for name, one in described.items()
                }
        show_outcome(session, outcome, "deleted" if yes else "would be deleted")
        if not yes and None in outcome.values():
            counted = f" --count {len(names)}" if regex else ""
            say(f"nothing was deleted; add --yes{counted} to do it")
        return outcome_code(outcome, next_step=_NOTHING_TO_DELETE)

    run(session, work)


@click.command(cls=Verb)
@click.argument("name", type=TOPIC)
@click.option("--before", required=True, metavar="OFFSET|end", help="The first offset to keep.")
@partitions_option
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
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
        from kaa.cli.reading import bounds_of
        from kaa.client.admin.admin import Admin
        from kaa.model.topics import TopicPartition

        failures: dict[TopicPartition, ClientError] = {}
        async with Admin(session.settings) as admin:
            topic = await admin.describe_topic(name)
            refuse_absent(name, partitions, len(topic.partitions))
            wanted = partitions or range(len(topic.partitions))
            first, end = await bounds_of(admin, [TopicPartition(name, one) for one in wanted])
            target = {one: last if before == "end" else int(before) for one, last in end.items()}
            for one, last in end.items():
                # Nothing is there that could be deleted by mistake.
                if first[one] == last:
                    target[one] = min(target[one], last)
            if beyond := [one for one, last in end.items() if target[one] > last]:
                # A digit too many must not empty the topic.
                for one in beyond:
                    complain(f"{one} ends at {end[one]}, before {target[one]}")
                step = "give a lower offset, 'end' for all records, or name partitions with -p"
                click.echo(f"  next         {step}", err=True)
                return EXIT_USAGE
            if yes:
                target, failures = await _trim(admin, target)
        rows = [
            {
                "partition": one.partition,
                "first_offset": first[one],
                "new_first_offset": max(first[one], offset),
                "end_offset": end[one],
            }
            for one, offset in target.items()
        ]
        columns = ["partition", "first_offset", "new_first_offset", "end_offset"]
        show(session.output, columns, rows, "partition")
        if not yes:
            say("nothing was deleted; add --yes to do it")
        code = outcome_code({str(one): failures.get(one) for one in end})
        return code if len(end) == len(wanted) else code or EXIT_PARTLY

    run(session, work)


async def _trim(
    admin: Admin, target: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ClientError]]:
    """The new first offsets, and why other partitions were left as they are."""
    from kaa.client.errors import ClientError

    done: dict[TopicPartition, int] = {}
    failures: dict[TopicPartition, ClientError] = {}
    for one, offset in target.items():
        try:
            done |= await admin.delete_records({one: offset})
        except ClientError as error:
            failures[one] = error
    return done, failures
