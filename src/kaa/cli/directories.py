"""`kaa cluster dirs`, `balance-dirs` and `kaa topic move`: which replica is on which disk.

A move copies a replica to another log directory of its broker, while clients go on; when the copy
has everything, it takes the replica's place (KIP-113). It goes on by itself, also after a restart
of the broker; `--watch` only looks on. All of it is Kafka's protocol, so that it works with any
Kafka.
"""

from __future__ import annotations

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
)
from kaa.cli.command import TOPIC, ByteCount, Verb
from kaa.cli.directory_choice import (
    Replica,
    by_reason,
    choose,
    hidden_homes_of,
    homes_of,
    names_text,
    read_name,
    refusal,
    replicas_of,
)
from kaa.cli.directory_plan import balance, overfull
from kaa.cli.directory_rates import MoveRates, moved_bytes
from kaa.cli.output import show, size_text
from kaa.cli.partitions import refuse_absent
from kaa.cli.progress import Progress, duration_text
from kaa.model.words import count_text

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.cli.directory_choice import Choice
    from kaa.client.admin.admin import Admin
    from kaa.client.admin.cluster import LogDir

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
        "take it out of log.dirs, and restart the broker; if none is, it has too many open files"
    ),
    "INVALID_REPLICA_ASSIGNMENT": (
        "the directory takes nothing new: take it out of cordoned.log.dirs of the broker, or, if "
        "that is *, unset it"
    ),
}
# The same where a move is to be cancelled: that is, to the directory in which the replica is.
_NEXT_STEPS_OF_CANCELS = _NEXT_STEPS | {
    "INVALID_REPLICA_ASSIGNMENT": (
        "the directory that it moves away from is cordoned, and the move goes on: take it out of "
        "cordoned.log.dirs of the broker (if that is *, unset it), cancel again, and cordon it "
        "afterwards"
    ),
}

_throttle_option = click.option(
    "--throttle",
    type=ByteCount(f"lift the throttle: kaa config unset broker ID {_RATE}"),
    metavar="BYTES",
    help="Copy at most this much per second: 50MB.",
)


@click.command(cls=Verb)
@client_options
def dirs(session: Session) -> None:
    """Show the log directories of the brokers, how full they are, and the moves to them.

    A move has copied MOVED-BYTES of MOVING-BYTES. While replicas move, the command looks on for up
    to five seconds, to tell their rate and the time left.

    \b
    Examples:
      kaa cluster dirs
      kaa cluster dirs -o json
    """

    async def work() -> None:
        import asyncio

        from kaa.client.admin.admin import Admin

        rates, loop = MoveRates(), asyncio.get_running_loop()
        async with Admin(session.settings) as admin:
            found = await admin.describe_log_dirs()
            while rates.look(found, loop.time()):
                await asyncio.sleep(_POLL_SECONDS)
                found = await admin.describe_log_dirs()
        sizes = _sizes(found)
        rows = [_row(one, sizes, rates.bytes_per_second(one)) for one in found]
        show(session.output, _COLUMNS, rows, "path")

    run(session, work)


def _row(one: LogDir, sizes: dict[Replica, int], rate: int) -> dict[str, Any]:
    coming = [replica for replica in one.replicas if replica.is_future]
    moved = moved_bytes(one)
    moving = sum(sizes.get((one.broker_id, replica.partition), 0) for replica in coming)
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
        "bytes_per_second": rate if coming else None,
        "seconds_left": max(0, moving - moved) // rate if coming and rate else None,
    }


def _sizes(found: list[LogDir]) -> dict[Replica, int]:
    """The bytes of each replica where it is now."""
    return {
        (one.broker_id, replica.partition): replica.size_bytes
        for one in found
        for replica in one.replicas
        if not replica.is_future
    }


