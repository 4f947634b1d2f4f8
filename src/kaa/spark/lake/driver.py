"""Performs what the committer wants: looks at table and topic, runs jobs, commits, waits."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import kaa
from kaa.limits import LAKE_TASK_ROWS_MIN
from kaa.spark import formats
from kaa.spark.formats.conform import list_of, struct_of
from kaa.spark.formats.untyped import pa
from kaa.spark.lake import machine
from kaa.spark.lake.caring import Caretaker
from kaa.spark.lake.inferring import InferredColumns, first_columns
from kaa.spark.lake.plan import round_ends, round_ranges, sharing
from kaa.spark.lake.running import pause, reason_of
from kaa.spark.lake.table import (
    ConflictError,
    LakeError,
    NoTableError,
    StaleRoundError,
    TableAwayError,
    TableCommit,
    TableState,
    UnknownOutcomeError,
)
from kaa.spark.lake.upsert import drop_news, merge
from kaa.spark.lake.writing import Grown, WriteTask, delete_files, write
from kaa.spark.lookup import Lookup
from kaa.spark.options import source_options
from kaa.spark.range_reader import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.spark.formats.untyped import Schema
    from kaa.spark.lake.running import Runner
    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import LakeTable, WrittenFile
    from kaa.spark.lake.upsert import Merge

COLUMN_TYPES: dict[str, Any] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": list_of(struct_of({"key": pa.string(), "value": pa.binary()})),
}
"""The columns of a record, for Arrow."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What a committed round did."""

    rows: int
    dead_letters: int
    files: int
    size_bytes: int
    seconds: float
    offsets: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def lag(self) -> int:
        return sum(max(0, end - self.offsets.get(one, 0)) for one, end in self.ends.items())


def table_schema(settings: LakeSettings, plan: formats.DecodePlan | None) -> Schema:
    """The columns of the table: those of records that are kept, and the decoded ones."""
    fields = [pa.field(name, COLUMN_TYPES[name]) for name in settings.columns]
    if plan is not None:
        fields += [
            one
            for one in plan.fields()
            if one.name != formats.ERROR_COLUMN and not pa.types.is_null(one.type)
        ]
    return pa.schema(fields)


def dead_letter_schema() -> Schema:
    """The columns of dead letters: the whole record, and why it is one."""
    fields = [pa.field(name, kind) for name, kind in COLUMN_TYPES.items()]
    return pa.schema([*fields, pa.field(formats.ERROR_COLUMN, pa.string())])


def format_plan(settings: LakeSettings, infer: formats.Infer) -> formats.DecodePlan | None:
    """What is decoded; bad records are set apart here, whatever `badRecords` says."""
    options = {**settings.formats, "badRecords": "permissive"}
    return formats.plan(options, [settings.topic], infer)


def open_table(asked: LakeSettings) -> LakeTable:
    """The table of the settings, with those that it keeps; it is made by the first load."""
    if asked.layout == "iceberg":
        from kaa.spark.lake.iceberg import catalog

        settings = catalog.own_settings(asked)
        plan = format_plan(settings, first_columns(settings, catalog.own_columns))
        return catalog.IcebergLake(settings, table_schema(settings, plan), dead_letter_schema())
    from kaa.spark.lake import folder

    settings = folder.own_settings(asked)
    plan = format_plan(settings, first_columns(settings, folder.own_columns))
    return folder.FolderLake(settings, table_schema(settings, plan), dead_letter_schema())


def open_known(asked: LakeSettings) -> LakeTable:
    """A table that is there, to be looked at or after; raises NoTableError, and makes none."""
    table = open_table(asked)
    if not table.exists():
        raise NoTableError(
            f"there is no table {table.settings.table} in {table.settings.store.url}; kaa lake run "
            "makes it, and --table and --warehouse name others"
        )
    return table


