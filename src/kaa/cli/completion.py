"""``kaa completion``: scripts for shells; the words themselves come from the commands."""

from __future__ import annotations

import click

from kaa.cli.command import Verb

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Verb)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that completes words in a shell.

    Completes commands, options, and the names of topics, groups and profiles. These come from a
    cache of a minute, so that a cluster far away does not hold up the shell.

    \b
    Examples:
      kaa completion bash > ~/.local/share/bash-completion/completions/kaa
      kaa completion zsh > ~/.zfunc/_kaa
      kaa completion fish > ~/.config/fish/completions/kaa.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from kaa.cli.root import root

    found = get_completion_class(shell)
    assert found is not None
    # Past the class of bash, which runs bash to ask for its version.
    click.echo(ShellComplete.source(found(root, {}, "kaa", "_KAA_COMPLETE")))
