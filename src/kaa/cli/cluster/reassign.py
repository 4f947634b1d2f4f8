"""`kaa cluster reassign`, `drain` and `elect`: where replicas are, and which of them lead.

A reassignment copies replicas to their new brokers while clients go on; the old ones are dropped
when the new ones are in sync. With `--throttle` the copying keeps below a rate (KIP-73): the rate
is a setting of the brokers, and which replicas it is about one of the topics. Both are taken away
with `--wait` at the end, or by `reassign --unthrottle`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import EXIT_USAGE, client_options, complain, outcome_code, run, say
from kaa.cli.cluster.reassign_plan import Placed, PlanError, Planner
from kaa.cli.cluster.reassign_throttle import set_throttle, unthrottle
from kaa.cli.command import TOPIC, ByteCount, StringType, Verb
from kaa.cli.output import show
from kaa.cli.progress import Progress
from kaa.cli.topic.names import matcher
from kaa.model.topics import TopicPartition
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.client.admin.replicas import Reassignment
    from kaa.client.metadata import Topic

_POLL_SECONDS = 1.0
_COLUMNS = ["topic", "partition", "from", "to", "size_bytes"]


class _Brokers(StringType):
    name = "brokers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if not all(part.strip().isdecimal() for part in parts):
            self.fail(f"{value!r} names no brokers; write their ids, as 1,2,3", param, ctx)
        return tuple(int(part) for part in parts)


_yes = click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
_wait = click.option("--wait", is_flag=True, help="Wait until everything has moved.")
_throttle = click.option(
    "--throttle",
    type=ByteCount("lift throttles: kaa cluster reassign --unthrottle"),
    metavar="BYTES",
    help="Copy at most this much per second: 50MB.",
)


@click.command(cls=Verb)
@click.argument("moves", nargs=-1)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan as kafka-reassign-partitions.sh has it, in JSON.",
)
@click.option("--balance", type=click.Choice(["count", "bytes"]), help="Even out the brokers.")
@click.option("--factor", type=click.IntRange(min=1), help="Give partitions this many replicas.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    type=TOPIC,
    help="Only these topics; * matches any text.",
)
@click.option("--to", "brokers", type=_Brokers(), metavar="ID,...", help="Only to these brokers.")
@click.option("--status", is_flag=True, help="Show the moves under way, and how far they are.")
@click.option("--cancel", is_flag=True, help="Cancel the moves under way.")
@click.option("--unthrottle", is_flag=True, help="Remove throttles.")
@_throttle
@_wait
@_yes
@client_options
def reassign(session: Session, **wish: Any) -> None:
    """Move replicas to other brokers, or change how many there are.

    MOVES are TOPIC-PARTITION=BROKER,BROKER,...: the first one is to lead. In place of them, --file
    has a plan, or --balance and --factor make one.

    \b
    Examples:
      kaa cluster reassign orders-0=2,3,1           # shows what would move
      kaa cluster reassign orders-0=2,3,1 --yes --wait
      kaa cluster reassign --balance bytes --throttle 50MB --yes
      kaa cluster reassign --factor 3 -t 'orders*' --yes
      kaa cluster reassign --status
      kaa cluster reassign --cancel --yes
    """
    ways = ("moves", "file", "status", "cancel", "unthrottle")
    given = [name for name in ways if wish[name]]
    if wish["balance"] or wish["factor"]:
        given.append("balance")
    if len(given) != 1:
        raise click.UsageError(
            "give moves, or one of --file, --balance, --factor, --status, --cancel, --unthrottle"
        )

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            if wish["status"]:
                return await _status(session, admin)
            if wish["cancel"]:
                return await _cancel(session, admin, wish["topics"], yes=wish["yes"])
            if wish["unthrottle"]:
                await unthrottle(admin)
                return 0
            look = await _Look.take(admin)
            try:
                wanted = _wanted(look, wish)
            except PlanError as error:
                complain(str(error))
                return EXIT_USAGE
            return await _carry_out(session, admin, look, wanted, wish)

    run(session, work)


@click.command(cls=Verb)
@click.argument("broker", type=int)
@click.option("--to", "brokers", type=_Brokers(), metavar="ID,...", help="Only to these brokers.")
@_throttle
@_wait
@_yes
@client_options
def drain(session: Session, broker: int, **wish: Any) -> None:
    """Move every replica off a broker, so that it can go.

    \b
    Examples:
      kaa cluster drain 3        # shows what would move
      kaa cluster drain 3 --throttle 50MB --yes --wait
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            look = await _Look.take(admin)
            planner = Planner(look.placed(), look.targets(wish["brokers"], without=broker))
            try:
                planner.drain(broker)
            except PlanError as error:
                complain(str(error))
                return EXIT_USAGE
            return await _carry_out(session, admin, look, planner.changes, wish)

    run(session, work)


