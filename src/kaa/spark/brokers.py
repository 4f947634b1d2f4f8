"""Connections for code that blocks: one event loop per process, on a thread of its own.

Spark's planner and its tasks are plain functions, run one after the other in Python processes that
live longer than they do. So connections belong to the process: the first task opens them, the
following ones find them open, and the least used are closed when there are too many. While a task
decodes, the loop receives what was asked for next.

Processes are forked by Spark before any of this is imported; should one be forked later all the
same, it makes a loop of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.client.consumer import Consumer
from kaa.config.client import ADMIN, CONSUMER
from kaa.limits import SPARK_CLUSTERS_CONNECTED_MAX

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Coroutine

    from kaa.client.admin import Admin
    from kaa.client.cluster import Cluster
    from kaa.spark.options import ClientSettings

Answer = TypeVar("Answer")


class Brokers:
    """One cluster as one set of settings reaches it; made by ``brokers_of``."""

    def __init__(self, settings: ClientSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._settings = settings
        # Only single calls of this are used, and of the admin, so that their tasks need not run.
        self.consumer = Consumer(_consumer_settings(settings))
        self._admin: Admin | None = None

    @property
    def cluster(self) -> Cluster:
        return self.consumer.cluster

    @property
    def admin(self) -> Admin:
        """Loaded when it is needed: tasks that only read do without."""
        if self._admin is None:
            from kaa.client.admin import Admin

            self._admin = Admin(_common_settings(self._settings))
        return self._admin

    @property
    def timeout_ms(self) -> int:
        """How long a call with all its retries may take."""
        return self.consumer.values.get_int("default.api.timeout.ms")

    def submit(self, work: Coroutine[Any, Any, Answer]) -> concurrent.futures.Future[Answer]:
        """Starts work on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Does work on the loop and waits for it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            # A task that Spark kills must not leave its request behind.
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self.cluster.close)
        if self._admin is not None:
            self._loop.call_soon_threadsafe(self._admin.cluster.close)


class _Process:
    """What this process has open; written under its lock alone."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="kaa", daemon=True)
        self.thread.start()
        self.brokers: OrderedDict[tuple[tuple[str, str], ...], Brokers] = OrderedDict()

    def find(self, settings: ClientSettings) -> Brokers:
        key = tuple(sorted(settings.items()))
        with self.lock:
            found = self.brokers.get(key)
            if found is None:
                found = self.brokers[key] = Brokers(settings, self.loop)
                if len(self.brokers) > SPARK_CLUSTERS_CONNECTED_MAX:
                    self.brokers.popitem(last=False)[1].close()
            self.brokers.move_to_end(key)
            return found


_process: _Process | None = None
_process_lock = threading.Lock()


def brokers_of(settings: ClientSettings) -> Brokers:
    """The connections of this process for these settings."""
    global _process  # noqa: PLW0603  There is one process, and one loop in it.
    with _process_lock:
        if _process is None or _process.pid != os.getpid():
            _process = _Process()
    return _process.find(settings)


def _consumer_settings(settings: ClientSettings) -> dict[str, str]:
    """Groups play no part in reading; what is set about them must not be checked here."""
    return {
        name: value
        for name, value in settings.items()
        if name in CONSUMER and not name.startswith("group.")
    }


def _common_settings(settings: ClientSettings) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name in ADMIN and name in CONSUMER}