class LakeDriver:
    """Keeps one table up to date with its topic."""

    def __init__(
        self,
        table: LakeTable,
        runner: Runner,
        *,
        is_once: bool,
        report: Callable[[RoundReport], None] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._settings = settings = table.settings
        self._table = table
        self._runner = runner
        self._report = report
        self._stop = stop or threading.Event()
        self._source = source_options(settings.source(), is_stream=False)
        self._lookup = Lookup(self._source)
        self._machine: machine.Committer[list[WrittenFile]] = machine.Committer(
            lambda starts, ends: round_ends(starts, ends, settings.round_rows),
            lambda: uuid.uuid4().hex[:16],
            is_once=is_once,
        )
        self._topic_id: str | None = None
        self._ends: Mapping[int, int] = {}
        self._place: Any = None
        self._columns = InferredColumns(table)
        self._round_started = 0.0
        self._in_commit: machine.Commit[list[WrittenFile]] | None = None

    def run(self) -> int:
        """Works until it is done or asked to stop; returns how many rounds were committed."""
        care = Caretaker(self._table, self._runner)
        waiting: deque[object] = deque(self._machine.start())
        while waiting:
            effect = waiting.popleft()
            if isinstance(effect, machine.Stop):
                if effect.reason is not None:
                    raise LakeError(effect.reason)
                care.look(is_last=True)
                break
            if self._stop.is_set() and isinstance(effect, machine.FindEnds | machine.Wait):
                break
            if isinstance(effect, machine.Wait):
                care.look()
            event = self._perform(effect)
            if event is not None:
                waiting.extend(self._machine.handle(event))
        return self._machine.rounds_committed

    def _perform(self, effect: object) -> object | None:
        match effect:
            case machine.LoadTable():
                return self._load()
            case machine.FindEnds():
                return self._find_ends(effect)
            case machine.WriteRound():
                return self._write(effect)
            case machine.Commit():
                return self._commit(effect)
            case machine.DropFiles():
                if self._place is not None:
                    delete_files(self._place, [one.url for one in effect.files])
                return None
            case machine.Wait():
                self._stop.wait(self._settings.interval_seconds)
                return machine.Waited()
            case machine.BackOff():
                pause(effect.failures, self._stop)
                return None
        raise TypeError(f"no effect: {effect!r}")

    def _load(self) -> machine.Loaded | machine.LoadFailed:
        try:
            state = self._table.load().trusted()
        except (TableAwayError, ConflictError, OSError) as error:
            return machine.LoadFailed(str(error))
        found = self._lookup.partitions()
        self._topic_id = found.topic_ids.get(self._settings.topic)
        if state.topic_id is not None and state.topic_id != self._topic_id:
            raise LakeError(
                f"topic {self._settings.topic!r} was deleted and created again since the table was "
                "filled; give the new topic a table of its own"
            )
        if self._in_commit is not None and state.commit_id == self._in_commit.commit_id:
            self._tell(self._in_commit)
        self._in_commit = None
        return machine.Loaded(state.version, state.offsets, state.commit_id)

    def _find_ends(self, effect: machine.FindEnds) -> machine.EndsFound:
        # A round begins; the first one may commit where the table starts, and write nothing.
        self._round_started = time.monotonic()
        partitions = self._lookup.partitions().partitions
        latest = self._lookup.tier_bounded(
            self._lookup.latest(partitions), self._lookup.partitions()
        )
        self._ends = {one.partition: end for one, end in latest.items()}
        new = [one for one in partitions if one.partition not in effect.offsets]
        if self._settings.starting == "latest" and not effect.offsets:
            starts = {one.partition: latest[one] for one in new}
        else:
            earliest = self._lookup.earliest(new)
            starts = {one.partition: at for one, at in earliest.items()}
        return machine.EndsFound(starts, self._ends)

    def _write(self, effect: machine.WriteRound) -> object:
        try:
            done = self._map(effect, looks_for_more=True)
            files = [file for one in done if not isinstance(one, Grown) for file in one]
            if more := [one for one in done if isinstance(one, Grown)]:
                # All fields of the round are known now, so that the second time is the last.
                delete_files(self._place, [one.url for one in files])
                self._columns.add(more)
                done = self._map(effect, looks_for_more=False)
                files = [file for one in done if not isinstance(one, Grown) for file in one]
            return machine.RoundWritten(files)
        except Exception as error:
            reason = reason_of(error)
            if reason is None:
                raise
            return machine.WriteFailed(reason)

    def _map(
        self, effect: machine.WriteRound, *, looks_for_more: bool
    ) -> list[list[WrittenFile] | Grown]:
        """Runs the tasks of a round, on the columns that the table has and gets."""
        plan = format_plan(self._settings, self._columns)
        self._place = self._table.prepare(table_schema(self._settings, plan))
        if plan is not None:
            plan = plan.with_types(self._place.source_schema)
        tasks = [
            WriteTask(
                source=self._source,
                tasks=tuple(group),
                formats=plan,
                terms=self._table.terms,
                place=self._place,
                commit_id=effect.commit_id,
                file_bytes=self._settings.file_bytes,
                compression=self._settings.compression,
                is_upsert=self._settings.mode == "upsert",
                looks_for_more=looks_for_more and plan is not None and plan.infers,
            )
            for group in self._tasks(effect)
        ]
        return self._runner.map(write, tasks)

    def _tasks(self, effect: machine.WriteRound) -> list[list[Task]]:
        """The ranges of each task; where a store is read, one task each, as it was cut."""
        topic, parallel = self._settings.topic, self._runner.parallel
        ranges = round_ranges(topic, effect.starts, effect.ends, parallel, LAKE_TASK_ROWS_MIN)
        if self._source.tier is None or self._topic_id is None:
            return [
                [Task(one, self._topic_id, kaa.__version__) for one in group]
                for group in sharing(ranges, parallel, LAKE_TASK_ROWS_MIN)
            ]
        from kaa.spark.tier.planning import tiered_tasks

        # It is asked of the whole of a partition once, and cut by bytes and for these tasks then.
        whole = round_ranges(topic, effect.starts, effect.ends, 1, LAKE_TASK_ROWS_MIN)
        source = replace(self._source, min_partitions=len(ranges))
        return [[one] for one in tiered_tasks(source, whole, {topic: self._topic_id})]

    def _commit(self, effect: machine.Commit[list[WrittenFile]]) -> object:
        self._in_commit = effect
        merged: Merge | None = None
        if self._settings.mode == "upsert" and effect.files:
            try:
                merged = self._merge(effect)
            except Exception as error:
                reason = reason_of(error)
                drop_news(self._place, effect.files)
                if reason is None:
                    raise
                return machine.WriteFailed(reason)
        commit = TableCommit(
            commit_id=effect.commit_id,
            offsets=effect.offsets,
            topic_id=self._topic_id,
            mode=self._settings.mode,
            added=effect.files or [] if merged is None else merged.added,
            removed=() if merged is None else merged.removed,
            deletes=() if merged is None else merged.deletes,
            removed_deletes=() if merged is None else merged.removed_deletes,
        )
        try:
            self._table.commit(effect.version, commit)
        except ConflictError:
            if merged is not None:
                # Merged files are for one version of the table; the next attempt merges again.
                delete_files(self._place, merged.urls)
            return machine.Conflict()
        except (UnknownOutcomeError, TableAwayError, OSError) as error:
            return machine.OutcomeUnknown(str(error))
        except StaleRoundError as error:
            if merged is not None:
                delete_files(self._place, merged.urls)
            return machine.RoundStale(str(error))
        if self._settings.mode == "upsert" and effect.files:
            drop_news(self._place, effect.files)
        return machine.Committed()

    def _merge(self, effect: machine.Commit[list[WrittenFile]]) -> Merge:
        state = TableState(effect.version, {}, "", None)
        return merge(
            self._table, self._runner, state, self._place, effect.files or [], effect.commit_id
        )

    def _tell(self, commit: machine.Commit[list[WrittenFile]]) -> None:
        files = commit.files or []
        data = [one for one in files if not one.is_dead_letters]
        self._report(
            RoundReport(
                rows=sum(one.rows for one in data),
                dead_letters=sum(one.rows for one in files if one.is_dead_letters),
                files=len(files),
                size_bytes=sum(one.size_bytes for one in files),
                seconds=time.monotonic() - self._round_started,
                offsets=commit.offsets,
                ends=self._ends,
            )
        )
