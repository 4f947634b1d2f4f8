"""`kaa completion`: scripts for shells.

A script holds every command and option as a table, so that a shell completes them without starting
this program: at once, however busy the machine is. Only what the table cannot hold (names of
topics, groups, profiles and settings, files, values of options) is asked of the program, which
answers from a cache (`names`).

The table has a line for each *place*: the words of a command, such as `kaa topic list`. The
script walks along the line that is typed; a word that leads to a further place goes there, all
others (options, their values, names) stay. At a place of a noun the verbs are completed, at a word
that begins with a dash the options, and else the program is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from kaa.cli.command import Verb
from kaa.cli.completion_scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELLS = tuple(SCRIPTS)


class CompletionPlace(NamedTuple):
    """What can stand after the words of a command; each word with its line of help."""

    words: str
    verbs: dict[str, str]
    options: dict[str, str]


@click.command(cls=Verb)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that completes words in a shell.

    Completes commands and options at once, from the script itself, and the names of topics, groups,
    profiles and settings by asking this program. Names of a cluster come from a cache of a minute,
    so that one far away does not hold up the shell. Print the script again after an update.

    \b
    Examples:
      kaa completion bash > ~/.local/share/bash-completion/completions/kaa
      kaa completion zsh > ~/.zfunc/_kaa
      kaa completion fish > ~/.config/fish/completions/kaa.fish
    """
    from kaa.cli.root import root

    click.echo(SCRIPTS[shell](list(places(root, "kaa"))), nl=False)


def places(at: click.Command, words: str) -> Iterator[CompletionPlace]:
    """A command and all below it."""
    context = click.Context(at, info_name=words)
    options: dict[str, str] = {}
    for parameter in at.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names = [*parameter.opts, *parameter.secondary_opts]
            options |= dict.fromkeys(names, _line(parameter.help))
    below: dict[str, click.Command] = {}
    if isinstance(at, click.Group):
        for name in at.list_commands(context):
            found = at.get_command(context, name)
            assert found is not None
            below[name] = found
    verbs = {name: _line(one.get_short_help_str(limit=100)) for name, one in below.items()}
    yield CompletionPlace(words, verbs, options)
    for name, one in below.items():
        yield from places(one, f"{words} {name}")


def _line(text: str | None) -> str:
    """Help in one line that no shell takes for anything else."""
    line = " ".join((text or "").split())
    return "".join(letter for letter in line if letter not in "'\"`$\\")