@click.command(cls=Verb)
@click.argument("name", metavar="TOPIC[:0,1]", type=TOPIC)
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

    The directory is named as the brokers name it, see kaa cluster dirs: a symbolic link by its own
    name. To cancel is to keep replicas where they are, as does a move to the directory in which
    they are; those that have arrived stay there. A throttle is a setting of the brokers, and stays
    until it is changed. Nothing moves to a disk that has no room for all of it. With --watch the
    exit code tells whether everything has moved; --timeout bounds each request, and not the wait.

    \b
    Examples:
      kaa topic move orders --to /disk2/kafka --watch
      kaa topic move orders:0,2-3 --to /disk2/kafka --throttle 50MB
      kaa topic move orders --cancel
    """
    if (path is None) != wish["cancel"]:
        raise click.UsageError("give --to DIR, or --cancel")
    if path is not None:
        path = path.rstrip("/") or "/"
    topic, numbers = read_name(name)

    async def work() -> int:
        import asyncio

        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            described = await admin.describe_topic(topic)
            refuse_absent(topic, numbers, len(described.partitions))
            replicas = replicas_of(described, numbers, wish["broker"])
            found = await admin.describe_log_dirs()
            reason = refusal(found, replicas, name, path, wish["broker"])
            if reason is not None:
                complain(reason)
                return EXIT_NOT_FOUND
            if path is None:
                return await _cancel_named(admin, found, replicas, name)
            choice = choose(found, replicas, path)
            if choice.lost:
                # One that changes its place may be missing in one look, but not in two.
                await asyncio.sleep(_POLL_SECONDS)
                found = await admin.describe_log_dirs()
                choice = choose(found, replicas, path)
            code = await _move(admin, found, choice, path, wish)
            return _lost_code(choice, code) if choice.lost else code

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
    on their way. No disk gets more than it has room for. --timeout bounds each request, and not the
    time for which the command waits for the moves.

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
                homes = homes_of(found)
                if not homes:
                    say("no replica is on its way; there is nothing to cancel")
                return await _cancel(admin, homes)
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
            try:
                begun, code = await _begin(admin, wanted, wish["throttle"])
                return await _watch(admin, begun, code) if begun else code
            except asyncio.CancelledError:
                homes = homes_of(await admin.describe_log_dirs())
                await _cancel(admin, {key: homes[key] for key in wanted if key in homes})
                raise

    run(session, work)


async def _move(
    admin: Admin, found: list[LogDir], choice: Choice, path: str, wish: dict[str, Any]
) -> int:
    """Begins what is to move, and says what became of each replica; the exit code."""
    asked = dict.fromkeys([*choice.moving, *choice.kept], path)
    if choice.there:
        rest = "" if asked else "; there is nothing to move"
        say(f"already in {path}: {names_text(choice.there)}{rest}")
    if not asked:
        return 0
    for one in (refused := overfull(found, asked)):
        complain(
            f"{size_text(one.coming_bytes)} do not fit in {one.path} of broker "
            f"{one.broker_id}, which has room for {size_text(one.room_bytes)}: move some "
            "of the partitions (TOPIC:PARTITION), or make room"
        )
    if refused:
        return EXIT_FAILED
    begun, code = await _begin(admin, asked, wish["throttle"])
    kept = [key for key in choice.kept if key in begun]
    if kept:
        ended = count_text(len(kept), "move")
        say(f"cancelled {ended} away from {path}: {names_text(kept)}")
    moving = {key: path for key in choice.moving if key in begun}
    if moving:
        say(f"moving {count_text(len(moving), 'replica')} to {path}")
    return await _watch(admin, moving, code) if moving and wish["watch"] else code


def _lost_code(choice: Choice, code: int) -> int:
    """Tells of the replicas without a log; the exit code, which is `code` for all others."""
    complain(
        f"cannot move {names_text(choice.lost)}: there is no log in any directory that is online; "
        "see the output of the broker, and kaa cluster dirs"
    )
    others = (*choice.moving, *choice.kept, *choice.there)
    return code or (EXIT_PARTLY if others else EXIT_FAILED)


async def _begin(
    admin: Admin, wanted: dict[Replica, str], rate: int | None = None
) -> tuple[dict[Replica, str], int]:
    """Asks the brokers; what was begun, and the exit code."""
    if rate:
        await _throttle(admin, {broker for broker, _ in wanted}, rate)
    outcome = await admin.alter_replica_log_dirs(wanted)
    code = outcome_code(by_reason(outcome), next_steps=_NEXT_STEPS)
    return {key: wanted[key] for key, error in outcome.items() if error is None}, code


async def _cancel_named(
    admin: Admin, found: list[LogDir], replicas: list[Replica], name: str
) -> int:
    homes = homes_of(found)
    moving = {key: homes[key] for key in replicas if key in homes}
    hidden = {} if moving else hidden_homes_of(found, replicas)
    if hidden:
        return await _keep(admin, hidden)
    if not moving:
        complain(f"no replica of {name} is on its way; see kaa cluster dirs")
        return EXIT_NOT_FOUND
    return await _cancel(admin, moving)


async def _keep(admin: Admin, homes: dict[Replica, str]) -> int:
    """Ends moves that nobody can see because the directory they go to is offline."""
    outcome = await admin.alter_replica_log_dirs(homes)
    kept = [key for key, error in outcome.items() if error is None]
    if kept:
        say(
            f"{names_text(kept)}: no move is shown, but a directory of the broker is offline; a "
            "move to that one does not go on when it is back"
        )
    return outcome_code(by_reason(outcome), next_steps=_NEXT_STEPS_OF_CANCELS)


async def _cancel(admin: Admin, homes: dict[Replica, str]) -> int:
    """Takes moves back, and says of how many, and of which that cannot be; the exit code."""
    outcome = await admin.alter_replica_log_dirs(homes)
    cancelled = [key for key, error in outcome.items() if error is None]
    if cancelled:
        say(f"cancelled {count_text(len(cancelled), 'move')}: the replicas stay where they are")
    return outcome_code(by_reason(outcome), next_steps=_NEXT_STEPS_OF_CANCELS)


async def _throttle(admin: Admin, brokers: set[int], rate: int) -> None:
    from kaa.client.admin.admin import ConfigChange, ResourceType

    for broker in sorted(brokers):
        changes = [ConfigChange(_RATE, str(rate))]
        await admin.alter_configs(ResourceType.BROKER, str(broker), changes)


async def _watch(admin: Admin, wanted: dict[Replica, str], code: int) -> int:
    """Looks on until every replica is where it should be, or its move was given up. The exit code,
    which is `code` if all have arrived.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    began = loop.time()
    left, missed, given_up = set(wanted), set[Replica](), set[Replica]()
    sizes: dict[Replica, int] = {}
    with Progress("moving", "bytes") as progress:
        while left:
            found = await admin.describe_log_dirs(sorted({broker for broker, _ in wanted}))
            sizes = _sizes(found)
            progress.total = progress.total or sum(sizes.get(key, 0) for key in wanted)
            arriving = {
                key: replica
                for one in found
                for replica in one.replicas
                if wanted.get(key := (one.broker_id, replica.partition)) == one.path
            }
            done = sum(replica.size_bytes for replica in arriving.values())
            progress.advance(max(0, done - progress.done))
            left -= {key for key, replica in arriving.items() if not replica.is_future}
            # The two may change places between two directories of one answer.
            absent = left - arriving.keys()
            given_up |= absent & missed
            left, missed = left - given_up, absent
            if left:
                await asyncio.sleep(_POLL_SECONDS)
    for broker, partition in sorted(given_up):
        complain(
            f"{partition} on broker {broker} did not move to {wanted[broker, partition]}: the move "
            "was cancelled, or a disk failed; see kaa cluster dirs and the output of the broker"
        )
    moved = wanted.keys() - given_up
    if moved:
        size = size_text(sum(sizes.get(key, 0) for key in moved))
        say(f"moved {size} in {duration_text(loop.time() - began)}")
    if not given_up:
        return code
    return EXIT_PARTLY if moved else EXIT_FAILED
