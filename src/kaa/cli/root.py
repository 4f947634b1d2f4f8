"""The program ``kaa``: a table of its commands, each loaded when it is called.

The table holds the one line of help that ``kaa --help`` shows, so that help imports no command. A
test compares it with what the commands say of themselves.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click


class Entry(NamedTuple):
    """Where a command lives, and its line in the help."""

    module: str
    summary: str


COMMANDS = {
    "broker": Entry("kaa.cli.broker", "Run a node: a broker and its controller in one process."),
    "cluster": Entry("kaa.cli.cluster", "Show brokers, health, log directories and API versions."),
    "config": Entry(
        "kaa.cli.config", "Read and change the settings of topics, brokers and groups."
    ),
    "consume": Entry("kaa.cli.consume", "Read records of topics."),
    "doctor": Entry("kaa.cli.doctor", "Say what this installation has and what it lacks."),
    "perf": Entry("kaa.cli.perf", "Measure producing, consuming and the time in between."),
    "produce": Entry("kaa.cli.produce", "Write records to a topic."),
    "storage": Entry("kaa.cli.storage", "Format and inspect the log directories of a node."),
    "topic": Entry("kaa.cli.topic", "List, create, describe, change and delete topics."),
    "version": Entry("kaa.cli.version", "Print the versions of Kaa, Kafka and Python."),
}
"""Every command; the module of each defines one click command named ``command``."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        return load(entry) if entry else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])


def load(entry: Entry) -> click.Command:
    """Imports a command."""
    command = import_module(entry.module).command
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def root() -> None:
    """An Apache-Kafka-compatible event-streaming platform.

    \b
    Examples:
      kaa broker start     # a node for development on 127.0.0.1:9092
      kaa doctor           # what is installed, what is missing, how to get it
      kaa version -o json  # versions, for a program to read
    """
