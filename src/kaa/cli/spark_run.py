"""Work on Spark: the options that say where, and a signal that brings it to an end."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

import click

from kaa.cli.client import pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS: Final = 0.2


def spark_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that say where the tasks run."""
    for option in reversed(
        (
            click.option("--master", metavar="URL", help="The Spark master.  [default: local[*]]"),
            click.option(
                "--conf",
                multiple=True,
                metavar="NAME=VALUE",
                help="A setting of Spark: spark.executor.memory=2g.",
            ),
            click.option("--no-spark", is_flag=True, help="Work in this process, without Spark."),
        )
    ):
        function = option(function)
    return function


def run_configured(
    name: str, given: dict[str, Any], work: Callable[[SparkSession, threading.Event], None]
) -> None:
    """Runs the work on the master and with the settings that the options of a command give."""
    from kaa.spark.quiet import StandardErrorAside, quiet_config
    from kaa.spark.sessions import session

    config = {**quiet_config(), **pairs(given["conf"], "--conf")}
    with StandardErrorAside():
        run_on_spark(lambda: session(given["master"], app_name=name, config=config), work)


def run_on_spark(
    start: Callable[[], SparkSession], work: Callable[[SparkSession, threading.Event], None]
) -> None:
    """Starts Spark, runs the work on it, and stops Spark; a signal sets the event of the work.

    All of it runs in a thread of its own: in the main thread PySpark would put its handler of
    Ctrl-C in place of ours, and that one breaks into whatever PySpark does at the moment. While
    Spark starts there is nothing to bring to an end, so that a signal leaves at once, and a second
    signal always does; Java notices that its Python is gone.
    """
    stop, is_started = threading.Event(), threading.Event()
    context = click.get_current_context()
    received: list[int] = []
    failures: list[BaseException] = []

    def receive(number: int, _frame: object) -> None:
        received.append(number)
        stop.set()

    def target() -> None:
        try:
            # What is said depends on the options of the command.
            with context.scope(cleanup=False):
                spark = start()
                is_started.set()
                try:
                    work(spark, stop)
                finally:
                    spark.stop()
        except BaseException as failure:  # noqa: BLE001  The main thread raises it.
            failures.append(failure)

    for number in _SIGNALS:
        signal.signal(number, receive)
    thread = threading.Thread(target=target, name="spark", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_SECONDS)
        if received and (not is_started.is_set() or len(received) > 1):
            sys.exit(128 + received[0])
    if failures:
        raise failures[0]
