"""`kaa host`: every core of a machine, as several brokers from one `server.properties`.

One broker uses one core. A host runs the configured node as it is, and beside it brokers that are
derived from the same file; clients spread over them by leaders of partitions, as over any brokers:

| of the file | broker number k of the host (k = 1, 2, ...) |
|---|---|
| `process.roles` | `broker`: only the configured node votes |
| `node.id` | + 1,000 x k |
| ports of `listeners` and `advertised.listeners` | + k; listeners of controllers are left out |
| each of `log.dirs` | the same with `-` and the node id appended, on the same disk |
| `broker.rack` | if it is not set, the name of the machine, for all brokers of the host |

Because of the rack, replicas of a partition go to other hosts, where there are others. The first
start formats the directories of the derived brokers with the cluster id of the configured node,
which has to be formatted.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import click

from kaa.cli.broker import EXIT_FAILED, load_config, say
from kaa.cli.command import Noun
from kaa.limits import CLI_BROKERS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.config.server import BrokerConfig
    from kaa.model.nodes import Endpoint

NODE_ID_DISTANCE: Final = 1_000


class HostNode(NamedTuple):
    """One node of a host: the file, and what differs from it."""

    node_id: int
    address: str
    config_file: Path
    overrides: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        words = [word for override in self.overrides for word in ("--override", override)]
        return ["broker", "start", str(self.config_file), *words]


@click.group(cls=Noun, name="host")
def command() -> None:
    """Run several brokers on this machine from one server.properties.

    \b
    Examples:
      kaa host start server.properties --brokers 4
    """


@command.command()
@click.argument("config_file", type=click.Path(path_type=Path))
@click.option(
    "--brokers",
    type=click.IntRange(1, CLI_BROKERS_MAX),
    default=lambda: os.cpu_count() or 1,
    show_default="as many as there are cores",
    help="How many brokers the host runs.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set or replace a setting of every node; may be given many times.",
)
def start(config_file: Path, brokers: int, overrides: tuple[str, ...]) -> None:
    """Start the nodes and keep them running until stopped.

    A node that ends by itself is started again, after a pause that doubles while it keeps failing.
    SIGHUP restarts one node after the other.

    \b
    Examples:
      kaa host start server.properties
      kaa host start server.properties --brokers 2
      kill -HUP $(pgrep -f 'kaa host start')
    """
    from kaa.cli.supervisor import OnExit, Supervisor, told_failures

    config = load_config(config_file, overrides, Path()).config
    nodes = plan_host(config_file, config, brokers, overrides, socket.gethostname())
    with told_failures():
        format_host(config, nodes)

    async def run() -> int:
        return await Supervisor(nodes, OnExit.RESTART).run()

    sys.exit(asyncio.run(run()))


def plan_host(
    config_file: Path,
    config: BrokerConfig,
    count: int,
    overrides: Sequence[str],
    host_name: str,
) -> list[HostNode]:
    """The configured node and those derived from it."""
    if "broker" not in config.get_list("process.roles"):
        _refuse("a host runs brokers, but process.roles has none; start this node by itself")
    if any(endpoint.port == 0 for endpoint in config.listeners.broker):
        _refuse("brokers of a host count their ports from those of listeners; 0 is none")
    common = tuple(overrides)
    if config.get_optional_string("broker.rack") is None:
        common += (f"broker.rack={host_name}",)
    first = config.listeners.advertised_broker[0]
    nodes = [HostNode(config.node_id, _address(first, 0), config_file, common)]
    for place in range(1, count):
        node_id = config.node_id + NODE_ID_DISTANCE * place
        own = [
            "process.roles=broker",
            f"node.id={node_id}",
            f"listeners={_shifted(config.listeners.broker, place)}",
            f"advertised.listeners={_shifted(config.listeners.advertised_broker, place)}",
            f"log.dirs={','.join(_beside(path, node_id) for path in config.log_dirs)}",
        ]
        if config.get_optional_string("metadata.log.dir") is not None:
            own.append(f"metadata.log.dir={_beside(config.metadata_log_dir, node_id)}")
        address = _address(first, place)
        nodes.append(HostNode(node_id, address, config_file, (*common, *own)))
    return nodes


def format_host(config: BrokerConfig, nodes: Sequence[HostNode]) -> None:
    """Formats what is new of the derived brokers for the cluster of the configured node."""
    from kaa.controller.formatting import FormatRequest, plan_format
    from kaa.log.files import RealFiles
    from kaa.log.properties import read_meta_properties
    from kaa.wire.primitives import random_uuid

    files = RealFiles()
    found = read_meta_properties(files, config.metadata_log_dir)
    if found is None:
        alone = "" if config.quorum_voters else " --standalone"
        _refuse(
            f"{config.metadata_log_dir} is not formatted; run: kaa storage format{alone} "
            f"-t $(kaa storage random-uuid) -c {nodes[0].config_file}"
        )
    for node in nodes[1:]:
        own = load_config(node.config_file, node.overrides, Path()).config
        request = FormatRequest(
            cluster_id=found.cluster_id,
            node_id=node.node_id,
            directories=own.log_dirs,
            metadata_directory=own.metadata_log_dir,
            is_quorum_dynamic=not config.quorum_voters,
            ignore_formatted=True,
        )
        new_id = partial(random_uuid, SystemRandom().randbytes)
        now_ms = time.time_ns() // 1_000_000
        for _ in plan_format(files, request, new_id).run(files, now_ms, "formatted by kaa"):
            pass


def _shifted(endpoints: Sequence[Endpoint], place: int) -> str:
    return ",".join(f"{each.listener}://{_address(each, place)}" for each in endpoints)


def _address(endpoint: Endpoint, place: int) -> str:
    from kaa.model.nodes import HostPort

    return str(HostPort(endpoint.host, endpoint.port + place))


def _beside(path: str, node_id: int) -> str:
    return f"{path.rstrip('/')}-{node_id}"


def _refuse(text: str) -> NoReturn:
    say(text)
    sys.exit(EXIT_FAILED)
