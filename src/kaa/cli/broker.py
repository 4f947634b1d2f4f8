"""``kaa broker``: runs a node in the foreground."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from kaa.cli.command import Noun

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kaa.broker import Broker
    from kaa.config.server import LoadedConfig

DATA_FOLDER: Final = "kaa-data"
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
GC_THRESHOLDS: Final = (50_000, 20, 100)


@click.group(cls=Noun, name="broker")
def command() -> None:
    """Run a node: a broker and its controller in one process.

    \b
    Examples:
      kaa broker start
      kaa broker start server.properties
    """


@command.command()
@click.argument("config_file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set or replace a setting; may be given many times.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=Path(DATA_FOLDER),
    show_default=True,
    help="Where data goes if no configuration file is given.",
)
def start(config_file: Path | None, overrides: tuple[str, ...], data_dir: Path) -> None:
    """Start a node and serve until it is told to stop.

    Without CONFIG_FILE: a node for development on 127.0.0.1:9092, whose data folder is formatted by
    itself. With a server.properties of Kafka: what that file says, with Kafka's defaults; its
    directories must have been formatted (kaa storage format).

    \b
    Examples:
      kaa broker start
      kaa broker start --override listeners=PLAINTEXT://127.0.0.1:19092
      kaa broker start server.properties --override log.retention.hours=1
    """
    started = time.monotonic()
    loaded = load_config(config_file, overrides, data_dir)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    sys.exit(run_node(loaded, started, formats_empty=config_file is None))


def load_config(
    config_file: Path | None, overrides: tuple[str, ...], data_dir: Path
) -> LoadedConfig:
    """The settings, checked as a whole before anything is touched."""
    from kaa.config.definition import InvalidConfigError
    from kaa.config.development import development_settings
    from kaa.config.properties import decode_properties
    from kaa.config.server import load_broker_config
    from kaa.config.sources import merge_settings
    from kaa.config.values import ConfigError

    try:
        if config_file is None:
            settings = development_settings(
                str(data_dir.resolve()), environment=os.environ, overrides=overrides
            )
        else:
            settings = merge_settings(
                file=decode_properties(config_file.read_bytes()),
                file_name=str(config_file),
                environment=os.environ,
                overrides=overrides,
            )
        return load_broker_config(settings)
    except OSError as error:
        _fail(f"cannot read {config_file}: {error.strerror}", EXIT_USAGE)
    except InvalidConfigError as error:
        _fail("\n".join(problem.message for problem in error.problems), EXIT_USAGE)
    except ConfigError as error:
        _fail(str(error), EXIT_USAGE)


def run_node(
    loaded: LoadedConfig,
    started: float,
    *,
    formats_empty: bool,
    beside: Callable[[Broker], Coroutine[Any, Any, None]] | None = None,
) -> int:
    """Serves until it is told to stop; ``beside`` runs as long as the node is ready."""
    from kaa.broker import Broker, StartError

    _raise_descriptor_limit()
    broker = Broker(loaded.config, report=say, formats_empty=formats_empty)
    try:
        _with_loop(_serve(broker, started, beside))
    except ExceptionGroup as group:
        refusals, others = group.split(StartError)
        if others is not None or refusals is None:
            raise
        for refusal in refusals.exceptions:
            say(str(refusal))
        return EXIT_FAILED
    return 0


async def _serve(
    broker: Broker,
    started: float,
    beside: Callable[[Broker], Coroutine[Any, Any, None]] | None,
) -> None:
    from kaa.broker import running
    from kaa.observe.loop_lag import LoopLag

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told() -> None:
        if stop.is_set():
            say("stopping at once: what was not flushed is recovered at the next start")
            os._exit(EXIT_FAILED)
        say("stopping; a second signal forces it")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    loop.add_signal_handler(signal.SIGUSR1, LoopLag(loop, say).ask)
    async with running(broker):
        # What was loaded lives as long as the process; the collector need not walk it again. It
        # seldom has something to find, since requests leave no cycles behind.
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        _say_ready(broker, time.monotonic() - started)
        async with asyncio.TaskGroup() as tasks:
            other = None if beside is None else tasks.create_task(beside(broker))
            await stop.wait()
            if other is not None:
                other.cancel()
    say("stopped")


def _say_ready(broker: Broker, seconds: float) -> None:
    from kaa.config.addresses import HostPort

    config = broker.config
    for path in config.log_dirs:
        say(f"data       {path}")
    for endpoint in config.listeners.all:
        bound = broker.listeners.bound(endpoint)
        say(f"{endpoint.listener.lower():<10} {HostPort(bound.host, bound.port)}")
    say(f"ready      node {config.node_id} of cluster {broker.cluster_id}, in {seconds:.2f} s")


def _with_loop(main: object) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]
    else:
        uvloop.run(main)  # type: ignore[arg-type]


def _raise_descriptor_limit() -> None:
    """Connections and segments are descriptors; what the system allows is asked for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def say(text: str) -> None:
    """A line for the operator, on standard error."""
    click.echo(text, err=True)


def _fail(text: str, code: int) -> NoReturn:
    say(text)
    sys.exit(code)
