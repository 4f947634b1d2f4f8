"""``kaa version``."""

from __future__ import annotations

import platform

import click

import kaa
from kaa.cli.output import output_option, print_json
from kaa.wire.version import KAFKA_VERSION


@click.command()
@output_option
def command(output: str) -> None:
    """Print the versions of Kaa, Kafka and Python.

    \b
    Examples:
      kaa version
      kaa version -o json
    """
    versions = {
        "kaa": kaa.__version__,
        "kafka": KAFKA_VERSION,
        "python": platform.python_version(),
    }
    if output == "json":
        print_json(versions)
    else:
        click.echo("kaa {kaa} (speaks Kafka {kafka}, runs on Python {python})".format(**versions))
