from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

from kaa.broker.clock import SystemClock
from kaa.broker.duties import clean_logs, run_jobs
from kaa.config.definition import ConfigValues
from kaa.log.dirs import LogDirectory
from kaa.log.sim_files import SimFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.cleaner import LogCleaner
    from kaa.log.jobs import Job


class Work:
    """A job that notes what happens to it."""

    def __init__(self, error: OSError | None = None) -> None:
        self.directory = LogDirectory(SimFiles(), "/data")
        self.notes: list[str] = []
        self._error = error

    def run(self) -> None:
        self.notes.append("run")
        if self._error is not None:
            raise self._error

    def done(self, now_ms: int) -> None:
        self.notes.append("done")

    def failed(self, error: OSError) -> None:
        self.notes.append(f"failed: {error}")


def test_jobs_run_off_the_loop_and_their_ends_are_noted() -> None:
    good, bad = Work(), Work(OSError("broken"))

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            await run_jobs([cast("Job", good), cast("Job", bad)], SystemClock(), executor)

    asyncio.run(main())
    assert good.notes == ["run", "done"]
    assert bad.notes == ["run", "failed: broken"]


def test_a_cancelled_duty_still_notes_how_its_job_ended() -> None:
    begun, may_end = threading.Event(), threading.Event()

    class SlowWork(Work):
        def run(self) -> None:
            begun.set()
            may_end.wait(10)
            super().run()

    slow, never = SlowWork(), Work()

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            jobs = [cast("Job", slow), cast("Job", never)]
            async with asyncio.TaskGroup() as tasks:
                duty = tasks.create_task(run_jobs(jobs, SystemClock(), executor))
                await asyncio.to_thread(begun.wait)
                duty.cancel()
                await asyncio.sleep(0)
                may_end.set()
            assert duty.cancelled()

    asyncio.run(main())
    assert slow.notes == ["run", "done"]
    assert never.notes == []


def test_compaction_keeps_to_its_bytes_per_second() -> None:
    class Cleaner:
        moved_bytes = 0

        def work(self, now_ms: int) -> Iterator[Job]:
            for _ in range(4):
                yield cast("Job", Work())
                self.moved_bytes += 100
            duties[0].cancel()

    values = {"log.cleaner.backoff.ms": 0, "log.cleaner.io.max.bytes.per.second": 1000.0}

    class Settings:
        def get_int(self, name: str) -> int:
            return int(values[name])

        def get_double(self, name: str) -> float:
            return values[name]

    duties: list[asyncio.Task[None]] = []

    async def main() -> float:
        loop = asyncio.get_running_loop()
        settings = cast("ConfigValues", Settings())
        cleaner = cast("LogCleaner", Cleaner())
        with ThreadPoolExecutor(1) as executor:
            started = loop.time()
            async with asyncio.TaskGroup() as tasks:
                duty = clean_logs(cleaner, SystemClock(), executor, lambda: settings)
                duties.append(tasks.create_task(duty))
            return loop.time() - started

    # The rest that follows the last piece of work is left out.
    assert asyncio.run(main()) >= 0.2
