"""``kaa cluster``: what a cluster is made of, and whether it is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import EXIT_UNHEALTHY, client_options, run
from kaa.cli.command import Noun
from kaa.cli.output import print_rows, show
from kaa.cli.record_format import iso_time

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.client.admin import Admin, LogDir


@click.group(cls=Noun, name="cluster")
def command() -> None:
    """Show brokers, health, quorum, features, directories and APIs.

    \b
    Examples:
      kaa cluster info
      kaa cluster health
    """


@command.command()
@client_options
def info(session: Session) -> None:
    """Show the id of the cluster and its brokers.

    \b
    Examples:
      kaa cluster info
      kaa cluster info -o json
    """

    async def work() -> None:
        from kaa.client.admin import Admin

        async with Admin(session.settings) as admin:
            cluster = await admin.describe_cluster()
        rows = [
            {"id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack}
            for one in cluster.brokers
        ]
        columns = ["id", "host", "port", "rack"]

        def text() -> None:
            click.echo(f"cluster {cluster.cluster_id}")
            print_rows(columns, rows)

        document = {"cluster_id": cluster.cluster_id, "brokers": rows}
        show(session.output, columns, rows, "id", document=document, text=text)

    run(session, work)


@command.command()
@client_options
def health(session: Session) -> None:
    """Say whether partitions have leaders and replicas, and directories work; exit code 7 if not.

    \b
    Examples:
      kaa cluster health && echo fine
      kaa cluster health -o json
    """

    async def work() -> int:
        from kaa.client.admin import Admin
        from kaa.client.metadata import NO_NODE

        async with Admin(session.settings) as admin:
            topics = await admin.list_topics(internal=True)
            dirs = await _log_dirs(admin)
        rows: list[dict[str, Any]] = [
            {
                "topic": topic.name,
                "partition": one.partition,
                "problem": "no leader" if one.leader_id == NO_NODE else "under-replicated",
                "replicas": list(one.replicas),
                "isr": list(one.isr),
            }
            for topic in topics
            for one in topic.partitions
            if one.leader_id == NO_NODE or len(one.isr) < len(one.replicas)
        ]
        rows += [
            {
                "topic": None,
                "partition": None,
                "problem": f"log directory {one.path} of broker {one.broker_id}: {one.error.name}",
                "replicas": [],
                "isr": [],
            }
            for one in dirs
            if one.error
        ]
        columns = ["topic", "partition", "problem", "replicas", "isr"]
        count = sum(len(topic.partitions) for topic in topics)

        def text() -> None:
            if rows:
                print_rows(columns, rows)
            else:
                click.echo(f"healthy: {count} partitions, each with a leader and all its replicas")

        document = {"healthy": not rows, "partitions": count, "problems": rows}
        show(session.output, columns, rows, "topic", document=document, text=text)
        return EXIT_UNHEALTHY if rows else 0

    run(session, work)


async def _log_dirs(admin: Admin) -> list[LogDir]:
    """The log directories, for those who may see them."""
    from kaa.client.errors import KafkaError
    from kaa.wire.errors import Errors

    try:
        return await admin.describe_log_dirs()
    except KafkaError as error:
        if error.error is Errors.CLUSTER_AUTHORIZATION_FAILED:
            return []
        raise


@command.command("api-versions")
@client_options
def api_versions(session: Session) -> None:
    """Show which versions of which APIs each broker serves.

    \b
    Examples:
      kaa cluster api-versions
      kaa cluster api-versions -o csv
    """

    async def work() -> None:
        from kaa.client.admin import Admin
        from kaa.wire.registry import ApiKey, api

        async with Admin(session.settings) as admin:
            versions = await admin.api_versions()
        known = {int(key) for key in ApiKey}
        rows = [
            {
                "broker": broker,
                "key": key,
                "name": api(key).name if key in known else None,
                "min": low,
                "max": high,
            }
            for broker, served in versions.items()
            for key, (low, high) in sorted(served.items())
        ]
        show(session.output, ["broker", "key", "name", "min", "max"], rows)

    run(session, work)


@command.command()
@client_options
def logdirs(session: Session) -> None:
    """Show the log directories of the brokers and what is in them.

    \b
    Examples:
      kaa cluster logdirs
    """

    async def work() -> None:
        from kaa.client.admin import Admin

        async with Admin(session.settings) as admin:
            dirs = await admin.describe_log_dirs()
        rows = [
            {
                "broker": one.broker_id,
                "path": one.path,
                "error": one.error.name if one.error else None,
                "replicas": len(one.replicas),
                "size_bytes": sum(replica.size_bytes for replica in one.replicas),
                "usable_bytes": None if one.usable_bytes < 0 else one.usable_bytes,
                "total_bytes": None if one.total_bytes < 0 else one.total_bytes,
            }
            for one in dirs
        ]
        show(session.output, list(rows[0]) if rows else ["broker", "path"], rows, "path")

    run(session, work)


@command.command()
@client_options
def quorum(session: Session) -> None:
    """Show the quorum of the metadata: its leader, voters, observers, and how far each is.

    \b
    Examples:
      kaa cluster quorum
      kaa cluster quorum -o json
    """

    async def work() -> None:
        from kaa.client.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.describe_quorum()
        end = max((one.log_end_offset for one in (*found.voters, *found.observers)), default=0)
        rows = [
            {
                "id": one.node_id,
                "role": _role(one.node_id == found.leader_id, is_voter=one in found.voters),
                "log_end_offset": one.log_end_offset,
                "lag": max(0, end - one.log_end_offset),
                "last_caught_up": _moment(one.last_caught_up_ms),
                "last_fetch": _moment(one.last_fetch_ms),
            }
            for one in (*found.voters, *found.observers)
        ]
        columns = ["id", "role", "log_end_offset", "lag", "last_caught_up"]
        facts = {
            "leader_id": found.leader_id,
            "leader_epoch": found.leader_epoch,
            "high_watermark": found.high_watermark,
        }

        def text() -> None:
            click.echo(
                f"leader {found.leader_id}, epoch {found.leader_epoch}, "
                f"high watermark {found.high_watermark}"
            )
            print_rows([*columns, "last_fetch"] if session.output == "wide" else columns, rows)

        document = facts | {"replicas": rows}
        wide = ["last_fetch"]
        show(session.output, columns, rows, "id", wide=wide, document=document, text=text)

    run(session, work)


def _role(is_leader: bool, *, is_voter: bool) -> str:
    if is_leader:
        return "leader"
    return "voter" if is_voter else "observer"


def _moment(timestamp_ms: int) -> str | None:
    return None if timestamp_ms < 0 else iso_time(timestamp_ms)


@command.command()
@client_options
def features(session: Session) -> None:
    """Show the features of the cluster: the level in use, and those that brokers could do.

    \b
    Examples:
      kaa cluster features
      kaa cluster features -o csv
    """

    async def work() -> None:
        from kaa.client.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.describe_features()
        rows = [
            {
                "name": one.name,
                "level": one.finalized,
                "lowest": one.supported_low,
                "highest": one.supported_high,
            }
            for one in found
        ]
        show(session.output, ["name", "level", "lowest", "highest"], rows)

    run(session, work)