@click.command(cls=Verb)
@click.argument("partitions", nargs=-1)
@click.option("--unclean", is_flag=True, help="Any live replica may lead; records may be lost.")
@click.option("--yes", "--execute", "yes", is_flag=True, help="With --unclean: do it.")
@client_options
def elect(session: Session, partitions: tuple[str, ...], unclean: bool, yes: bool) -> None:
    """Let preferred replicas lead, which are the first in their lists.

    PARTITIONS are TOPIC-PARTITION; without them, all that need it.

    \b
    Examples:
      kaa cluster elect
      kaa cluster elect orders-0 orders-1
      kaa cluster elect orders-0 --unclean --yes
    """
    named = [_partition(text) for text in partitions]
    if unclean and not (named and yes):
        raise click.UsageError(
            "an unclean election loses records that only the missing replicas have; name the "
            "partitions and add --yes"
        )

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.wire.errors import Errors

        async with Admin(session.settings) as admin:
            found = await admin.elect_leaders(named or None, unclean=unclean)
        rows = [
            {
                "topic": name.topic,
                "partition": name.partition,
                "status": _election_status(error),
                "error": None if error is None else error.error.name,
            }
            for name, error in sorted(found.items())
        ]
        if not rows:
            say("every partition is led by its preferred replica")
        show(session.output, ["topic", "partition", "status", "error"], rows, "topic")
        failed = {
            str(name): None if error is None or error.error is Errors.ELECTION_NOT_NEEDED else error
            for name, error in found.items()
        }
        return outcome_code(failed)

    run(session, work)


def _election_status(error: Any) -> str:
    if error is None:
        return "elected"
    return "not needed" if error.error.name == "ELECTION_NOT_NEEDED" else "failed"


# --- what is there


class _Look:
    """Brokers, topics and sizes at one moment."""

    def __init__(
        self,
        topics: Sequence[Topic],
        racks: Mapping[int, str | None],
        sizes: Mapping[TopicPartition, int],
    ) -> None:
        self.replicas = {
            TopicPartition(topic.name, one.partition): one.replicas
            for topic in topics
            for one in topic.partitions
        }
        self.racks = racks
        self.sizes = sizes

    @classmethod
    async def take(cls, admin: Admin) -> _Look:
        cluster = await admin.describe_cluster()
        racks = {one.node_id: one.rack for one in cluster.brokers}
        return cls(await admin.list_topics(internal=True), racks, await _sizes(admin))

    def placed(self, weigh: str = "count") -> dict[TopicPartition, Placed]:
        return {
            name: Placed(replicas, 1 if weigh == "count" else self.sizes.get(name, 0))
            for name, replicas in self.replicas.items()
        }

    def targets(
        self, wanted: Iterable[int] | None, without: int | None = None
    ) -> dict[int, str | None]:
        unknown = set(wanted or ()) - set(self.racks)
        if unknown:
            listed = ", ".join(map(str, sorted(unknown)))
            raise click.UsageError(f"no such broker is alive: {listed}; see kaa cluster info")
        return {
            broker: rack
            for broker, rack in self.racks.items()
            if broker != without and (wanted is None or broker in wanted)
        }


async def _sizes(admin: Admin) -> dict[TopicPartition, int]:
    """The bytes of each partition, as its largest replica has them."""
    sizes: dict[TopicPartition, int] = {}
    for directory in await admin.describe_log_dirs():
        for replica in directory.replicas:
            if not replica.is_future:
                before = sizes.get(replica.partition, 0)
                sizes[replica.partition] = max(before, replica.size_bytes)
    return sizes


# --- plans


def _wanted(look: _Look, wish: Mapping[str, Any]) -> dict[TopicPartition, list[int]]:
    if wish["moves"]:
        return dict(_move(text) for text in wish["moves"])
    if wish["file"]:
        return read_plan(wish["file"])
    is_meant = matcher(wish["topics"], is_regex=False)
    names = [name for name in look.replicas if is_meant(name.topic)]
    planner = Planner(look.placed(wish["balance"] or "count"), look.targets(wish["brokers"]))
    if wish["factor"]:
        planner.set_factor(names, wish["factor"])
    if wish["balance"]:
        planner.balance(names)
    return planner.changes


def _partition(text: str) -> TopicPartition:
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise click.UsageError(f"{text!r} names no partition; write TOPIC-PARTITION, as orders-0")
    return TopicPartition(topic, int(number))


