"""`kaa txn`: transactions, which of them are open, and how to end those that nobody will."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_NOT_FOUND,
    EXIT_UNHEALTHY,
    client_options,
    complain,
    outcome_code,
    run,
    say,
)
from kaa.cli.command import TOPIC, TRANSACTIONAL_ID, Noun
from kaa.cli.output import show
from kaa.cli.partitions import refuse_absent
from kaa.cli.record_format import iso_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.client.admin.transactions import TransactionDescription

_OPEN_STATES = ("Ongoing",)


@click.group(cls=Noun, name="txn")
def command() -> None:
    """List, describe and abort transactions, and find those that hang.

    \b
    Examples:
      kaa txn list --state Ongoing
      kaa txn find-hanging
      kaa txn abort payments-1 --yes
    """


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Ongoing, Empty, ...")
@click.option("--producer-id", "producer_ids", multiple=True, type=int, help="Of this producer.")
@click.option("--older-than", "older_s", type=float, metavar="SECONDS", help="Open for longer.")
@click.option("--pattern", help="Whose transactional id matches this expression.")
@client_options
def list_transactions(
    session: Session,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    older_s: float | None,
    pattern: str | None,
) -> None:
    """List transactional ids with their state.

    \b
    Examples:
      kaa txn list
      kaa txn list --state Ongoing --older-than 60
      kaa txn list --pattern 'payments-.*' -o name
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.list_transactions(
                states=states,
                producer_ids=producer_ids,
                running_longer_than_ms=-1 if older_s is None else int(older_s * 1000),
                pattern=pattern,
            )
        rows = [
            {
                "name": one.transactional_id,
                "producer_id": one.producer_id,
                "state": one.state,
                "coordinator": one.coordinator_id,
            }
            for one in found
        ]
        show(session.output, ["name", "producer_id", "state", "coordinator"], rows)

    run(session, work)


@command.command()
@click.argument("names", nargs=-1, required=True, type=TRANSACTIONAL_ID)
@client_options
def describe(session: Session, names: tuple[str, ...]) -> None:
    """Show transactions: state, producer, age and partitions.

    \b
    Examples:
      kaa txn describe payments-1
      kaa txn describe payments-1 -o yaml
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.client.errors import KafkaError

        async with Admin(session.settings) as admin:
            found = await admin.describe_transactions(names)
        now_ms = time.time_ns() // 1_000_000
        rows = [_row(one, now_ms) for one in found.values() if not isinstance(one, KafkaError)]
        columns = ["name", "state", "producer_id", "age_ms", "partitions"]
        wide = ["producer_epoch", "timeout_ms", "started", "coordinator"]
        show(session.output, columns, rows, wide=wide)
        return outcome_code(
            {name: one if isinstance(one, KafkaError) else None for name, one in found.items()}
        )

    run(session, work)


def _row(one: TransactionDescription, now_ms: int) -> dict[str, Any]:
    is_open = one.start_time_ms >= 0
    return {
        "name": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "age_ms": max(0, now_ms - one.start_time_ms) if is_open else None,
        "partitions": [str(partition) for partition in one.partitions],
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "started": iso_time(one.start_time_ms) if is_open else None,
        "coordinator": one.coordinator,
    }


@command.command("find-hanging")
@click.option("-t", "--topic", type=TOPIC, help="Only here.  [default: everywhere]")
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), help="Only this partition of the topic."
)
@click.option("--broker", "broker_id", type=int, help="Only what this broker leads.")
@click.option(
    "--older-than",
    "older_s",
    type=float,
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Open for longer: the greatest time that the brokers allow a transaction.",
)
@client_options
def find_hanging(
    session: Session,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    older_s: float,
) -> None:
    """Find open transactions that no coordinator will end; exit code 7 if there are any.

    They hold up every reader of committed records of their partition. kaa txn abort ends them.

    \b
    Examples:
      kaa txn find-hanging
      kaa txn find-hanging -t orders -p 0
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.model.topics import TopicPartition

        now_ms = time.time_ns() // 1_000_000
        async with Admin(session.settings) as admin:
            partitions = None
            if topic is not None:
                count = len((await admin.describe_topic(topic)).partitions)
                numbers = range(count) if partition is None else [partition]
                refuse_absent(topic, numbers, count)
                partitions = [TopicPartition(topic, number) for number in numbers]
            found = await admin.find_hanging_transactions(
                now_ms,
                partitions=partitions,
                broker_id=broker_id,
                max_transaction_timeout_ms=int(older_s * 1000),
            )
        rows = [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "start_offset": one.producer.transaction_start_offset,
                "producer_id": one.producer.producer_id,
                "producer_epoch": one.producer.producer_epoch,
                "last_timestamp": iso_time(one.producer.last_timestamp_ms),
            }
            for one in found
        ]
        columns = ["topic", "partition", "start_offset", "producer_id", "producer_epoch"]
        show(session.output, columns, rows, "producer_id", wide=["last_timestamp"])
        if rows:
            first = rows[0]
            say(
                f"kaa txn abort -t {first['topic']} -p {first['partition']} "
                f"--start-offset {first['start_offset']} --yes ends the first of them"
            )
        else:
            say("no transaction hangs")
        return EXIT_UNHEALTHY if rows else 0

    run(session, work)


