"""`kaa profile`: settings of clusters under names, one of which is in use."""

from __future__ import annotations

import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.client import (
    EXIT_NOT_FOUND,
    EXIT_USAGE,
    complain,
    local_options,
    pairs,
    read_properties,
    say,
)
from kaa.cli.command import PROFILE, Noun
from kaa.cli.output import show
from kaa.cli.profiles import (
    ProfileError,
    Profiles,
    check_name,
    hidden,
    profiles_path,
    read_profiles,
    unknown,
    write_profiles,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@click.group(cls=Noun, name="profile")
def command() -> None:
    """Keep the settings of clusters under names.

    One profile is in use; every command takes its settings unless told otherwise. Secrets need not
    be written down: ${env:NAME}, ${file:PATH} and ${command:WORDS} refer to them.

    \b
    Examples:
      kaa profile create work -b broker.example:9092 --use
      kaa profile list
      kaa topic list --profile work
    """


def tells_problems(function: Callable[..., Any]) -> Callable[..., Any]:
    """Problems with profiles are reported, never thrown."""

    @wraps(function)
    def wrapped(**arguments: Any) -> None:
        try:
            function(**arguments)
        except ProfileError as error:
            complain(str(error))
            sys.exit(EXIT_USAGE)

    return wrapped


def _find(name: str) -> Profiles:
    profiles = read_profiles()
    if name not in profiles.settings:
        complain(unknown(name, profiles))
        sys.exit(EXIT_NOT_FOUND)
    return profiles


@command.command("list")
@local_options
@tells_problems
def list_profiles(output: str) -> None:
    """List profiles; the one in use is marked.

    \b
    Examples:
      kaa profile list
      kaa profile list -o name
    """
    profiles = read_profiles()
    rows = [
        {
            "name": name,
            "current": name == profiles.current,
            "bootstrap_servers": settings.get("bootstrap.servers"),
            "settings": len(settings),
        }
        for name, settings in sorted(profiles.settings.items())
    ]
    show(output, ["name", "current", "bootstrap_servers"], rows, wide=["settings"])
    if not rows:
        say("there is no profile yet; kaa profile create NAME -b HOST:PORT makes one")


@command.command()
@click.argument("name")
@click.option(
    "-b",
    "--bootstrap-server",
    "servers",
    metavar="HOST:PORT,...",
    help="The brokers of the cluster.",
)
@click.option("-X", "properties", multiple=True, metavar="NAME=VALUE", help="A client property.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take over a client.properties.",
)
@click.option(
    "--use/--no-use", default=None, help="Use it from now on.  [default: if it is the only one]"
)
@click.option("--force", is_flag=True, help="Replace a profile of that name.")
@local_options
@tells_problems
def create(
    output: str,
    name: str,
    servers: str | None,
    properties: tuple[str, ...],
    from_file: Path | None,
    use: bool | None,
    force: bool,
) -> None:
    """Make a profile.

    \b
    Examples:
      kaa profile create local -b localhost:9092
      kaa profile create work --from-file client.properties --use
      kaa profile create cloud -b broker.example:9093 -X security.protocol=SSL
    """
    check_name(name)
    profiles = read_profiles()
    if name in profiles.settings and not force:
        complain(f"there is a profile {name!r} already; --force replaces it")
        sys.exit(EXIT_NOT_FOUND)
    settings = {} if from_file is None else read_properties(from_file)
    settings |= pairs(properties, "-X")
    if servers is not None:
        settings["bootstrap.servers"] = servers
    alone = not profiles.settings
    current = name if use or (use is None and alone) else profiles.current
    write_profiles(Profiles(current, profiles.settings | {name: settings}))
    _print(output, name, settings)
    say(f"profile {name} is in use" if current == name else f"kaa profile use {name} uses it")


def _print(output: str, name: str, settings: dict[str, str]) -> None:
    shown = {key: hidden(key, value) for key, value in sorted(settings.items())}
    rows = [{"name": key, "value": value} for key, value in shown.items()]
    show(output, ["name", "value"], rows, document={"name": name, "settings": shown})


@command.command()
@click.argument("name", type=PROFILE)
@tells_problems
def use(name: str) -> None:
    """Use a profile from now on.

    \b
    Examples:
      kaa profile use work
    """
    write_profiles(_find(name)._replace(current=name))
    say(f"profile {name} is in use")


@command.command()
@tells_problems
def clear() -> None:
    """Use no profile from now on.

    \b
    Examples:
      kaa profile clear
    """
    write_profiles(read_profiles()._replace(current=None))
    say("no profile is in use")


@command.command("print")
@click.argument("name", type=PROFILE, required=False)
@local_options
@tells_problems
def print_profile(output: str, name: str | None) -> None:
    """Show the settings of a profile, or of the one in use; secrets stay hidden.

    \b
    Examples:
      kaa profile print
      kaa profile print work -o yaml
    """
    wanted = read_profiles().current if name is None else name
    if wanted is None:
        complain("no profile is in use; kaa profile list shows those that there are")
        sys.exit(EXIT_NOT_FOUND)
    _print(output, wanted, _find(wanted).settings[wanted])


@command.command()
@click.argument("name", type=PROFILE)
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--unset", multiple=True, metavar="NAME", help="Remove a setting.")
@local_options
@tells_problems
def edit(output: str, name: str, settings: tuple[str, ...], unset: tuple[str, ...]) -> None:
    """Change settings of a profile; without any, open the file in your editor.

    \b
    Examples:
      kaa profile edit work bootstrap.servers=broker.example:9094
      kaa profile edit work --unset ssl.truststore.location
      kaa profile edit work
    """
    profiles = _find(name)
    if not settings and not unset:
        click.edit(filename=str(profiles_path()))
        read_profiles()
        return
    changed = profiles.settings[name] | pairs(settings, "setting")
    changed = {key: value for key, value in changed.items() if key not in unset}
    write_profiles(profiles._replace(settings=profiles.settings | {name: changed}))
    _print(output, name, changed)


@command.command()
@click.argument("name", type=PROFILE)
@click.argument("new_name")
@tells_problems
def rename(name: str, new_name: str) -> None:
    """Give a profile another name.

    \b
    Examples:
      kaa profile rename work office
    """
    check_name(new_name)
    profiles = _find(name)
    if new_name in profiles.settings:
        complain(f"there is a profile {new_name!r} already")
        sys.exit(EXIT_NOT_FOUND)
    renamed = {new_name if key == name else key: value for key, value in profiles.settings.items()}
    current = new_name if profiles.current == name else profiles.current
    write_profiles(Profiles(current, renamed))
    say(f"profile {name} is now {new_name}")


@command.command()
@click.argument("name", type=PROFILE)
@tells_problems
def delete(name: str) -> None:
    """Delete a profile.

    \b
    Examples:
      kaa profile delete work
    """
    profiles = _find(name)
    left = {key: value for key, value in profiles.settings.items() if key != name}
    write_profiles(Profiles(None if profiles.current == name else profiles.current, left))
    say(f"profile {name} is deleted")


@command.command()
@tells_problems
def prompt() -> None:
    """Print the name of the profile in use, for the prompt of a shell.

    \b
    Examples:
      kaa profile prompt
    """
    click.echo(read_profiles().current or "", nl=False)
