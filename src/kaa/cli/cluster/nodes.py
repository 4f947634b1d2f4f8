"""`kaa cluster brokers` and `controllers`: the nodes of a cluster by what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaa.cli.client import client_options, run
from kaa.cli.cluster.quorum import directory_text, lag, role
from kaa.cli.command import Verb
from kaa.cli.output import show

if TYPE_CHECKING:
    from kaa.cli.client import Session


@click.command(cls=Verb)
@client_options
def brokers(session: Session) -> None:
    """Show the brokers with their roles, and those that are fenced.

    A fenced broker is registered and does not serve: it starts, stops, or was lost.

    \b
    Examples:
      kaa cluster brokers
      kaa cluster brokers -o json
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            cluster = await admin.describe_cluster(include_fenced=True)
            quorum = await admin.describe_quorum()
        voters = {one.node_id for one in quorum.voters}
        rows = [
            {
                "id": one.node_id,
                "host": one.host,
                "port": one.port,
                "rack": one.rack,
                "roles": ["broker", "controller"] if one.node_id in voters else ["broker"],
                "state": "fenced" if one.is_fenced else "active",
            }
            for one in cluster.brokers
        ]
        show(session.output, ["id", "host", "port", "rack", "roles", "state"], rows, "id")

    run(session, work)


@click.command(cls=Verb)
@client_options
def controllers(session: Session) -> None:
    """Show the controllers that vote, with their endpoints and directories.

    Those that follow without a vote are among the observers of kaa cluster quorum.

    \b
    Examples:
      kaa cluster controllers
      kaa cluster controllers -o json
    """

    async def work() -> None:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            cluster = await admin.describe_cluster(include_fenced=True)
            quorum = await admin.describe_quorum()
        brokers = {one.node_id for one in cluster.brokers}
        rows = [
            {
                "id": one.node_id,
                "role": role(quorum, one),
                "endpoints": [str(endpoint) for endpoint in one.endpoints],
                "directory_id": directory_text(one.directory_id),
                "lag": lag(quorum, one),
                "roles": ["broker", "controller"] if one.node_id in brokers else ["controller"],
            }
            for one in quorum.voters
        ]
        columns = ["id", "role", "endpoints", "directory_id", "lag", "roles"]
        show(session.output, columns, rows, "id")

    run(session, work)
