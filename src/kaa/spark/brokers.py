"""Connections for code that blocks: one event loop per process, on a thread of its own.

Spark's planner and its tasks are plain functions, run one after the other in Python processes that
live longer than they do. So connections belong to the process: the first task opens them, the
following ones find them open, and the least used are closed when there are too many. While a task
decodes, the loop receives what was asked for next.

Processes are forked by Spark before any of this is imported; should one be forked later all the
same, it makes a loop of its own.

Spark's workers collect garbage after each task, which walks through every object that was ever
imported: some 45 ms of processor time, longer than a small task takes. So a worker that has done
its first task freezes what it has by then.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from kaa.client.cluster import Cluster
from kaa.client.consumer.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kaa.config.client import ADMIN, CONSUMER, consumer_values
from kaa.limits import SPARK_CLUSTERS_CONNECTED_MAX

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Coroutine

    from kaa.client.admin.admin import Admin
    from kaa.client.consumer.requests import FetchedBatches
    from kaa.model.topics import TopicPartition
    from kaa.spark.options import ClientSettings

Answer = TypeVar("Answer")


class Loop:
    """The event loop of this process, for code that blocks; made by `loop_of_process`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

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


class Brokers(Loop):
    """One cluster as one set of settings reaches it; made by `brokers_of`."""

    def __init__(self, settings: ClientSettings, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._settings = settings
        self._values = consumer_values(_consumer_settings(settings))
        # How long a call with all its retries may take.
        self.timeout_ms = self._values.get_int("default.api.timeout.ms")
        self.cluster = Cluster(self._values)
        # Only single calls of this are used, so that its tasks need not run.
        self._admin: Admin | None = None

    async def fetch_batches(
        self, partition: TopicPartition, offset: int, max_bytes: int, *, max_wait_ms: int = 0
    ) -> FetchedBatches:
        """One fetch from the leader, undecoded."""
        from kaa.client.consumer.requests import FetchBounds, fetch_batches

        is_committed = self._values.get_string("isolation.level") == "read_committed"
        bounds = FetchBounds(
            partition_bytes_max=max_bytes,
            bytes_max=max_bytes,
            wait_ms=max_wait_ms,
            isolation_level=READ_COMMITTED if is_committed else READ_UNCOMMITTED,
            rack_id=self._values.get_string("client.rack"),
        )
        return await fetch_batches(self.cluster, partition, offset, bounds, self.timeout_ms)

    @property
    def admin(self) -> Admin:
        """Loaded when it is needed: tasks that only read do without."""
        if self._admin is None:
            from kaa.client.admin.admin import Admin

            self._admin = Admin(_common_settings(self._settings))
        return self._admin

    def cluster_id(self) -> str | None:
        """The id of the cluster, which is asked for once."""
        if self.cluster.metadata.cluster_id is None:
            self.call(self.cluster.fetch_metadata([]))
        return self.cluster.metadata.cluster_id

    def close(self) -> None:
        """Closes the connections; the loop goes on for others."""
        self._loop.call_soon_threadsafe(self.cluster.close)
        if self._admin is not None:
            self._loop.call_soon_threadsafe(self._admin.cluster.close)


class _Process:
    """What this process has open; written under its lock alone."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.is_settled = False
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
    return _this_process().find(settings)


def loop_of_process() -> Loop:
    """The loop alone, for those who speak with no broker."""
    return Loop(_this_process().loop)


def _this_process() -> _Process:
    global _process  # noqa: PLW0603  There is one process, and one loop in it.
    with _process_lock:
        if _process is None or _process.pid != os.getpid():
            _process = _Process()
        return _process


def settle() -> None:
    """Lets the garbage collector pass over all that a worker of Spark has by now, once."""
    process = _process
    tasks = sys.modules.get("pyspark.taskcontext")
    if process is None or process.is_settled or tasks is None or tasks.TaskContext.get() is None:
        return
    process.is_settled = True
    gc.freeze()


def _consumer_settings(settings: ClientSettings) -> dict[str, str]:
    """Groups play no part in reading; what is set about them must not be checked here."""
    return {
        name: value
        for name, value in settings.items()
        if name in CONSUMER and not name.startswith("group.")
    }


def _common_settings(settings: ClientSettings) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name in ADMIN and name in CONSUMER}
