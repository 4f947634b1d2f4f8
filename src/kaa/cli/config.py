"""`kaa config`: settings of topics, brokers and groups, where they come from and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaa.cli.client import EXIT_NOT_FOUND, client_options, complain, pairs, run, say
from kaa.cli.command import Noun
from kaa.cli.output import show, show_one

if TYPE_CHECKING:
    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin, ConfigChange
    from kaa.model.kinds import ResourceType

_KIND = click.Choice(["topic", "broker", "group", "client-metrics"])
_ALL_BROKERS = "default"


@click.group(cls=Noun, name="config")
def command() -> None:
    """Read and change the settings of topics, brokers and groups.

    \b
    Examples:
      kaa config describe topic orders
      kaa config set topic orders retention.ms=86400000
    """


def resource_name(kind: str, name: str) -> str:
    """The name on the wire: `default` stands for all brokers, whose name is empty."""
    if kind != "broker":
        return name
    if name != _ALL_BROKERS and not name.isdecimal():
        raise click.UsageError("a broker is named by its id, or 'default' for all of them")
    return "" if name == _ALL_BROKERS else name


async def _check_broker(admin: Admin, resource: ResourceType, name: str) -> None:
    """Raises KafkaError if the cluster has no broker of this id.

    Asked first: a client waits for a broker that it does not know to come back.
    """
    from kaa.client.errors import KafkaError
    from kaa.model.kinds import ResourceType
    from kaa.wire.errors import Errors

    if resource is not ResourceType.BROKER or not name:
        return
    found = [int(one.node_id) for one in (await admin.describe_cluster()).brokers]
    if int(name) not in found:
        raise KafkaError(
            Errors.BROKER_ID_NOT_REGISTERED,
            f"broker {name}",
            message=f"the brokers of the cluster are {', '.join(map(str, found))}",
        )


@command.command()
@click.argument("kind", type=_KIND)
@click.argument("name")
@click.option("--all", "all_of_them", is_flag=True, help="Also those that have their default.")
@click.option("--docs", is_flag=True, help="Also what each setting does.")
@client_options
def describe(session: Session, kind: str, name: str, all_of_them: bool, docs: bool) -> None:
    """Show settings, their values and where they come from.

    \b
    Examples:
      kaa config describe topic orders
      kaa config describe broker 1 --all --docs
    """
    target = resource_name(kind, name)

    async def work() -> None:
        from kaa.client.admin.admin import Admin, ConfigSource
        from kaa.model.kinds import ResourceType

        resource = ResourceType[kind.upper().replace("-", "_")]
        async with Admin(session.settings) as admin:
            await _check_broker(admin, resource, target)
            entries = await admin.describe_configs(resource, target, documentation=docs)
        rows = [
            {
                "name": entry.name,
                "value": "[hidden]" if entry.is_sensitive else entry.value,
                "source": entry.source.name.lower(),
                "read_only": entry.is_read_only,
                "documentation": entry.documentation,
            }
            for entry in entries
            if all_of_them or entry.source is not ConfigSource.DEFAULT_CONFIG
        ]
        columns = ["name", "value", "source", *(["documentation"] if docs else [])]
        show(session.output, columns, rows, wide=["read_only"])
        if not rows:
            say(f"{kind} {name} has defaults only; --all shows them")

    run(session, work)


@command.command()
@click.argument("kind", type=_KIND)
@click.argument("name")
@click.argument("setting")
@client_options
def get(session: Session, kind: str, name: str, setting: str) -> None:
    """Print the value of one setting.

    \b
    Examples:
      kaa config get topic orders retention.ms
    """
    target = resource_name(kind, name)

    async def work() -> int:
        from kaa.client.admin.admin import Admin
        from kaa.model.kinds import ResourceType

        resource = ResourceType[kind.upper().replace("-", "_")]
        async with Admin(session.settings) as admin:
            await _check_broker(admin, resource, target)
            entries = await admin.describe_configs(resource, target, [setting])
        if not entries:
            complain(f"{kind} {name} has no setting {setting}")
            return EXIT_NOT_FOUND
        (entry,) = entries
        row = {"name": setting, "value": entry.value, "source": entry.source.name.lower()}
        show_one(session.output, row, "value", lambda: click.echo(entry.value or ""))
        return 0

    run(session, work)


@command.command("set")
@click.argument("kind", type=_KIND)
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it and change nothing.")
@client_options
def set_settings(
    session: Session, kind: str, name: str, settings: tuple[str, ...], dry_run: bool
) -> None:
    """Set settings; others stay as they are.

    \b
    Examples:
      kaa config set topic orders retention.ms=86400000 cleanup.policy=compact
      kaa config set broker default log.cleaner.threads=2
    """
    from kaa.client.admin.admin import ConfigChange

    changes = [ConfigChange(*pair) for pair in pairs(settings, "setting").items()]
    _change(session, kind, name, changes, dry_run)


@command.command()
@click.argument("kind", type=_KIND)
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="NAME...")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it and change nothing.")
@client_options
def unset(session: Session, kind: str, name: str, settings: tuple[str, ...], dry_run: bool) -> None:
    """Take settings back, so that their defaults hold again.

    \b
    Examples:
      kaa config unset topic orders retention.ms
    """
    from kaa.client.admin.admin import ConfigChange, ConfigOperation

    changes = [ConfigChange(setting, None, ConfigOperation.DELETE) for setting in settings]
    _change(session, kind, name, changes, dry_run)


def _change(
    session: Session, kind: str, name: str, changes: list[ConfigChange], dry_run: bool
) -> None:
    target = resource_name(kind, name)

    async def work() -> None:
        from kaa.client.admin.admin import Admin
        from kaa.model.kinds import ResourceType

        resource = ResourceType[kind.upper().replace("-", "_")]
        async with Admin(session.settings) as admin:
            await _check_broker(admin, resource, target)
            await admin.alter_configs(resource, target, changes, validate_only=dry_run)
        rows = [
            {
                "name": change.name,
                "value": change.value,
                "status": f"{'would be ' * dry_run}{'unset' if change.value is None else 'set'}",
            }
            for change in changes
        ]
        show(session.output, ["name", "value", "status"], rows)

    run(session, work)
