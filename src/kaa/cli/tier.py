"""`kaa tier`: remote storage as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaa.cli.client import EXIT_PARTLY, EXIT_UNHEALTHY, client_options, pairs, run, say
from kaa.cli.command import TOPIC, Noun
from kaa.cli.output import show
from kaa.cli.tier_jobs import audit, convert
from kaa.cli.topic.tier import bounds_of, tiered_partitions
from kaa.model.words import count_text

if TYPE_CHECKING:
    from kaa.cli.client import Session


@click.group(cls=Noun, name="tier")
def command() -> None:
    """Compare remote storage with what the cluster says of it, and read it on Spark.

    \b
    Examples:
      kaa tier verify orders --store file:///var/tier
      kaa tier audit orders --store file:///var/tier
      kaa tier convert orders --store file:///var/tier
    """


@command.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", type=TOPIC)
@click.option("--store", "address", required=True, metavar="URL", help="As in rsm.config.url.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the store, as after rsm.config.",
)
@click.option("--deep", is_flag=True, help="Read every object and compare its checksum.")
@client_options
def verify(
    session: Session, topics: tuple[str, ...], address: str, options: tuple[str, ...], deep: bool
) -> None:
    """Compare metadata, objects and logs of topics, and change nothing.

    Ends with exit code 7 if something is missing, damaged or without metadata.

    \b
    Examples:
      kaa tier verify orders --store s3://bucket/tier --option region=eu-central-1
      kaa tier verify orders --store file:///var/tier --deep
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.tier.store.places import AddressError, open_store
        from kaa.tier.verify import verify as compare

        try:
            store = open_store(address, pairs(options, "--option"))
        except AddressError as error:
            raise click.ClickException(str(error)) from None
        async with Admin(session.settings) as admin:
            found = await tiered_partitions(session, admin, topics)
            bounds = await bounds_of(admin, list(found))
        rows = []
        for partition, (start, local_start, *_) in bounds.items():
            cache = found[partition]
            place = {"topic": partition.topic, "partition": partition.partition}
            findings = compare(
                store, partition, cache, start=start, local_start=local_start, deep=deep
            )
            rows += [place | finding._asdict() async for finding in findings]
        show(session.output, ["topic", "partition", "kind", "what"], rows)
        if rows:
            return EXIT_UNHEALTHY
        checked = count_text(sum(len(found[one]) for one in bounds), "remote segment")
        say(f"{checked} checked, no problem found")
        return 0 if len(bounds) == len(found) else EXIT_PARTLY

    run(session, work)


command.add_command(audit)
command.add_command(convert)
