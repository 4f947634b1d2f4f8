"""`kaa broker`: runs a node in the foreground."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import shlex
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from kaa.cli.command import Noun

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from kaa.broker import Broker
    from kaa.config.server import LoadedConfig

DATA_FOLDER: Final = "kaa-data"
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
# How many new objects are walked through in one go, which no turn of the loop can split; after how
# many of these walks, what has outlived them is walked through once more; and after how many of
# those, everything is, which is to happen about never. An object costs half a microsecond, a whole
# one where caches are cold, so that the second walk, of up to four thousand, takes 2 to 4 ms.
GC_THRESHOLDS: Final = (1_000, 2, 200_000)


class DataFolder(click.Path):
    """A folder for data. An empty name, as of a variable that is not set, is not this folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if not os.fspath(value):
            self.fail("an empty name is not a folder; for the current one write .", param, ctx)
        return super().convert(value, param, ctx)


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
    type=DataFolder(),
    default=Path(DATA_FOLDER),
    show_default=True,
    help="Where data goes if no configuration file is given.",
)
def start(config_file: Path | None, overrides: tuple[str, ...], data_dir: Path) -> None:
    """Start a node and serve until it is stopped.

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
    is_for_development = config_file is None
    sys.exit(run_node(loaded, started, formats_empty=is_for_development, config_file=config_file))


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

    if config_file is None:
        refuse_comma(data_dir)
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
        what = f"cannot read {config_file} ({error.strerror})"
        _fail(f"{what}; name a file with settings that this user may read", EXIT_USAGE)
    except InvalidConfigError as error:
        _fail("\n".join(problem.message for problem in error.problems), EXIT_USAGE)
    except ConfigError as error:
        _fail(str(error), EXIT_USAGE)


def refuse_comma(data_dir: Path) -> None:
    """In log.dirs a comma separates folders, and there is no way to write one that has it."""
    folder = data_dir.resolve()
    if "," in str(folder):
        _fail(f"{folder} has a comma, which separates folders; take another folder", EXIT_USAGE)


def run_node(
    loaded: LoadedConfig,
    started: float,
    *,
    formats_empty: bool,
    beside: Callable[[Broker], Coroutine[Any, Any, None]] | None = None,
    config_file: Path | None = None,
) -> int:
    """Serves until it is asked to stop; `beside` runs as long as the node is ready."""
    # A start makes hundreds of thousands of objects that stay. Seldom looking for cycles among them
    # saves a seventh of the processor time of a start with 10,000 partitions.
    gc.set_threshold(*GC_THRESHOLDS)
    from kaa.broker import Broker

    def tell(text: str) -> None:
        say(_with_file(text, config_file))

    _raise_descriptor_limit()
    broker = Broker(loaded.config, report=tell, formats_empty=formats_empty)
    try:
        _with_loop(_serve(broker, started, beside))
    except ExceptionGroup as group:
        failures = failures_of(group)
        if failures is None:
            raise
        for failure in failures:
            tell(failure)
        return EXIT_FAILED
    return 0


def _with_file(text: str, config_file: Path | None) -> str:
    """A text with commands that name the file of this node, so that they can be copied."""
    from kaa.broker.directories import CONFIG_FILE

    if config_file is not None:
        return text.replace(CONFIG_FILE, shlex.quote(str(config_file)))
    return text.replace(CONFIG_FILE, "server.properties (a file with the settings of this node)")


def failures_of(group: ExceptionGroup) -> list[str] | None:
    """What ended a node, a line each; None if it takes a developer to read it."""
    from kaa.broker import NodeError
    from kaa.broker.directories import StorageLostError
    from kaa.broker.remedies import remedy
    from kaa.log.errors import StorageError

    lines = []
    errors = list(_leaves(group))
    has_lost_storage = any(isinstance(error, StorageLostError) for error in errors)
    for error in errors:
        is_storage = isinstance(error, StorageError) or isinstance(error.__cause__, StorageError)
        if is_storage and has_lost_storage:
            # It follows from the loss, which has a line of its own.
            continue
        if isinstance(error, NodeError):
            lines.append(str(error))
        elif isinstance(error, StorageError):
            lines.append(f"{error}; {remedy(error)}")
        elif isinstance(error, OSError):
            place = error.filename or "a file or an address"
            lines.append(f"cannot use {place} ({error.strerror or error}); {remedy(error)}")
        else:
            return None
    return lines


def _leaves(group: ExceptionGroup) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _serve(
    broker: Broker,
    started: float,
    beside: Callable[[Broker], Coroutine[Any, Any, None]] | None,
) -> None:
    from kaa.observe.loop_lag import LoopLag

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked_to_stop() -> None:
        if stop.is_set():
            say("stopping at once: what was not flushed is recovered at the next start")
            os._exit(EXIT_FAILED)
        stop.set()
        say("stopping; a second signal forces it")
        broker.interrupt_start()

    def hung_up() -> None:
        # The system and the shell may both say that the terminal is gone, which forces nothing.
        if not stop.is_set():
            asked_to_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Otherwise it was started by nohup.
        loop.add_signal_handler(signal.SIGHUP, hung_up)
    loop.add_signal_handler(signal.SIGUSR1, LoopLag(loop, say).ask)
    try:
        await _serve_until(stop, broker, started, beside)
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    say("stopped")


async def _serve_until(
    stop: asyncio.Event,
    broker: Broker,
    started: float,
    beside: Callable[[Broker], Coroutine[Any, Any, None]] | None,
) -> None:
    from kaa.broker import running
    from kaa.observe.loop_guard import LoopGuard

    # A start and a stop hold up others as well: the clients of other nodes, and who is waited for.
    guard = LoopGuard(asyncio.get_running_loop(), say)
    guard.start()
    try:
        async with running(broker):
            _say_ready(broker, time.monotonic() - started)
            async with asyncio.TaskGroup() as tasks:
                other = None if beside is None else tasks.create_task(beside(broker))
                await asyncio.to_thread(_load_the_rest, broker)
                await stop.wait()
                if other is not None:
                    other.cancel()
    finally:
        guard.stop()


def _load_the_rest(broker: Broker) -> None:
    """Loads what nobody has asked for yet, while the node serves: its code must be that of its
    start, whatever an upgrade does to the files later.
    """
    from kaa.coordinators.group.coordinator import machine_class
    from kaa.handlers.registry import load_ahead

    for router in broker.listeners.routers:
        load_ahead(router.handlers)
    machine_class()
    # What was loaded lives as long as the process; the collector need not walk it again.
    gc.freeze()


def _say_ready(broker: Broker, seconds: float) -> None:
    from kaa.model.nodes import HostPort

    config = broker.config
    for path in config.log_dirs:
        say(f"data       {path}" + (" (offline)" if path in broker.offline_log_dirs else ""))
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
    """A line for the operator, on standard error.

    A node serves, and stops, whether anybody can hear it or not: the terminal may be gone.
    """
    with suppress(OSError, ValueError):
        click.echo(text, err=True)


def _fail(text: str, code: int) -> NoReturn:
    say(text)
    sys.exit(code)
