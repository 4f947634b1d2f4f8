"""Group commit: one flush at a time for all that was appended meanwhile.

With `kaa.log.group.commit.enable` no answer leaves and no high watermark passes what is not on
stable storage. A flush takes about as long for many appends as for one, so that appends are not
flushed one by one: while one flush is under way, the logs written meanwhile gather, and the next
flush covers them all. The wait grows by at most one flush, and the number of flushes does not grow
with the number of appends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.errors import DamagedLogError, StorageError
from kaa.log.jobs import FlushLogJob

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Executor

    from kaa.replication.partition import Partition


class SharedFlush:
    """Flushes the logs of partitions that were appended to, off the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: Executor, wall_ms: Callable[[], int]
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._wall_ms = wall_ms
        # In the order of their appends, so that a replayed run flushes in the same order.
        self._dirty: dict[Partition, None] = {}
        self._is_flushing = False
        self.flush_count = 0

    def request(self, partition: Partition) -> None:
        """The partition's log has records that are not on stable storage yet."""
        self._dirty[partition] = None
        if not self._is_flushing:
            self._is_flushing = True
            # At the end of the turn, so that all requests that are already here share the flush.
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        jobs: list[tuple[Partition, FlushLogJob]] = []
        for partition in self._dirty:
            if partition.log is not None:
                try:
                    jobs.append((partition, FlushLogJob(partition.log)))
                except (DamagedLogError, StorageError):
                    # The directory is offline; the part that found out notifies its partitions.
                    # Of a damaged log nothing more becomes durable.
                    continue
        self._dirty = {}
        self.flush_count += 1
        work = self._loop.run_in_executor(self._executor, _run, [job for _, job in jobs])
        work.add_done_callback(lambda done: self._flushed(jobs, done))

    def _flushed(
        self,
        jobs: list[tuple[Partition, FlushLogJob]],
        work: asyncio.Future[list[OSError | None]],
    ) -> None:
        now_ms = self._wall_ms()
        try:
            for (partition, job), error in zip(jobs, work.result(), strict=True):
                if error is None:
                    job.done(now_ms)
                    partition.flushed()
                else:
                    job.failed(error)
        finally:
            # Whatever went wrong, others must not wait for ever.
            self._is_flushing = bool(self._dirty)
            if self._dirty:
                self._flush()


def _run(jobs: list[FlushLogJob]) -> list[OSError | None]:
    errors: list[OSError | None] = []
    for job in jobs:
        try:
            job.run()
        except OSError as error:
            errors.append(error)
        else:
            errors.append(None)
    return errors