@command.command()
@click.argument("names", nargs=-1, type=TRANSACTIONAL_ID)
@click.option("--prefix", help="All whose transactional id starts so and which are open.")
@click.option("-t", "--topic", type=TOPIC, help="Of a transaction that hangs: its topic.")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    help="Of a transaction that hangs: its partition.",
)
@click.option("--start-offset", type=int, help="Of a transaction that hangs: its first offset.")
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def abort(
    session: Session,
    names: tuple[str, ...],
    prefix: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    yes: bool,
) -> None:
    """Abort open transactions.

    By transactional id, or prefix: the transaction ends and its producer is shut out, as if another
    producer had started under the id. By topic, partition and first offset: one that hangs gets the
    marker that ends it.

    \b
    Examples:
      kaa txn abort payments-1
      kaa txn abort --prefix payments- --yes
      kaa txn abort -t orders -p 0 --start-offset 1200 --yes
    """
    hanging = (topic, partition, start_offset)
    is_hanging = any(one is not None for one in hanging)
    if is_hanging and None in hanging:
        raise click.UsageError("a transaction that hangs needs -t, -p and --start-offset")
    if bool(names) + (prefix is not None) + is_hanging != 1:
        raise click.UsageError("give transactional ids, or --prefix, or -t, -p and --start-offset")

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            if topic is not None and partition is not None and start_offset is not None:
                code = await _abort_hanging(session, admin, topic, partition, start_offset, yes)
            else:
                code = await _abort_named(session, admin, names, prefix, yes)
        if not yes:
            say("nothing was aborted; add --yes to do it")
        return code

    run(session, work)


async def _abort_named(
    session: Session, admin: Admin, names: Sequence[str], prefix: str | None, yes: bool
) -> int:
    from kaa.client.errors import KafkaError

    wanted = list(names)
    if prefix is not None:
        listed = await admin.list_transactions(states=_OPEN_STATES)
        wanted = [one.transactional_id for one in listed if one.transactional_id.startswith(prefix)]
    found = await admin.describe_transactions(wanted)
    outcome: dict[str, KafkaError | None] = {
        name: one if isinstance(one, KafkaError) else None for name, one in found.items()
    }
    if yes:
        known = [name for name, error in outcome.items() if error is None]
        outcome |= await admin.fence_producers(known)
    rows = []
    for name, error in outcome.items():
        one = found[name]
        rows.append(
            {
                "name": name,
                "state": None if isinstance(one, KafkaError) else one.state,
                "status": _status(error, yes),
                "error": None if error is None else error.error.name,
            }
        )
    show(session.output, ["name", "state", "status", "error"], rows)
    return outcome_code(outcome)


def _status(error: Exception | None, yes: bool) -> str:
    if error is not None:
        return "failed"
    return "aborted" if yes else "would be aborted"


async def _abort_hanging(
    session: Session, admin: Admin, topic: str, partition: int, start_offset: int, yes: bool
) -> int:
    from kaa.client.errors import KafkaError
    from kaa.model.topics import TopicPartition

    place = TopicPartition(topic, partition)
    producers = (await admin.describe_producers([place]))[place]
    if isinstance(producers, KafkaError):
        raise producers
    found = [one for one in producers if one.transaction_start_offset == start_offset]
    if not found:
        complain(f"{place} has no open transaction that starts at {start_offset}")
        say("  next         kaa txn find-hanging shows where they start")
        return EXIT_NOT_FOUND
    (producer,) = found
    if yes:
        await admin.abort_transaction(
            place, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
        )
    row = {
        "topic": topic,
        "partition": partition,
        "producer_id": producer.producer_id,
        "status": _status(None, yes),
    }
    show(session.output, list(row), [row], "producer_id")
    return 0