def _move(text: str) -> tuple[TopicPartition, list[int]]:
    name, equals, brokers = text.rpartition("=")
    parts = brokers.split(",")
    if not equals or not all(part.isdecimal() for part in parts):
        raise click.UsageError(f"{text!r} is not a move; write orders-0=1,2,3")
    return _partition(name), [int(part) for part in parts]


def read_plan(path: Path) -> dict[TopicPartition, list[int]]:
    """A plan in the format of Kafka's tool."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): [
                int(broker) for broker in one["replicas"]
            ]
            for one in plan["partitions"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise click.UsageError(
            f"{path} is not a plan: {error!r}; it should look like "
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
        ) from error


async def _carry_out(
    session: Session,
    admin: Admin,
    look: _Look,
    wanted: Mapping[TopicPartition, Sequence[int]],
    wish: Mapping[str, Any],
) -> int:
    rows = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "from": list(look.replicas.get(name, ())),
            "to": list(replicas),
            "size_bytes": look.sizes.get(name),
        }
        for name, replicas in sorted(wanted.items())
    ]
    show(session.output, _COLUMNS, rows, "topic")
    if not wanted:
        say("nothing has to move")
        return 0
    if not wish["yes"]:
        say(f"nothing was moved; add --yes to move {count_text(len(rows), 'partition')}")
        return 0
    if wish["throttle"]:
        await set_throttle(admin, look.replicas, wanted, wish["throttle"])
    outcome = await admin.alter_partition_reassignments(wanted)
    code = outcome_code({str(name): error for name, error in outcome.items()})
    if wish["wait"]:
        await _until_done(admin, look)
        if wish["throttle"]:
            await unthrottle(admin)
    elif wish["throttle"]:
        say("the throttle stays until kaa cluster reassign --unthrottle")
    return code


# --- progress


async def _status(session: Session, admin: Admin) -> int:
    moving = await admin.list_partition_reassignments()
    held = await _held(admin) if moving else {}
    sizes = {name: max(held[name].values(), default=0) for name in held}
    rows = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "replicas": list(one.replicas),
            "adding": list(one.adding),
            "removing": list(one.removing),
            "copied_bytes": _copied(held.get(name, {}), one),
            "total_bytes": sizes.get(name, 0) * len(one.adding),
        }
        for name, one in sorted(moving.items())
    ]
    columns = ["topic", "partition", "replicas", "adding", "removing"]
    if not rows:
        say("nothing is on its way")
    show(session.output, [*columns, "copied_bytes", "total_bytes"], rows, "topic")
    return 0


async def _held(admin: Admin) -> dict[TopicPartition, dict[int, int]]:
    """Bytes of each replica, by partition and broker."""
    held: dict[TopicPartition, dict[int, int]] = {}
    for directory in await admin.describe_log_dirs():
        for replica in directory.replicas:
            if not replica.is_future:
                sizes = held.setdefault(replica.partition, {})
                sizes[directory.broker_id] = replica.size_bytes
    return held


def _copied(sizes: Mapping[int, int], one: Reassignment) -> int:
    return sum(sizes.get(broker, 0) for broker in one.adding)


async def _until_done(admin: Admin, look: _Look) -> None:
    import asyncio

    moving = await admin.list_partition_reassignments()
    total = sum(look.sizes.get(name, 0) * len(one.adding) for name, one in moving.items())
    done = 0
    with Progress("moving", "bytes", total) as progress:
        while moving:
            held = await _held(admin)
            left = sum(
                max(0, look.sizes.get(name, 0) * len(one.adding) - _copied(held.get(name, {}), one))
                for name, one in moving.items()
            )
            progress.advance(max(0, total - left - done))
            done = max(done, total - left)
            await asyncio.sleep(_POLL_SECONDS)
            moving = await admin.list_partition_reassignments()


async def _cancel(session: Session, admin: Admin, topics: Sequence[str], *, yes: bool) -> int:
    is_meant = matcher(topics, is_regex=False)
    moving = await admin.list_partition_reassignments()
    chosen = {name: one for name, one in moving.items() if is_meant(name.topic)}
    rows = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "from": list(one.replicas),
            "to": [broker for broker in one.replicas if broker not in one.adding],
            "size_bytes": None,
        }
        for name, one in sorted(chosen.items())
    ]
    show(session.output, _COLUMNS, rows, "topic")
    if not chosen:
        say("nothing is on its way")
        return 0
    if not yes:
        say("nothing was taken back; add --yes to do it")
        return 0
    outcome = await admin.alter_partition_reassignments(dict.fromkeys(chosen))
    return outcome_code({str(name): error for name, error in outcome.items()})
