from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

from kaa.broker.clock import SystemClock
from kaa.broker.duties import run_jobs
from kaa.log.dirs import LogDirectory
from kaa.log.sim_files import SimFiles

if TYPE_CHECKING:
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
