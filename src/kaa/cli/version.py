"""`kaa version`."""

from __future__ import annotations

import platform

import click

import kaa
from kaa.cli.client import local_options
from kaa.cli.command import Verb
from kaa.cli.output import show_one
from kaa.wire.version import KAFKA_VERSION


@click.command(cls=Verb)
@local_options
def command(output: str) -> None:
    """Print the versions of Kaa, Kafka and Python.

    \b
    Examples:
      kaa version
      kaa version -o json
    """
    show_one(output, versions(), "kaa", lambda: click.echo(version_text()))


def versions() -> dict[str, str]:
    """What is needed to reproduce a fault, by name."""
    return {
        "kaa": kaa.__version__,
        "kafka": KAFKA_VERSION,
        "python": platform.python_version(),
    }


def version_text() -> str:
    """The same in a line."""
    return "kaa {kaa} (speaks Kafka {kafka}, runs on Python {python})".format(**versions())
