"""A node inside this process, on a thread and loop of its own, for tests that look inside it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.broker import Broker, running
from kaa.broker.development import format_if_empty
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.log.files import RealFiles
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Answer = TypeVar("Answer")

START_SECONDS_MAX = PATIENCE_SECONDS


class BrokerThread:
    """A running node; `call` runs code on its loop."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.reports: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="node")

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(START_SECONDS_MAX), "the node did not start in time"
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self) -> None:
        """Stops the node cleanly; raises what made it fail, if anything did."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Runs a function on the node's loop, where its state may be looked at and changed."""
        assert self._loop is not None

        async def run() -> Answer:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(START_SECONDS_MAX)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  The thread that started this one gets it.
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with running(self.broker):
            self._ready.set()
            await self._stop.wait()


def make_broker(data_dir: Path, *overrides: str, **parts: Any) -> Broker:
    """A node for development on free ports; its folder is formatted if it is empty."""
    listeners = f"listeners=PLAINTEXT://{LOOPBACK}:0"
    settings = development_settings(str(data_dir), overrides=[listeners, *overrides])
    config = load_broker_config(settings).config
    format_if_empty(config, RealFiles(), Random(1), 1_700_000_000_000)
    return Broker(config, **parts)


@contextmanager
def broker_thread(data_dir: Path, *overrides: str) -> Iterator[BrokerThread]:
    reports: list[str] = []
    node = BrokerThread(make_broker(data_dir, *overrides, report=reports.append))
    node.reports = reports
    node.start()
    try:
        yield node
    finally:
        node.stop()
