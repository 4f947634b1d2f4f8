"""One piece of work on a table, with a fault at each of its steps (`faults`); then what must hold.

Right after the fault the table has the rows that it had before, or those of after, and each file
that any version names is there. The next run ends the work, and has every row once. What was
left lying about is found as an orphan: after its removal there are no files but those of the table.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import open_table
from kaa.spark.lake.folder import MANIFESTS
from kaa.spark.lake.maintenance import (
    _namings,
    expire,
    named,
    plan_expiry,
    plan_orphans,
    remove_orphans,
    rewrite_manifests,
)
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.store import path_of
from kaa.spark.lake.table import ConflictError, LakeError, UnknownOutcomeError
from kaa.spark.lake.table_state import open_existing, plan_read, read_file, table_options
from kaa.testing import Broker
from tests.spark.lake.faults import DeadError, Steps, kinds, small_folders
from tests.spark.lake.kills import letters_of
from tests.spark.lake.landing import land
from tests.support.children import running

SCHEMA: Final = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
# Of a table that a work begins with: the fourth round of upserts finds many deleted rows.
ROUNDS: Final = {"first_land": 0, "merge": 2, "rewriting_merge": 3, "rows": 3}
# What a command says in one line when it cannot go on.
CLEAR: Final = (LakeError, ConflictError, UnknownOutcomeError, OSError)
# What brings rows; the rest leaves them as they are.
LANDING: Final = ("first_land", "land", "merge", "rewriting_merge")
CARE: Final = ("compact", "manifests", "expire", "orphans")
WORKS: Final = [
    *[("iceberg", work) for work in (*LANDING, *CARE)],
    # A folder has no deleted positions and no manifests to merge.
    *[("parquet", work) for work in (*LANDING, *CARE) if work not in {"merge", "manifests"}],
]
READY: Final = "ready\n"
RUN_SECONDS_MAX: Final = 120.0
Rows = list[tuple[Any, ...]]


class Point(NamedTuple):
    """Something that can go wrong: the number of a step, its name and the fault."""

    number: int
    name: str
    fault: str


class Works:
    """What is done to a table, each from the beginning."""

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings

    def land(self) -> None:
        land(self._settings)

    first_land = merge = rewriting_merge = land

    def compact(self) -> None:
        table = open_table(self._settings)
        table.load()
        compact(table, plan_compaction(table))

    def manifests(self) -> None:
        rewrite_manifests(open_table(self._settings))

    def expire(self) -> None:
        table = open_table(self._settings)
        expire(table, plan_expiry(table, keep=1, older_than_seconds=-1))

    def orphans(self) -> None:
        table = open_table(self._settings)
        table.load()
        remove_orphans(table, plan_orphans(table, older_than_seconds=-1))


class Bases:
    """Tables that works begin with, one of each kind: works leave a topic as it is.

    All are made in one place, since metadata names files by their whole paths, and kept in others.
    """

    def __init__(self, broker: Broker, place: Path) -> None:
        self._broker = broker
        self._place = place
        self._known: dict[tuple[str, str], Base] = {}

    def of(self, layout: str, work: str) -> Base:
        """The one that a work begins with."""
        kind = work if work in {"first_land", "merge", "rewriting_merge"} else "rows"
        if (layout, kind) not in self._known:
            base = Base(self._broker, self._place, layout, kind)
            self._known[layout, kind] = base
        return self._known[layout, kind]


class Base:
    """A table, and records of its topic that it lacks."""

    def __init__(self, broker: Broker, place: Path, layout: str, kind: str) -> None:
        self.lake = place / "lake"
        self.place = place
        self.kept = place / f"{layout}-{kind}"
        self._topic = broker.topic(partitions=1)
        self.given = {
            "topic": self._topic.name,
            "layout": layout,
            "warehouse": str(self.lake),
            "valueFormat": "json",
            "valueSchema": SCHEMA,
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            **({"mode": "upsert", "buckets": 1} if kind.endswith("merge") else {}),
        }
        self.settings: LakeSettings = lake_settings(self.given)
        self._sent = 0
        shutil.rmtree(self.lake, ignore_errors=True)
        for _ in range(ROUNDS[kind]):
            self._send()
            land(self.settings)
        self._send()
        keep(self.lake, self.kept)

    def _send(self) -> None:
        """Some records for new and known keys, one that deletes, and bad ones."""
        first = self._sent
        self._topic.seed(
            [
                *[(f"k{one % 7}", f'{{"n": {one}}}') for one in range(first, first + 4)],
                (f"k{first % 3}", None),
                (f"k{first % 7}", "no number"),
            ]
        )
        self._sent += 4


def keep(lake: Path, kept: Path) -> None:
    shutil.rmtree(kept, ignore_errors=True)
    if lake.exists():
        shutil.copytree(lake, kept)
    else:
        kept.mkdir()


class Story:
    """A table in the state in which the work is done, again and again.

    `points` has everything that can go wrong, if `steps` counts.
    """

    def __init__(self, bases: Bases, layout: str, work: str, steps: Steps | None = None) -> None:
        base = bases.of(layout, work)
        self._folder, self._kept = base.lake, base.kept
        self._given, self._settings = base.given, base.settings
        works = Works(self._settings)
        self._name = work
        self._work: Callable[[], None] = getattr(works, work)
        self._orphans = works.orphans
        self._seconds: float | None = None
        self._manifests: dict[str, list[str]] = {}
        self._restore()
        if work in {"expire", "orphans"}:
            works.compact()
            if work == "orphans":
                works.expire()
            self._kept = base.place / f"{layout}-{work}"
            keep(self._folder, self._kept)
        self._before = self._rows() if work != "first_land" else []
        names = self._steps(steps)
        self.points = [
            Point(at, name, fault) for at, name in enumerate(names) for fault in kinds(name)
        ]
        self._after = self._rows()
        if work in CARE:
            assert self._after == self._before
        if layout == "iceberg" and work.endswith("merge"):
            assert self._has_rewritten() == (work == "rewriting_merge")

    def _has_rewritten(self) -> bool:
        table: Any = open_table(self._settings)
        summary = table.data.handle.current_snapshot().summary
        return int(summary.get("deleted-data-files") or 0) > 0

    def _steps(self, steps: Steps | None) -> list[str]:
        """The work without a fault, and its steps, if somebody counts them."""
        if steps is not None:
            steps.arm()
        self._work()
        return [] if steps is None else list(steps.names)

    # --- what must hold

    def run(self, steps: Steps, point: Point) -> None:
        """The work with one fault, what is there then, and what becomes of it."""
        try:
            self._run(steps, point)
        except Exception as error:
            error.add_note(f"{point.fault} at step {point.number}, {point.name}")
            raise

    def _run(self, steps: Steps, point: Point) -> None:
        self._restore()
        steps.arm(point.number, point.fault)
        try:
            self._work()
        except (DeadError, *CLEAR):
            pass
        finally:
            steps.arm()
        self._check()

    def kill(self, chance: Random) -> bool:
        """The work in a process of its own, which is killed at some time of it, if it lasts."""
        self._restore()
        if self._seconds is None:
            self._seconds = self._in_process(None)[1]
            self._restore()
        was_killed, _ = self._in_process(chance.uniform(0, 1.1 * self._seconds))
        self._check()
        return was_killed

    def _in_process(self, seconds: float | None) -> tuple[bool, float]:
        """Whether it was killed, so long after it had begun, and how long it took."""
        command = [sys.executable, "-m", __name__, self._name, json.dumps(self._given)]
        with running(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == READY
            started = time.monotonic()
            try:
                child.wait(RUN_SECONDS_MAX if seconds is None else seconds)
            except subprocess.TimeoutExpired:
                child.kill()
            lasted = time.monotonic() - started
        assert child.returncode in {0, -signal.SIGKILL}, child.returncode
        return child.returncode != 0, lasted

    def _check(self) -> None:
        """What is there after the fault, and what becomes of it."""
        if self._before:
            assert self._named() <= self._on_disk()
            assert self._rows() in (self._before, self._after)
        self._work()
        assert self._rows() == self._after
        self._orphans()
        assert self._on_disk() == self._named()

    def _restore(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._kept, self._folder)

    def _rows(self) -> Rows:
        settings, table = open_existing(table_options(self._settings))
        plan = plan_read(settings, table)
        rows = [row for file in plan.files for one in read_file(plan, file)
                for row in one.to_pylist()]  # fmt: skip
        found = [(row["offset"], row["key"], row["n"]) for row in rows]
        # The dead letters come with the rows.
        letters = [(row["offset"], row["key"], row["value"]) for row in letters_of(table)]
        return sorted([*found, *letters])

    def _named(self) -> set[Path]:
        """Every file that any version names."""
        table: Any = open_table(self._settings)
        return {Path(path_of(url)) for task in _namings(table) for url in self._urls(task)}

    def _urls(self, task: Any) -> list[str]:
        """What a task names; a manifest of Iceberg is read once, since nobody changes it."""
        if task.manifest is None:
            return [url for url, _ in named(task)]
        path = task.manifest.manifest_path
        if path not in self._manifests:
            self._manifests[path] = [url for url, _ in named(task)]
        return self._manifests[path]

    def _on_disk(self) -> set[Path]:
        return set(self._files())

    def _files(self) -> Iterator[Path]:
        for one in self._folder.rglob("*"):
            is_catalog = one.name.startswith("catalog.db")
            if one.is_file() and one.parent.name != MANIFESTS and not is_catalog:
                yield one


def main(work: str, given: str) -> None:
    """The process that is killed; it says when it has begun."""
    function = getattr(Works(lake_settings(json.loads(given))), work)
    sys.stdout.write(READY)
    sys.stdout.flush()
    with small_folders():
        function()


if __name__ == "__main__":
    main(*sys.argv[1:])
