from __future__ import annotations

import asyncio
import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaa.broker.directories import StorageLostError
from kaa.broker.duties import clean_logs, free_names, persist, run_jobs, sync_folders
from kaa.broker.node import Broker, running
from kaa.client import Admin, NewTopic, Producer
from kaa.clock import SystemClock
from kaa.config.definition import ConfigValues
from kaa.limits import DUTY_RETRY_SECONDS
from kaa.log.dirs import LogDirectory
from kaa.log.sim_files import SimFiles
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.broker.support import config, formatted

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


class Names:
    """Replicas who wait for names, and the logs that have them."""

    def __init__(self, jobs: list[list[Work]]) -> None:
        self.logs = self
        self.wanted = asyncio.Event()
        self.freed = asyncio.Event()
        self._jobs = jobs

    def forget_deleted(self) -> list[Work]:
        return self._jobs.pop(0)

    def names_freed(self) -> None:
        if self._jobs:
            self.wanted.set()
        else:
            self.freed.set()


async def free_all(works: list[Work]) -> None:
    """Has names freed, in as many rounds as there are works."""
    names = Names([[work] for work in works])
    with ThreadPoolExecutor(1) as executor:
        async with asyncio.TaskGroup() as tasks:
            duty = free_names(cast("Any", names), names.wanted, SystemClock(), executor)
            task = tasks.create_task(duty)
            names.wanted.set()
            await asyncio.wait_for(names.freed.wait(), PATIENCE_SECONDS)
            assert not names.wanted.is_set()
            task.cancel()


def test_names_are_freed_after_the_work_and_again_for_those_who_ask_meanwhile() -> None:
    works = [Work(), Work()]

    asyncio.run(free_all(works))
    assert [work.notes for work in works] == [["run", "done"]] * 2


def test_names_that_cannot_be_freed_are_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too many files may be open, and those who need the names ask again at once."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    works = [Work(OSError(errno.EMFILE, "")), Work()]

    monkeypatch.setattr("kaa.broker.duties.asyncio.sleep", pause)
    asyncio.run(free_all(works))
    assert pauses == [DUTY_RETRY_SECONDS]


class Folders:
    """Replicas with new folders, and their logs; one is made while the others are synced."""

    def __init__(self, works: list[Work]) -> None:
        self.logs = self
        self.made = asyncio.Event()
        self.synced = asyncio.Event()
        self.rounds: list[int] = []
        self._works = works

    def sync_folders(self) -> list[Work]:
        if not self.rounds:
            self.made.set()
        return [self._works.pop(0)]

    def folders_synced(self) -> None:
        self.rounds.append(len(self._works))
        if not self._works:
            self.synced.set()


def test_new_folders_are_synced_and_again_for_those_made_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kaa.broker.duties.FOLDER_SYNC_DELAY_SECONDS", 0.001)
    works = [Work(), Work()]

    async def main() -> None:
        folders = Folders(works.copy())
        with ThreadPoolExecutor(1) as executor:
            async with asyncio.TaskGroup() as tasks:
                duty = sync_folders(cast("Any", folders), folders.made, SystemClock(), executor)
                task = tasks.create_task(duty)
                folders.made.set()
                await asyncio.wait_for(folders.synced.wait(), PATIENCE_SECONDS)
                assert folders.rounds == [1, 0]
                assert not folders.made.is_set()
                task.cancel()

    asyncio.run(main())
    assert [work.notes for work in works] == [["run", "done"]] * 2


