"""`kaa topic tier`: how much of topics is in remote storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from kaa.cli.client import EXIT_PARTLY, client_options, run, say
from kaa.cli.command import TOPIC, Verb
from kaa.cli.output import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.tier.metadata.cache import RemoteLogCache
    from kaa.tier.metadata.model import TopicIdPartition

_EARLIEST, _LATEST, _EARLIEST_LOCAL, _LATEST_TIERED = -2, -1, -4, -5


class TierBounds(NamedTuple):
    """The offsets of a tiered log."""

    start: int
    local_start: int
    # The last offset in remote storage; -1 for none.
    tiered: int
    end: int


async def bounds_of(
    admin: Admin, partitions: list[TopicIdPartition]
) -> dict[TopicIdPartition, TierBounds]:
    """Where partitions start and end, on disk and in remote storage. Tells of those that cannot
    be asked, and leaves them out.
    """
    from kaa.cli.reading import offsets_at
    from kaa.model.topics import TopicPartition

    names = {TopicPartition(one.topic, one.partition): one for one in partitions}
    times = (_EARLIEST, _EARLIEST_LOCAL, _LATEST_TIERED, _LATEST)
    found = await offsets_at(admin, names, times)
    return {names[name]: TierBounds(*(each[name] for each in found)) for name in found[0]}


async def tiered_partitions(
    session: Session, admin: Admin, topics: tuple[str, ...]
) -> dict[TopicIdPartition, RemoteLogCache]:
    """The partitions of these topics with their remote segments."""
    from kaa.tier.metadata.listing import read_remote_logs
    from kaa.tier.metadata.model import TopicIdPartition

    wanted = []
    for name in topics:
        topic = await admin.describe_topic(name)
        wanted += [
            TopicIdPartition(topic.topic_id, name, one.partition) for one in topic.partitions
        ]
    return await read_remote_logs(admin, session.settings, wanted)


async def _local_bytes(admin: Admin) -> Mapping[tuple[str, int], int]:
    """What the largest replica of each partition takes on disk."""
    sizes: dict[tuple[str, int], int] = {}
    for directory in await admin.describe_log_dirs():
        for replica in directory.replicas:
            key = (replica.partition.topic, replica.partition.partition)
            sizes[key] = max(sizes.get(key, 0), replica.size_bytes)
    return sizes


@click.command(cls=Verb, name="tier")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", type=TOPIC)
@client_options
def tier(session: Session, topics: tuple[str, ...]) -> None:
    """Show what of topics is in remote storage, and what still has to go there.

    \b
    Examples:
      kaa topic tier orders
      kaa topic tier orders payments -o json
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.tier.verify import readable

        async with Admin(session.settings) as admin:
            found = await tiered_partitions(session, admin, topics)
            bounds = await bounds_of(admin, list(found))
            local = await _local_bytes(admin)
        rows = []
        for partition, offsets in bounds.items():
            cache = found[partition]
            segments = readable(cache)
            rows.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "start_offset": offsets.start,
                    "local_start_offset": offsets.local_start,
                    "tiered_offset": offsets.tiered,
                    "end_offset": offsets.end,
                    "segments": len(segments),
                    "remote_bytes": sum(one.size_bytes for one in segments),
                    "local_bytes": local.get((partition.topic, partition.partition), 0),
                    "lag": offsets.end - 1 - offsets.tiered,
                    "unfinished": len(cache) - len(segments),
                }
            )
        columns = [
            "topic",
            "partition",
            "segments",
            "remote_bytes",
            "local_bytes",
            "lag",
            "start_offset",
            "local_start_offset",
        ]
        show(session.output, columns, rows, wide=["tiered_offset", "end_offset", "unfinished"])
        if not any(row["segments"] for row in rows):
            say("none of it is in remote storage")
        return 0 if len(bounds) == len(found) else EXIT_PARTLY

    run(session, work)
