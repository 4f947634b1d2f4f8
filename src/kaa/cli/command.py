"""The classes of all commands: nouns are groups of verbs, and verbs share options.

The options that every command about a cluster has are listed after those of its own, so that the
first thing `--help` shows is what is special about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    StringType = click.ParamType[str]
    NumberType = click.ParamType[int]
else:
    # Only the newest releases of click have parameters of the class.
    StringType = NumberType = click.ParamType

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


class Suggesting(click.Group):
    """A group that says which of its commands may have been meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in _shared_names():
                raise
            name = error.option_name
            raise click.UsageError(
                f"{name} goes after the command: {ctx.command_path} COMMAND ... {name} ...", ctx
            ) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        is_unknown = not word.startswith("-") and self.get_command(ctx, word) is None
        if is_unknown and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(word, self.list_commands(ctx), 3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command '{word}'.{meant}")
        return super().resolve_command(ctx, args)


def _shared_names() -> set[str]:
    """The options that every command about a cluster has."""
    from kaa.cli.client import client_options

    options = client_options(lambda **_: None).__click_params__  # type: ignore[attr-defined]
    return {name for option in options for name in option.opts}


class Noun(Suggesting):
    """A group of verbs."""

    command_class = Verb


class ByteCount(NumberType):
    """A number of bytes, as 50000000, 50MB (of 1000) or 50MiB (of 1024), and never 0: `otherwise`
    says what to do for what may have been meant by that.
    """

    name = "bytes"

    def __init__(self, otherwise: str | None = None) -> None:
        self._otherwise = otherwise

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        unit = text.lstrip("0123456789.").strip()
        factor = _BYTE_UNITS.get(unit.lower())
        try:
            number = float(text.removesuffix(unit)) if factor else None
        except ValueError:
            number = None
        if factor is None or number is None:
            text = f"{value!r} is not a number of bytes; write 50000000, 50MB or 50MiB"
            self.fail(text, param, ctx)
        count = int(number * factor)
        if count < 1:
            step = f", or {self._otherwise}" if self._otherwise else ""
            text = f"{value!r} is less than one byte; write 50000000, 50MB or 50MiB{step}"
            self.fail(text, param, ctx)
        return count


_BYTE_UNITS = {"": 1, "b": 1} | {
    prefix + infix + suffix: base**power
    for power, prefix in enumerate("kmgt", 1)
    for infix, base in (("", 1000), ("i", 1024))
    for suffix in ("", "b")
}


class Name(StringType):
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
