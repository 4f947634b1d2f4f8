"""`kaa doctor migrate`: what a node of Apache Kafka would miss as Kaa.

A `server.properties` is read as the node would read it, and every setting that Kaa lacks or treats
otherwise gets a line. With `--features` the cluster is asked too: features that it has agreed on,
and that Kaa does not serve, have to be lowered before the first node changes.

| state | meaning |
|---|---|
| refused | Kaa does not start with it, since ignoring it would weaken safety or change data |
| lower | a feature of the cluster that must be lowered first; the line has the command |
| missing | of a part that Kaa does not have yet; it has no effect |
| ignored | tunes Kafka's threads, JVM or plug-ins, which Kaa does not have; nothing is lost |
| removed | dropped by Kafka before the version that Kaa follows; delete it |
| unknown | no setting of Kafka; it has no effect there either |

Only `refused` and `lower` stand in the way, and make the command fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from kaa.cli.client import EXIT_UNHEALTHY, client_options, run, say
from kaa.cli.command import Verb
from kaa.cli.output import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaa.cli.client import Session


class Difference(NamedTuple):
    """One line of the report."""

    name: str
    state: str
    detail: str


BLOCKING: Final = frozenset({"refused", "lower"})
# By feature: what must be served for its first level, by the name of a request.
_SERVED_BY: Final = {
    "share.version": "SHARE_FETCH",
    "streams.version": "STREAMS_GROUP_HEARTBEAT",
}


def settings_differences(path: Path) -> Iterator[Difference]:
    """What of a `server.properties` is otherwise in Kaa, what stands in the way first."""
    from kaa.config.definition import InvalidConfigError
    from kaa.config.server import classify, hint_for_unknown, load_broker_config
    from kaa.config.sources import file_settings

    settings = file_settings(path.read_bytes(), path.name)
    try:
        load_broker_config(settings)
    except InvalidConfigError as error:
        for problem in error.problems:
            yield Difference(problem.name, "refused", problem.message)
    unknown, removed, ineffective, missing = classify(settings)
    for name in missing:
        yield Difference(name, "missing", "of a part that Kaa does not have yet; it has no effect")
    for name in ineffective:
        yield Difference(name, "ignored", "tunes what Kaa does not have; nothing is lost")
    for name in removed:
        yield Difference(name, "removed", "Kafka has dropped it; delete it")
    for name in unknown:
        hint = hint_for_unknown(name).strip()
        yield Difference(name, "unknown", hint or "neither Kafka nor Kaa has it")


def feature_differences(finalized: Mapping[str, int], servers: str) -> Iterator[Difference]:
    """Features that the cluster has agreed on, and that Kaa does not serve at this level."""
    from kaa.controller.feature_table import supported_ranges
    from kaa.handlers.registry import BROKER_APIS

    served = {key.name for key in BROKER_APIS}
    ranges = supported_ranges()
    for name, level in finalized.items():
        highest = ranges.get(name, (0, 0))[1]
        if name in _SERVED_BY and _SERVED_BY[name] not in served:
            highest = 0
        if level > highest:
            command = "disable" if highest == 0 else "downgrade"
            wanted = name if highest == 0 else f"{name}={highest}"
            yield Difference(
                name,
                "lower",
                f"the cluster is at level {level}, Kaa serves up to {highest}; first run "
                f"kafka-features.sh --bootstrap-server {servers} {command} --feature {wanted}",
            )


@click.command(cls=Verb)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--features", is_flag=True, help="Ask the cluster for its features too.")
@client_options
def migrate(session: Session, file: Path, features: bool) -> None:
    """Say what a node of Apache Kafka with this server.properties would miss as Kaa.

    Exit code 7 if something has to be changed first.

    \b
    Examples:
      kaa doctor migrate /etc/kafka/server.properties
      kaa doctor migrate server.properties --features -b localhost:9092
    """

    async def work() -> int:
        found = list(settings_differences(file))
        if features:
            from kaa.client.admin.admin import Admin

            async with Admin(session.settings) as admin:
                finalized = {one.name: one.finalized for one in await admin.describe_features()}
            found += feature_differences(finalized, session.settings["bootstrap.servers"])
        else:
            say("the features of the cluster were not looked at; add --features")
        if not found:
            say("nothing is otherwise in Kaa")
        show(session.output, list(Difference._fields), [one._asdict() for one in found])
        return EXIT_UNHEALTHY if any(one.state in BLOCKING for one in found) else 0

    run(session, work)
