"""The classes of all commands: nouns are groups of verbs, and verbs share options.

The options that every command about a cluster has are listed behind those of its own, so that the
first thing ``--help`` shows is what is special about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _StringType = click.ParamType[str]
else:
    # Only the newest releases of click have parameters of the class.
    _StringType = click.ParamType

SHARED_SECTION = "Connection and output"


class SharedOption(click.Option):
    """An option of every command about a cluster."""


class Verb(click.Command):
    """A command; its help shows options of its own first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # Arguments stand in the line of usage, and their help in the text.
            if record is not None and not isinstance(parameter, click.Argument):
                (shared if isinstance(parameter, SharedOption) else own).append(record)
        if own:
            with formatter.section("Options"):
                formatter.write_dl(own)
        if shared:
            with formatter.section(SHARED_SECTION):
                formatter.write_dl(shared)


class Noun(click.Group):
    """A group of verbs."""

    command_class = Verb


class Name(_StringType):
    """A name of something in the cluster, which the shell can complete."""

    name = "name"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem

        from kaa.cli.names import known_names

        found = known_names(self.kind, ctx.params)
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> None:
        """Nothing: the name of the parameter says more."""


TOPIC = Name("topic")
GROUP = Name("group")
TRANSACTIONAL_ID = Name("txn")
PROFILE = Name("profile")
PROPERTY = Name("property")
TOPIC_SETTING = Name("topic-setting")
