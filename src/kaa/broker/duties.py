"""What a broker does by itself, at its own pace: storage upkeep, idle clients, heartbeats.

Each duty is a loop of its own in the broker's task group, so that a failure of one ends the broker
instead of going unseen. Disk work leaves the loop: jobs of one directory run behind each other in
the background executor.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Final

from kaa.log.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from kaa.config.definition import ConfigValues
    from kaa.log.cleaner import LogCleaner
    from kaa.log.jobs import Job
    from kaa.log.manager import LogManager
    from kaa.net.listener import Listener
    from kaa.serving.services import Clock

LOG_TICK_SECONDS: Final = 1.0
SWEEP_SECONDS: Final = 5.0


async def keep_logs(logs: LogManager, clock: Clock, executor: Executor) -> None:
    """Retention, flushes by time, checkpoints and removals."""
    while True:
        await asyncio.sleep(LOG_TICK_SECONDS)
        await run_jobs(logs.tick(clock.wall_ms()), clock, executor)


async def clean_logs(
    cleaner: LogCleaner, clock: Clock, executor: Executor, config: Callable[[], ConfigValues]
) -> None:
    """Compaction, whose work is done off the loop, a window of a segment at a time."""
    loop = asyncio.get_running_loop()
    throttle = Throttle(loop.time())
    while True:
        await asyncio.sleep(config().get_int("log.cleaner.backoff.ms") / 1000)
        with closing(cleaner.work(clock.wall_ms())) as jobs:
            for job in jobs:
                await run_jobs([job], clock, executor)
                bytes_per_second = config().get_double("log.cleaner.io.max.bytes.per.second")
                rest = throttle.rest_seconds(cleaner.moved_bytes, bytes_per_second, loop.time())
                if rest:
                    await asyncio.sleep(rest)


async def run_jobs(jobs: Iterable[Job], clock: Clock, executor: Executor) -> None:
    """Runs jobs one after the other off the loop; their ends are noted on it."""
    loop = asyncio.get_running_loop()
    for job in jobs:
        work = loop.run_in_executor(executor, job.run)
        was_cancelled = await _outlast(work)
        error = work.exception()
        if isinstance(error, OSError):
            job.failed(error)
        elif error is not None:
            raise error
        else:
            job.done(clock.wall_ms())
        if was_cancelled:
            raise asyncio.CancelledError


async def _outlast(work: asyncio.Future[None]) -> bool:
    """Waits for work on a thread, which nothing can stop; whether a cancellation came meanwhile."""
    was_cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            was_cancelled = True
    return was_cancelled


async def sweep_connections(listeners: Iterable[Listener]) -> None:
    """Closes connections without input for connections.max.idle.ms, and those of late clients."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        for listener in listeners:
            listener.sweep(loop.time())