def test_new_folders_that_cannot_be_synced_are_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too many files may be open. Those who made the folders do not ask again."""
    monkeypatch.setattr("kaa.broker.duties.FOLDER_SYNC_DELAY_SECONDS", 0.001)
    monkeypatch.setattr("kaa.broker.duties.DUTY_RETRY_SECONDS", 0.002)
    works = [Work(OSError(errno.EMFILE, "")), Work()]

    async def main() -> None:
        folders = Folders(works.copy())
        # None is made meanwhile.
        folders.rounds.append(len(works))
        with ThreadPoolExecutor(1) as executor:
            async with asyncio.TaskGroup() as tasks:
                duty = sync_folders(cast("Any", folders), folders.made, SystemClock(), executor)
                task = tasks.create_task(duty)
                folders.made.set()
                await asyncio.wait_for(folders.synced.wait(), PATIENCE_SECONDS)
                task.cancel()

    asyncio.run(main())
    assert works[1].notes == ["run", "done"]


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


# --- duties that fail in a way that nobody expected


def test_a_duty_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kaa.broker.duties.DUTY_RETRY_SECONDS", 0)
    reports: list[str] = []
    turns: list[int] = []

    async def duty() -> None:
        turns.append(len(turns))
        if len(turns) == 1:
            raise ZeroDivisionError("by zero")
        if len(turns) == 2:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fail())

    async def fail() -> None:
        raise KeyError("inner")

    asyncio.run(persist("counting", duty, reports.append))
    assert turns == [0, 1, 2]
    assert [line.partition(":")[0] for line in reports] == [
        "counting failed and is started again",
        "counting failed and is started again",
    ]
    assert "ZeroDivisionError('by zero') at " in reports[0]
    assert "KeyError('inner') at " in reports[1]


@pytest.mark.parametrize("nested", [False, True])
def test_what_a_node_cannot_go_on_without_ends_the_duty(*, nested: bool) -> None:
    async def duty() -> None:
        error = StorageLostError("the disk is gone")
        raise ExceptionGroup("tasks", [error]) if nested else error

    with pytest.raises((StorageLostError, ExceptionGroup)):
        asyncio.run(persist("counting", duty, lambda _: None))


PROBES = (
    "kaa.net.listener.Listener.sweep",
    "kaa.replication.manager.ReplicaManager.shrink_isr",
    "kaa.replication.directory_assignments.DirectoryAssignments.wait_ms",
    "kaa.coordinators.runtime.Runtime.load_next",
    "kaa.coordinators.share.coordinator.ShareCoordinator.prune",
    "kaa.coordinators.transaction.markers.MarkerSender._finish",
    "kaa.log.manager.LogManager.tick",
    "kaa.log.cleaner.LogCleaner.work",
)


def test_no_failure_of_a_duty_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fails once after the start, and is seen at work again; the node serves meanwhile."""
    calls = dict.fromkeys(PROBES, 0)
    is_started = False

    def plant(place: str) -> None:
        owner, _, name = place.rpartition(".")
        module, _, kind = owner.rpartition(".")
        real = getattr(getattr(__import__(module, fromlist=[kind]), kind), name)

        def probe(*arguments: Any, **named: Any) -> Any:
            calls[place] += is_started
            if calls[place] == 1 and is_started:
                raise ZeroDivisionError(place)
            return real(*arguments, **named)

        monkeypatch.setattr(place, probe)

    for place in PROBES:
        plant(place)
    for name in ("DUTY_RETRY_SECONDS", "LOG_TICK_SECONDS", "NET_SWEEP_SECONDS"):
        monkeypatch.setattr(f"kaa.broker.duties.{name}", 0.01)
    settings = config(
        "replica.lag.time.max.ms=20",
        "replica.fetch.wait.max.ms=20",
        "log.cleaner.backoff.ms=10",
        "share.coordinator.state.topic.prune.interval.ms=20",
    )
    reports: list[str] = []

    async def main() -> None:
        nonlocal is_started
        node = Broker(settings, files=formatted(settings), report=reports.append)
        async with running(node):
            is_started = True
            servers = {"bootstrap.servers": node.bootstrap_servers}
            async with Admin(servers) as admin, asyncio.timeout(PATIENCE_SECONDS):
                number = 0
                while min(calls.values()) < 2:
                    number += 1
                    name = f"t{number}"
                    assert await admin.create_topics([NewTopic(name, 1, 1)]) == {name: None}
                    async with Producer(servers, transactional_id=name) as producer:
                        await producer.init_transactions()
                        async with producer.transaction():
                            await producer.send(name, b"v")
                    if number > 200:
                        pytest.fail(str(calls))

    asyncio.run(main())
    assert any("failed and is started again" in line for line in reports)
