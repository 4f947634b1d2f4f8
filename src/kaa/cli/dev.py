"""``kaa dev``: a playground in one command: a broker, sample topics, and someone who uses them."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import click

from kaa.cli.broker import load_config, run_node, say
from kaa.cli.command import Verb
from kaa.cli.samples import TOPICS, customers, next_samples

if TYPE_CHECKING:
    from kaa.broker import Broker
    from kaa.client.producer import Producer

GROUP: Final = "billing"
_POLL_MS: Final = 500
# Records that a slow reader takes at once, so that there is some lag to look at.
_READ_AT_ONCE: Final = 20


@click.command(cls=Verb)
@click.option("--port", type=click.IntRange(0, 65_535), default=9092, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Keep the data here.  [default: a folder that goes at the end]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Events in the shop per second; 0 for none.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the made-up data.")
@click.option(
    "--override", "overrides", multiple=True, metavar="NAME=VALUE", help="A setting of the broker."
)
def command(
    port: int, data_dir: Path | None, rate: float, seed: int, overrides: tuple[str, ...]
) -> None:
    """Run a playground: a broker, sample topics, and records that keep coming.

    The topics are those of a small shop; a consumer group named billing reads its orders. Nothing
    is left behind unless --data-dir is given.

    \b
    Examples:
      kaa dev
      kaa dev --rate 200 --port 19092
      kaa dev --data-dir playground --rate 0
    """
    started = time.monotonic()
    listener = f"listeners=PLAINTEXT://127.0.0.1:{port}"
    with ExitStack() as stack:
        folder = data_dir
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kaa-dev-")))
        loaded = load_config(None, (listener, *overrides), folder)

        async def play(broker: Broker) -> None:
            await _play(broker.bootstrap_servers, rate, Random(seed))

        code = run_node(loaded, started, formats_empty=True, beside=play)
    sys.exit(code)


async def _play(servers: str, rate: float, random: Random) -> None:
    """Makes the topics, then writes and reads until it is cancelled."""
    from kaa.client.producer import Producer

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
    from kaa.client.admin import Admin, NewTopic

    async with Admin(settings) as admin:
        outcome = await admin.create_topics(
            [NewTopic(topic.name, topic.partitions, 1, topic.configs) for topic in TOPICS]
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
    from kaa.client.consumer import Consumer

    own = {**settings, "client.id": f"{GROUP}-{os.getpid()}", "group.id": GROUP}
    own |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "1000"}
    async with Consumer(own) as consumer:
        consumer.subscribe(["orders"])
        while True:
            await consumer.poll(timeout_ms=_POLL_MS, max_records=_READ_AT_ONCE)
            await asyncio.sleep(_POLL_MS / 1000)
