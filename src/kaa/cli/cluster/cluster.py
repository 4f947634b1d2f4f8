"""`kaa cluster`: what a cluster is made of, and whether it is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import EXIT_UNHEALTHY, client_options, run
from kaa.cli.cluster import nodes, quorum
from kaa.cli.cluster.reassign import drain, elect, reassign
from kaa.cli.cluster.replica_health import min_insync_replicas, problem_of
from kaa.cli.command import Noun
from kaa.cli.directories import balance_dirs, dirs
from kaa.cli.output import print_rows, show
from kaa.model.words import count_text

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.client.metadata import Broker


@click.group(cls=Noun, name="cluster")
def command() -> None:
    """Show brokers, health, quorum and features; move replicas and leaders.

    \b
    Examples:
      kaa cluster info
      kaa cluster health
      kaa cluster drain 3
    """


command.add_command(nodes.brokers)
command.add_command(nodes.controllers)
command.add_command(quorum.command)


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
        from kaa.client.admin.admin import Admin

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
    """Say whether partitions, brokers, directories and the quorum are well; exit code 7 if not.

    A partition may be offline (nobody leads it), under min ISR (no writes with acks=all) or
    under-replicated (a replica is not in sync).

    \b
    Examples:
      kaa cluster health && echo fine
      kaa cluster health -o json
    """

    async def work() -> int:
        import asyncio

        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            seconds = admin.values.get_int("default.api.timeout.ms") / 1000
            deadline = asyncio.get_running_loop().time() + seconds
            topics = await admin.list_topics(internal=True)
            # At once: each may take all the time there is while a part of the cluster is down.
            minima, broken, others = await asyncio.gather(
                min_insync_replicas(admin, topics),
                _broken_brokers(admin, deadline),
                _others(admin, deadline),
            )
        rows: list[dict[str, Any]] = [
            {
                "topic": topic.name,
                "partition": one.partition,
                "problem": problem,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
            }
            for topic in topics
            for one in topic.partitions
            if (problem := problem_of(one, minima.get(topic.name, 1)))
        ]
        rows += [
            {
                "topic": None,
                "partition": None,
                "problem": problem,
                "replicas": [],
                "isr": [],
            }
            for problem in broken
        ]
        rows += [
            {"topic": None, "partition": None, "problem": problem, "replicas": [], "isr": []}
            for problem in others
        ]
        columns = ["topic", "partition", "problem", "replicas", "isr"]
        count = sum(len(topic.partitions) for topic in topics)

        def text() -> None:
            if rows:
                print_rows(columns, rows)
            else:
                click.echo(
                    f"healthy: {count_text(count, 'partition')}, each with a leader "
                    "and all its replicas"
                )

        document = {"healthy": not rows, "partitions": count, "problems": rows}
        show(session.output, columns, rows, "topic", document=document, text=text)
        return EXIT_UNHEALTHY if rows else 0

    run(session, work)


async def _others(admin: Admin, deadline: float) -> list[str]:
    """What is wrong with brokers and controllers, for those who may see it."""
    import asyncio

    from kaa.client.errors import KafkaError, RequestTimeoutError
    from kaa.wire.errors import Errors

    cluster = await admin.describe_cluster(include_fenced=True)
    found = [f"broker {one.node_id} is fenced" for one in cluster.brokers if one.is_fenced]
    try:
        async with asyncio.timeout_at(deadline):
            return found + quorum.problems(await admin.describe_quorum())
    except (RequestTimeoutError, TimeoutError):
        return [*found, "the quorum has no leader: a majority of the controllers must run"]
    except KafkaError as error:
        if error.error in {Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.UNSUPPORTED_VERSION}:
            return found
        raise


async def _broken_brokers(admin: Admin, deadline: float) -> list[str]:
    """What is wrong with brokers and their log directories, for those who may see them."""
    import asyncio

    from kaa.client.errors import ClientError, KafkaError
    from kaa.wire.errors import Errors

    async def problems_of(broker: Broker) -> list[str]:
        try:
            async with asyncio.timeout_at(deadline):
                dirs = await admin.describe_log_dirs([broker.node_id])
        except KafkaError as error:
            if error.error is not Errors.CLUSTER_AUTHORIZATION_FAILED:
                raise
            return []
        except (ClientError, TimeoutError):
            # Still registered, since its session has not ended yet, or not reachable from here.
            return [f"broker {broker.node_id} at {broker.address} does not answer"]
        return [
            f"log directory {one.path} of broker {one.broker_id}: {one.error.name}"
            for one in dirs
            if one.error
        ]

    brokers = (await admin.describe_cluster()).brokers
    return [text for found in await asyncio.gather(*map(problems_of, brokers)) for text in found]


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
        from kaa.client.admin.admin import Admin
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
def features(session: Session) -> None:
    """Show the features of the cluster: the level in use, and those that brokers could do.

    \b
    Examples:
      kaa cluster features
      kaa cluster features -o csv
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

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


for verb in (dirs, balance_dirs, reassign, drain, elect):
    command.add_command(verb)
