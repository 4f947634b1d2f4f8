"""What a broker does by itself, at its own pace: storage upkeep, idle clients, heartbeats.

Each duty is a loop of its own in the broker's task group. One that fails in a way that nobody
expected is reported and begun again (`persist`): it must neither end the node nor go unseen. Only
what says itself that the node cannot go on (`NodeError`) ends it. Disk work leaves the loop: jobs
of one directory run one after the other in the background executor.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kaa.broker.directories import NodeError
from kaa.limits import (
    DUTY_RETRY_SECONDS,
    FOLDER_SYNC_DELAY_SECONDS,
    LOG_TICK_SECONDS,
    LOGS_PER_CLOSE_TASK,
    NET_SWEEP_SECONDS,
)
from kaa.log.throttle import Throttle
from kaa.model.threads import outlast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from concurrent.futures import Executor

    from kaa.config.definition import ConfigValues
    from kaa.log.cleaner import LogCleaner
    from kaa.log.jobs import Job
    from kaa.log.log import UnifiedLog
    from kaa.log.manager import LogManager
    from kaa.model.seams import Clock
    from kaa.net.listener import Listener
    from kaa.replication.manager import ReplicaManager


async def persist(
    what: str, duty: Callable[[], Coroutine[Any, Any, None]], report: Callable[[str], None]
) -> None:
    """Does a duty until it is done or cancelled, however often it fails."""
    while True:
        try:
            await duty()
        except NodeError:
            raise
        except Exception as error:
            if isinstance(error, ExceptionGroup) and error.subgroup(NodeError) is not None:
                raise
            report(f"{what} failed and is started again: {_described(error)}")
            await asyncio.sleep(DUTY_RETRY_SECONDS)
        else:
            return


def _described(error: Exception) -> str:
    """The error and the line that raised it, so that it can be found."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = "" if where is None else f" at {where.tb_frame.f_code.co_qualname}:{where.tb_lineno}"
    return f"{error!r}{place}"


async def keep_logs(logs: LogManager, clock: Clock, executor: Executor) -> None:
    """Retention, flushes by time, checkpoints and removals."""
    while True:
        await asyncio.sleep(LOG_TICK_SECONDS)
        await run_jobs(logs.tick(clock.wall_ms()), clock, executor)


async def free_names(
    replicas: ReplicaManager, wanted: asyncio.Event, clock: Clock, executor: Executor
) -> None:
    """Checkpoints without deleted logs, when partitions of the same names are to be made."""
    while True:
        await wanted.wait()
        if not await run_jobs(replicas.logs.forget_deleted(), clock, executor):
            # Most likely too many files are open. Those who need the names ask again at once.
            await asyncio.sleep(DUTY_RETRY_SECONDS)
        wanted.clear()
        # Those whose logs were deleted meanwhile ask again.
        replicas.names_freed()


async def sync_folders(
    replicas: ReplicaManager, wanted: asyncio.Event, clock: Clock, executor: Executor
) -> None:
    """Durable folders for new partitions, for all that are made within a moment at once."""
    while True:
        await wanted.wait()
        await asyncio.sleep(FOLDER_SYNC_DELAY_SECONDS)
        wanted.clear()
        if not await run_jobs(replicas.logs.sync_folders(), clock, executor):
            # Most likely too many files are open. Nobody asks again for folders that were made.
            await asyncio.sleep(DUTY_RETRY_SECONDS)
            wanted.set()
        replicas.folders_synced()


async def close_logs(logs: LogManager, clock: Clock, executor: Executor, broker_epoch: int) -> None:
    """A clean stop: logs are flushed by all threads of the executor, then the markers written."""
    loop, now_ms = asyncio.get_running_loop(), clock.wall_ms()

    def close(some: list[UnifiedLog]) -> None:
        for log in some:
            logs.close_log(log, now_ms)

    for log in logs.every_log:
        log.settle()
    waiting = logs.every_log
    await asyncio.gather(
        *(
            loop.run_in_executor(executor, close, waiting[start : start + LOGS_PER_CLOSE_TASK])
            for start in range(0, len(waiting), LOGS_PER_CLOSE_TASK)
        )
    )
    await loop.run_in_executor(executor, logs.finish_shutdown, broker_epoch)


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


async def run_jobs(jobs: Iterable[Job | None], clock: Clock, executor: Executor) -> bool:
    """Runs jobs one after the other off the loop; their ends are noted on it. None is a pause.
    Whether all of them could be done.
    """
    loop = asyncio.get_running_loop()
    is_done = True
    for job in jobs:
        if job is None:
            await asyncio.sleep(0)
            continue
        work = loop.run_in_executor(executor, job.run)
        was_cancelled = await outlast(work)
        error = work.exception()
        if isinstance(error, OSError):
            job.failed(error)
            is_done = False
        elif error is not None:
            raise error
        else:
            job.done(clock.wall_ms())
        if was_cancelled:
            raise asyncio.CancelledError
    return is_done


async def keep_isr(replicas: ReplicaManager) -> None:
    """Leaders propose sets without replicas that are behind, twice in the time they may be so."""
    while True:
        await asyncio.sleep(replicas.lag_ms_max / 2 / 1000)
        for _ in replicas.shrink_isr():
            await asyncio.sleep(0)


async def sweep_connections(listeners: Iterable[Listener]) -> None:
    """Closes connections without input for connections.max.idle.ms, and those of late clients."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(NET_SWEEP_SECONDS)
        for listener in listeners:
            listener.sweep(loop.time())
