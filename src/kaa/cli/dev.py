"""`kaa dev`: a playground in one command: a broker, sample topics, and someone who uses them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import click

from kaa.cli.broker import DataFolder, load_config, refuse_comma, run_node, say
from kaa.cli.client import EXIT_FAILED, complain
from kaa.cli.command import Verb
from kaa.cli.samples import TOPICS, customers, next_samples

if TYPE_CHECKING:
    from kaa.broker import Broker
    from kaa.cli.supervisor import NodePlan
    from kaa.client.producer.producer import Producer

GROUP: Final = "billing"
_PORT_MAX: Final = 65_535
_POLL_MS: Final = 500
# Records that a slow reader takes at once, so that there is some lag to look at.
_READ_AT_ONCE: Final = 20


@click.command(cls=Verb)
@click.option("--port", type=click.IntRange(0, _PORT_MAX), default=9092, show_default=True)
@click.option(
    "--brokers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="Nodes, each a process of its own, on this port and those after it; their controllers "
    "listen 10,000 above.",
)
@click.option(
    "--data-dir",
    type=DataFolder(),
    help="Keep the data here.  [default: a temporary folder]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Events in the shop per second; 0 for none.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the sample data.")
@click.option(
    "--override", "overrides", multiple=True, metavar="NAME=VALUE", help="A setting of the broker."
)
def command(
    port: int,
    brokers: int,
    data_dir: Path | None,
    rate: float,
    seed: int,
    overrides: tuple[str, ...],
) -> None:
    """Run a playground: a broker, sample topics, and records that keep coming.

    The topics are those of a small shop; a consumer group named billing reads its orders. Nothing
    is kept unless --data-dir is given.

    \b
    Examples:
      kaa dev
      kaa dev --rate 200 --port 19092
      kaa dev --brokers 3
      kaa dev --data-dir playground --rate 0
    """
    started = time.monotonic()
    if brokers > 1:
        _refuse_ports_without_room(port, brokers)
    for place in range(brokers):
        _refuse_busy_port(port + place)
    listener = f"listeners=PLAINTEXT://127.0.0.1:{port}"
    with ExitStack() as stack:
        folder = data_dir
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kaa-dev-")))
        if brokers > 1:
            sys.exit(_run_cluster(folder, brokers, port, overrides, rate, Random(seed)))
        loaded = load_config(None, (listener, *overrides), folder)

        async def play(broker: Broker) -> None:
            await _play(broker.bootstrap_servers, rate, Random(seed))

        code = run_node(loaded, started, formats_empty=True, beside=play)
    sys.exit(code)


def _run_cluster(
    folder: Path, count: int, port: int, overrides: tuple[str, ...], rate: float, random: Random
) -> int:
    from kaa.cli.supervisor import HOST, Supervisor, format_cluster, plan_cluster, told_failures

    refuse_comma(folder)
    plans = plan_cluster(folder, count, port, overrides)
    for plan in plans:
        _refuse_busy_port(plan.controller_port, "of a controller ")
    with told_failures():
        if not format_cluster(plans, time.time_ns() // 1_000_000):
            _refuse_other_cluster(folder, plans)
    servers = ",".join(f"{HOST}:{plan.port}" for plan in plans)

    async def run() -> int:
        return await Supervisor(plans).run(lambda: _play(servers, rate, random))

    return asyncio.run(run())


def _refuse_other_cluster(folder: Path, plans: list[NodePlan]) -> None:
    """Voters find each other at the ports of the first start, and none may be left out."""
    from kaa.cli.supervisor import CONTROLLER_PORT_DISTANCE, voters_of_cluster

    kept = sorted(folder.glob("node-*/meta.properties"))
    voters, has_run = voters_of_cluster([str(path.parent) for path in kept])
    if len(kept) < len(voters) and not has_run:
        complain(f"{folder} keeps a cluster whose format was interrupted; nothing is in it yet")
        click.echo(f"  next         remove {folder}/node-*, then start again", err=True)
        sys.exit(EXIT_FAILED)
    ports = {voter.key.id: voter.endpoints[0].port for voter in voters.voters if voter.endpoints}
    is_whole = len(kept) == len(plans)
    if is_whole and ports.items() <= {plan.node_id: plan.controller_port for plan in plans}.items():
        return
    made = f"--brokers {len(kept)}"
    for node_id, port in list(ports.items())[:1]:
        made += f" --port {port - CONTROLLER_PORT_DISTANCE - (node_id - 1)}"
    complain(f"{folder} keeps a cluster that was made with {made}")
    click.echo(f"  next         take those (kaa dev {made} ...), or another --data-dir", err=True)
    sys.exit(EXIT_FAILED)


def _refuse_ports_without_room(port: int, count: int) -> None:
    """Looks at the arguments alone, before anything looks at who has these ports."""
    from kaa.cli.supervisor import CONTROLLER_PORT_DISTANCE

    if port == 0:
        complain("several brokers need a port to count from; leave --port out, or name one")
        sys.exit(EXIT_FAILED)
    port_max = _PORT_MAX - CONTROLLER_PORT_DISTANCE - (count - 1)
    if port > port_max:
        place = f"{CONTROLLER_PORT_DISTANCE:,} above their brokers"
        complain(f"controllers listen {place}; take --port {port_max} or less")
        sys.exit(EXIT_FAILED)


def _refuse_busy_port(port: int, whose: str = "") -> None:
    """Says what to do in the words of this command, before anything is made."""
    with socket.socket() as probe:
        # As the listener does it: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            complain(f"port {port} {whose}is not available: {os.strerror(error.errno or 0)}")
            other = port + 1 if 1024 <= port < _PORT_MAX and not whose else 19_092
            step = f"take another (kaa dev --port {other}; 0 takes a free one)"
            if whose:
                step = f"take other ports (kaa dev --brokers N --port {other})"
            elif error.errno == errno.EADDRINUSE:
                step += f", or use what runs there (kaa cluster info -b localhost:{port})"
            click.echo(f"  next         {step}", err=True)
            sys.exit(EXIT_FAILED)


async def _play(servers: str, rate: float, random: Random) -> None:
    """Makes the topics, then writes and reads until it is cancelled."""
    from kaa.client.producer.producer import Producer

    settings = {"bootstrap.servers": servers, "client.id": "kaa-dev"}
    await _create(settings)
    option = "" if servers.endswith(":9092") else f" -b {servers}"
    say(f"topics     {', '.join(topic.name for topic in TOPICS)}")
    say(f"group      {GROUP} reads orders")
    say(f"try        kaa tail orders{option}")
    say(f"           kaa group watch {GROUP}{option}")
    say(f"           kaa topic describe clicks{option}")
    async with Producer(settings) as producer, asyncio.TaskGroup() as tasks:
        for sample in customers(random):
            await producer.send(sample.topic, sample.value, key=sample.key)
        if rate:
            tasks.create_task(_write(producer, rate, random))
            tasks.create_task(_read(settings))


async def _create(settings: dict[str, str]) -> None:
    from kaa.client.admin.admin import Admin, NewTopic

    async with Admin(settings) as admin:
        outcome = await admin.create_topics(
            [NewTopic(topic.name, topic.partitions, configs=topic.configs) for topic in TOPICS]
        )
    for error in outcome.values():
        if error is not None and error.error.name != "TOPIC_ALREADY_EXISTS":
            raise error


async def _write(producer: Producer, rate: float, random: Random) -> None:
    started = time.monotonic()
    # Numbers of orders differ from those of an earlier run on the same data.
    first = time.time_ns() // 1_000_000_000 % 1_000_000 * 1_000
    number = 0
    while True:
        for sample in next_samples(random, first + number):
            await producer.send(sample.topic, sample.value, key=sample.key)
        number += 1
        await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))


async def _read(settings: dict[str, str]) -> None:
    from kaa.client.consumer.consumer import Consumer

    own = {**settings, "client.id": f"{GROUP}-{os.getpid()}", "group.id": GROUP}
    own |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "1000"}
    async with Consumer(own) as consumer:
        consumer.subscribe(["orders"])
        while True:
            await consumer.poll(timeout_ms=_POLL_MS, max_records=_READ_AT_ONCE)
            await asyncio.sleep(_POLL_MS / 1000)
