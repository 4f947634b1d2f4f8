"""`kaa cluster dirs`, `balance-dirs` and `kaa topic move`: which replica is on which disk.

A move copies a replica to another log directory of its broker, while clients go on; when the copy
has everything, it takes the replica's place (KIP-113). It goes on by itself, also after a restart
of the broker; `--watch` only looks on. All of it is Kafka's protocol, so that it works with any
Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import EXIT_NOT_FOUND, client_options, complain, outcome_code, run, say
from kaa.cli.command import TOPIC, ByteCount, Verb
from kaa.cli.directory_plan import balance
from kaa.cli.output import show, size_text
from kaa.cli.progress import Progress, duration_text
from kaa.model.words import count_text

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.client.admin.cluster import LogDir
    from kaa.model.topics import TopicPartition

_POLL_SECONDS = 0.5
_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_COLUMNS = [
    *("broker", "path", "state", "partitions", "size_bytes", "usable_bytes", "total_bytes"),
    *("moves", "moved_bytes", "moving_bytes", "bytes_per_second", "seconds_left"),
]
# What the errors mean for a move, of which Kafka says no more than the code.
_NEXT_STEPS = {
    "KAFKA_STORAGE_ERROR": (
        "a log directory of the broker is offline, see kaa cluster dirs: bring its disk back, or "
        "take it out of log.dirs, and restart the broker"
    ),
    "INVALID_REPLICA_ASSIGNMENT": (
        "the directory takes nothing new: take it out of cordoned.log.dirs of the broker"
    ),
}

_throttle_option = click.option(
    "--throttle", type=ByteCount(), metavar="BYTES", help="Copy at most this much per second: 50MB."
)

# A replica that moves: its broker and its partition.
_Key = tuple[int, "TopicPartition"]


@click.command(cls=Verb)
@client_options
def dirs(session: Session) -> None:
    """Show the log directories of the brokers, how full they are, and the moves to them.

    A move has copied MOVED-BYTES of MOVING-BYTES; rate and time left are of the last half second.

    \b
    Examples:
      kaa cluster dirs
      kaa cluster dirs -o json
    """

    async def work() -> None:
        import asyncio

        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = before = await admin.describe_log_dirs()
            if any(replica.is_future for one in found for replica in one.replicas):
                await asyncio.sleep(_POLL_SECONDS)
                found = await admin.describe_log_dirs()
        moved = {(one.broker_id, one.path): _moved_bytes(one) for one in before}
        sizes = _sizes(found)
        rows = [_row(one, sizes, moved.get((one.broker_id, one.path), 0)) for one in found]
        show(session.output, _COLUMNS, rows, "path")

    run(session, work)


def _row(one: LogDir, sizes: dict[_Key, int], moved_before: int) -> dict[str, Any]:
    coming = [replica for replica in one.replicas if replica.is_future]
    moved = _moved_bytes(one)
    moving = sum(sizes.get((one.broker_id, replica.partition), 0) for replica in coming)
    rate = max(0, int((moved - moved_before) / _POLL_SECONDS)) if coming else None
    state = "cordoned" if one.is_cordoned else "online"
    return {
        "broker": one.broker_id,
        "path": one.path,
        "state": one.error.name if one.error else state,
        "partitions": len(one.replicas) - len(coming),
        "size_bytes": sum(replica.size_bytes for replica in one.replicas),
        "usable_bytes": None if one.usable_bytes < 0 else one.usable_bytes,
        "total_bytes": None if one.total_bytes < 0 else one.total_bytes,
        "moves": len(coming),
        "moved_bytes": moved,
        "moving_bytes": moving,
        "bytes_per_second": rate,
        "seconds_left": max(0, moving - moved) // rate if rate else None,
    }


def _moved_bytes(one: LogDir) -> int:
    return sum(replica.size_bytes for replica in one.replicas if replica.is_future)


def _sizes(found: list[LogDir]) -> dict[_Key, int]:
    """The bytes of each replica where it is now."""
    return {
        (one.broker_id, replica.partition): replica.size_bytes
        for one in found
        for replica in one.replicas
        if not replica.is_future
    }


@click.command(cls=Verb)
@click.argument("name", metavar="TOPIC[:PARTITION]", type=TOPIC)
@click.option("--to", "path", metavar="DIR", help="The log directory to move to.")
@click.option(
    "--broker", type=int, help="Only on this broker.  [default: all that have the directory]"
)
@_throttle_option
@click.option("--cancel", is_flag=True, help="Cancel the moves under way.")
@click.option("--watch", is_flag=True, help="Wait until everything has moved, and show how far.")
@client_options
def move(session: Session, name: str, path: str | None, **wish: Any) -> None:
    """Move the replicas of a topic to another log directory of their brokers.

    The directory is named as the brokers name it, see kaa cluster dirs. A throttle is a setting of
    the brokers, and stays until it is changed.

    \b
    Examples:
      kaa topic move orders --to /disk2/kafka --watch
      kaa topic move orders:3 --to /disk2/kafka --throttle 50MB
      kaa topic move orders --cancel
    """
    if (path is None) != wish["cancel"]:
        raise click.UsageError("give --to DIR, or --cancel")
    if path is not None:
        path = path.rstrip("/")
    topic, colon, number = name.rpartition(":")
    if not colon or not number.isdecimal():
        topic, number = name, ""

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.describe_log_dirs()
            wanted = _wanted(found, topic, number, path, wish["broker"])
            if not wanted:
                complain(_nothing(found, name, path))
                return EXIT_NOT_FOUND
            begun, code = await _begin(admin, wanted, wish["throttle"])
            if begun and not wish["cancel"]:
                say(f"moving {count_text(len(begun), 'replica')} to {path}")
            if wish["watch"] and not wish["cancel"]:
                await _watch(admin, begun)
            return code

    run(session, work)


@click.command(cls=Verb, name="balance-dirs")
@click.option("--broker", type=int, help="Only on this broker.")
@_throttle_option
@click.option("--cancel", is_flag=True, help="Cancel all moves under way.")
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def balance_dirs(session: Session, **wish: Any) -> None:
    """Even out the bytes in the log directories of each broker.

    Shows which replicas would move; with --yes they do, and Ctrl-C takes back those that are still
    on their way.

    \b
    Examples:
      kaa cluster balance-dirs
      kaa cluster balance-dirs --throttle 50MB --yes
      kaa cluster balance-dirs --cancel
    """

    async def work() -> int:
        import asyncio

        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            broker = wish["broker"]
            found = await admin.describe_log_dirs(None if broker is None else [broker])
            if wish["cancel"]:
                return (await _begin(admin, _homes(found)))[1]
            for one in found:
                if one.error:
                    say(
                        f"broker {one.broker_id} is left out: its directory {one.path} is offline, "
                        "and it begins no moves until that is back or taken out of log.dirs"
                    )
            moves = balance(found)
            rows = [
                {
                    "broker": one.broker_id,
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "from": one.source,
                    "to": one.target,
                    "size_bytes": one.size_bytes,
                }
                for one in moves
            ]
            columns = ["broker", "topic", "partition", "from", "to", "size_bytes"]
            show(session.output, columns, rows, "topic")
            if not moves or not wish["yes"]:
                say("nothing was moved; add --yes to do it" if moves else "nothing to even out")
                return 0
            wanted = {(one.broker_id, one.partition): one.target for one in moves}
            begun, code = await _begin(admin, wanted, wish["throttle"])
            try:
                await _watch(admin, begun)
            except asyncio.CancelledError:
                homes = _homes(await admin.describe_log_dirs())
                await _begin(admin, {key: homes[key] for key in begun if key in homes})
                raise
            return code

    run(session, work)


async def _begin(
    admin: Admin, wanted: dict[_Key, str], rate: int | None = None
) -> tuple[dict[_Key, str], int]:
    """Asks the brokers; what was begun, and the exit code."""
    if rate:
        await _throttle(admin, {broker for broker, _ in wanted}, rate)
    outcome = await admin.alter_replica_log_dirs(wanted)
    failures = {f"{key[1]} on {key[0]}": error for key, error in outcome.items()}
    code = outcome_code(failures, next_steps=_NEXT_STEPS)
    return {key: wanted[key] for key, error in outcome.items() if error is None}, code


def _homes(found: list[LogDir]) -> dict[_Key, str]:
    """By replica that is on its way the directory it is in: to ask for that ends the move."""
    moving = {
        (one.broker_id, replica.partition)
        for one in found
        for replica in one.replicas
        if replica.is_future
    }
    return {
        key: one.path
        for one in found
        for replica in one.replicas
        if (key := (one.broker_id, replica.partition)) in moving and not replica.is_future
    }


def _nothing(found: list[LogDir], name: str, path: str | None) -> str:
    """Why there is nothing to move."""
    if path is None:
        return f"no replica of {name} is on its way; see kaa cluster dirs"
    if all(one.path != path for one in found):
        return f"no broker has the directory {path}; kaa cluster dirs shows them as they are named"
    return f"no replica of {name} is on a broker with the directory {path}; see kaa topic describe"


def _wanted(
    found: list[LogDir], topic: str, number: str, path: str | None, broker: int | None
) -> dict[_Key, str]:
    """By replica the directory to ask for: to cancel a move, the one in which the replica is."""
    has_path = {one.broker_id for one in found if one.path == path}
    homes = _homes(found)
    wanted: dict[_Key, str] = {}
    for one in found:
        for replica in one.replicas:
            key = (one.broker_id, replica.partition)
            if (
                replica.partition.topic != topic
                or (number and replica.partition.partition != int(number))
                or (broker is not None and one.broker_id != broker)
                or replica.is_future
            ):
                continue
            if path is None and key in homes:
                wanted[key] = one.path
            elif path is not None and one.broker_id in has_path:
                wanted[key] = path
    return wanted


async def _throttle(admin: Admin, brokers: set[int], rate: int) -> None:
    from kaa.client.admin.admin import ConfigChange, ResourceType

    for broker in sorted(brokers):
        changes = [ConfigChange(_RATE, str(rate))]
        await admin.alter_configs(ResourceType.BROKER, str(broker), changes)


async def _watch(admin: Admin, wanted: dict[_Key, str]) -> None:
    """Looks on until every replica is where it should be."""
    import asyncio

    loop = asyncio.get_running_loop()
    began = loop.time()
    total = None
    with Progress("moving", "bytes") as progress:
        while True:
            found = await admin.describe_log_dirs(sorted({broker for broker, _ in wanted}))
            sizes = _sizes(found)
            if total is None:
                total = progress.total = sum(sizes.get(key, 0) for key in wanted)
            arrived = {
                key: replica
                for one in found
                for replica in one.replicas
                if wanted.get(key := (one.broker_id, replica.partition)) == one.path
            }
            done = sum(arrived[key].size_bytes for key in wanted if key in arrived)
            progress.advance(max(0, done - progress.done))
            if all(key in arrived and not arrived[key].is_future for key in wanted):
                break
            if not arrived:
                say("the moves were given up; see the output of the broker")
                return
            await asyncio.sleep(_POLL_SECONDS)
    say(f"moved {size_text(total)} in {duration_text(loop.time() - began)}")
