"""The program `kaa`: a table of its commands, each loaded when it is called.

The table holds the one line of help that `kaa --help` shows, so that help imports no command. A
test compares it with what the commands say of themselves.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click

from kaa.cli.command import Suggesting
from kaa.cli.standard_streams import OutputError

VERBOSE_KEY = "kaa.verbose"
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class Entry(NamedTuple):
    """Where a command lives, and its line in the help."""

    module: str
    summary: str


COMMANDS = {
    "broker": Entry("kaa.cli.broker", "Run a node: a broker and its controller in one process."),
    "cluster": Entry(
        "kaa.cli.cluster.cluster",
        "Show brokers, health, quorum and features; move replicas and leaders.",
    ),
    "completion": Entry("kaa.cli.completion", "Print the script that completes words in a shell."),
    "config": Entry(
        "kaa.cli.config", "Read and change the settings of topics, brokers and groups."
    ),
    "consume": Entry("kaa.cli.consume", "Read records of topics."),
    "debug": Entry("kaa.cli.debug", "Look into files and frames: segments, indexes, snapshots."),
    "dev": Entry(
        "kaa.cli.dev", "Run a playground: a broker, sample topics, and records that keep coming."
    ),
    "doctor": Entry("kaa.cli.doctor", "Say what this installation has and what it lacks."),
    "group": Entry(
        "kaa.cli.group.group",
        "List, describe, move, watch and delete groups: classic, consumer, share and streams.",
    ),
    "host": Entry(
        "kaa.cli.host", "Run several brokers on this machine from one server.properties."
    ),
    "lake": Entry("kaa.cli.lake", "Keep tables of topics: Iceberg, or folders of Parquet files."),
    "offsets": Entry(
        "kaa.cli.offsets",
        "Show the offsets of topics: the first, the end, and the first at or after a time.",
    ),
    "perf": Entry("kaa.cli.perf", "Measure producing, consuming and the time in between."),
    "pipeline": Entry(
        "kaa.cli.pipeline", "Check, run and watch pipelines of topics, steps and tables."
    ),
    "produce": Entry("kaa.cli.produce", "Write records to a topic."),
    "profile": Entry("kaa.cli.profile", "Keep the settings of clusters under names."),
    "share": Entry("kaa.cli.share", "List, describe, move and delete share groups."),
    "storage": Entry("kaa.cli.storage", "Format and inspect the log directories of a node."),
    "tail": Entry("kaa.cli.tail", "Watch records of topics as they arrive."),
    "tier": Entry(
        "kaa.cli.tier",
        "Compare remote storage with what the cluster says of it, and read it on Spark.",
    ),
    "topic": Entry("kaa.cli.topic.topic", "List, create, describe, change and delete topics."),
    "txn": Entry("kaa.cli.txn", "List, describe and abort transactions, and find those that hang."),
    "version": Entry("kaa.cli.version", "Print the versions of Kaa, Kafka and Python."),
}
"""Every command; the module of each defines one click command named `command`."""


class LazyGroup(Suggesting):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        return load(entry) if entry else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Completes from the table, without the import of every command."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *arguments: Any, **more: Any) -> Any:
        """Runs the program; what cannot be written to standard output is an error like others."""
        try:
            return super().main(*arguments, **more)
        except OutputError as error:
            from kaa.cli.client import complain, pacify_output

            complain(f"cannot write to standard output: {error.strerror}")
            pacify_output()
            sys.exit(EXIT_FAILED)

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """Reads the words; `--help` and `--version` print here already."""
        try:
            return super().make_context(*arguments, **more)
        except BrokenPipeError:
            _end_without_a_reader()

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; nobody sees a traceback who has not asked for it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            _end_without_a_reader()
        except (click.ClickException, click.exceptions.Exit, click.Abort, OutputError):
            raise
        except Exception as error:
            if ctx.meta.get(VERBOSE_KEY):
                raise
            from kaa.cli.client import complain
            from kaa.cli.extras import missing_text

            missing = missing_text(error) if isinstance(error, ImportError) else None
            if missing is not None:
                complain(missing)
                sys.exit(EXIT_FAILED)
            complain(f"{type(error).__name__}: {error}")
            click.echo("  next         run it again with -v to see where it happened", err=True)
            sys.exit(EXIT_FAILED)


def _end_without_a_reader() -> NoReturn:
    from kaa.cli.client import pacify_output

    pacify_output()
    sys.exit(EXIT_BROKEN_PIPE)


def load(entry: Entry) -> click.Command:
    """Imports a command."""
    command = import_module(entry.module).command
    assert isinstance(command, click.Command)
    return command


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _print_version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from kaa.cli.version import version_text

        click.echo(version_text())
        context.exit()


@click.group(cls=LazyGroup, context_settings=_CONTEXT)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the versions of Kaa, Kafka and Python.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show where an error came from.")
@click.pass_context
def root(context: click.Context, verbose: bool) -> None:
    """An Apache-Kafka-compatible event-streaming platform.

    \b
    Examples:
      kaa dev              # a playground: a broker with topics, records and a group
      kaa broker start     # a node for development on 127.0.0.1:9092
      kaa doctor           # what is installed, what is missing, how to get it
      kaa version -o json  # versions, for a program to read
    """
    if verbose:
        context.meta[VERBOSE_KEY] = True
