"""What a broker does by itself, at its own pace: storage upkeep, idle clients, heartbeats.

Each duty is a loop of its own in the broker's task group, so that a failure of one ends the broker
instead of going unseen. Disk work leaves the loop: jobs of one directory run behind each other in
the background executor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Executor

    from kaa.log.cleaner import LogCleaner
    from kaa.log.jobs import Job
    from kaa.log.manager import LogManager
    from kaa.net.listener import Listener
    from kaa.serving.services import Clock

LOG_TICK_SECONDS: Final = 1.0
IDLE_SWEEP_SECONDS: Final = 5.0


async def keep_logs(logs: LogManager, clock: Clock, executor: Executor) -> None:
    """Retention, flushes by time, checkpoints and removals."""
    while True:
        await asyncio.sleep(LOG_TICK_SECONDS)
        await run_jobs(logs.tick(clock.wall_ms()), clock, executor)


async def clean_logs(
    cleaner: LogCleaner, clock: Clock, executor: Executor, pause_seconds: float
) -> None:
    """Compaction, in slices between which the loop serves clients."""
    while True:
        await asyncio.sleep(pause_seconds)
        for job in cleaner.work(clock.wall_ms()):
            if job is None:
                await asyncio.sleep(0)
            else:
                await run_jobs([job], clock, executor)


async def run_jobs(jobs: Iterable[Job], clock: Clock, executor: Executor) -> None:
    """Runs jobs one after the other off the loop; their ends are noted on it."""
    loop = asyncio.get_running_loop()
    for job in jobs:
        try:
            await loop.run_in_executor(executor, job.run)
        except OSError as error:
            job.failed(error)
        else:
            job.done(clock.wall_ms())


async def sweep_idle(listeners: Iterable[Listener]) -> None:
    """Closes connections without input for connections.max.idle.ms."""
    while True:
        await asyncio.sleep(IDLE_SWEEP_SECONDS)
        for listener in listeners:
            listener.sweep_idle()
