"""The writers of the format `kaa_table`: rows of any query, each batch once.

A table that a query writes has no topic, but it keeps its progress in the same place: the id of the
query stands where the id of the topic would, and the number of its next batch where an offset
would. Files and number become part of the table in one commit, so a batch that Spark repeats after
a crash finds its number taken, and is dropped. The table belongs to the checkpoint that way: a
query with a new checkpoint has another id and is refused.

A batch write has no number. It is appended, or takes the place of all rows, once; one that must be
repeatable is named by `txnAppId` and `txnVersion`, as with topics.

Tasks write Parquet files and tell about them; the driver commits. A new writer is made for
each batch, once for the tasks and once more for the commit, so nothing is kept between the two but
what the tasks tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

import kaa
from kaa.limits import LAKE_ATTEMPTS_MAX
from kaa.model.topics import TopicPartition
from kaa.spark.formats.conform import nullable
from kaa.spark.formats.untyped import pa
from kaa.spark.lake.running import pause
from kaa.spark.lake.settings import lake_settings
from kaa.spark.lake.table import (
    ConflictError,
    LakeError,
    StaleRoundError,
    TableAwayError,
    TableCommit,
    UnknownOutcomeError,
)
from kaa.spark.lake.writing import WriteTask, delete_files, write_batches
from kaa.spark.option_names import TABLE, check_names
from kaa.spark.plan import OffsetRange
from kaa.spark.range_reader import Task, check_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import StructType

    from kaa.spark.lake.settings import LakeSettings
    from kaa.spark.lake.table import LakeTable, TableState, WrittenFile

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
# Batches are numbered in one sequence, kept under this partition.
_SEQUENCE: Final = 0
_OPTIONS: Final = ("table", "layout", "warehouse", "partitionBy", "compression", "targetFileBytes")

Messages = list[WriterCommitMessage | None]


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """What a task tells the driver."""

    query_id: str
    files: list[WrittenFile] = field(repr=False)


@dataclass(slots=True)
class _Batch:
    """Files on their way into the table."""

    query_id: str
    number: int
    files: list[WrittenFile]
    commit_id: str = field(default_factory=lambda: uuid4().hex)
    # Whether they belong to the table, or a commit may still make them so: nobody deletes them.
    is_in_doubt: bool = False


class TableRows:
    """What both writers have in common: one table, and how a batch gets into it."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, *, is_overwrite: bool
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        check_names(options, TABLE, ("catalog.", "store."))
        given = {name.lower(): value for name, value in options.items()}
        wanted = {name: given[name.lower()] for name in _OPTIONS if name.lower() in given}
        if "table" not in wanted:
            raise LakeError("name the table to write: option table")
        prefixed = {
            name: one for name, one in given.items() if name.startswith(("catalog.", "store."))
        }
        asked = lake_settings({**wanted, **prefixed}, has_topic=False)
        self._settings = _own_settings(asked)
        if self._settings.mode == "upsert":
            raise LakeError(
                f"{asked.table} has one row per key of a topic, and only that topic fills it"
            )
        self._is_overwrite = is_overwrite
        arrow = to_arrow_schema(schema, timezone="UTC")
        self._schema = pa.schema([pa.field(one.name, nullable(one.type)) for one in arrow])
        self._version = kaa.__version__
        table = self._open()
        table.load()
        self._place = table.prepare(self._schema)
        self._terms = table.terms

    def _open(self) -> LakeTable:
        if self._settings.layout == "iceberg":
            from kaa.spark.lake.iceberg.catalog import IcebergLake

            return IcebergLake(self._settings, self._schema, pa.schema([]))
        from kaa.spark.lake.folder import FolderLake

        return FolderLake(self._settings, self._schema, pa.schema([]))

    def write(self, batches: Iterator[Any], query_id: str, batch_id: int) -> WrittenFiles:
        """Runs in a task."""
        check_version(self._version)
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        part = OffsetRange(TopicPartition(self._settings.name, number), batch_id, batch_id + 1)
        task = WriteTask(
            source=None,
            tasks=(Task(part, None, self._version),),
            formats=None,
            terms=self._terms,
            place=self._place,
            commit_id=uuid4().hex[:16],
            file_bytes=self._settings.file_bytes,
            compression=self._settings.compression,
        )
        return WrittenFiles(query_id, write_batches(task, batches))

    def commit(self, messages: Messages, batch_id: int) -> None:
        """Runs on the driver, when all tasks are done."""
        query_id, files = _written(messages)
        if not query_id and not files and not self._is_overwrite:
            return
        batch = _Batch(query_id, batch_id, files)
        try:
            self._add(self._open(), batch)
        finally:
            if not batch.is_in_doubt:
                delete_files(self._place, [one.url for one in files])

    def _add(self, table: LakeTable, batch: _Batch) -> None:
        """Adds the files, unless another commit has brought this batch."""
        problem: Exception | None = None
        for attempt in range(LAKE_ATTEMPTS_MAX):
            if problem is not None:
                pause(attempt)
            try:
                state = table.load()
                if batch.is_in_doubt and _is_in(table, batch):
                    return
                if self._is_done(state, batch.query_id, batch.number):
                    return
                self._send(table, state, batch)
            except ConflictError:
                problem = None
            except (UnknownOutcomeError, TableAwayError, OSError) as error:
                problem = error
            else:
                return
        name = self._settings.table
        if batch.is_in_doubt:
            raise LakeError(
                f"it is not known whether rows got into {name}: {problem or 'no answer came'}; "
                "look at the table before they are written again"
            )
        if problem is not None:
            raise LakeError(f"{name} cannot be written to: {problem}")
        raise LakeError(f"{name} was committed to by others again and again")

    def _send(self, table: LakeTable, state: TableState, batch: _Batch) -> None:
        commit = TableCommit(
            commit_id=batch.commit_id,
            offsets={_SEQUENCE: batch.number + 1} if batch.query_id else None,
            topic_id=batch.query_id or None,
            mode="append",
            added=batch.files,
            removed=table.files() if self._is_overwrite else [],
        )
        before, batch.is_in_doubt = batch.is_in_doubt, True
        try:
            table.commit(state.version, commit)
        except (ConflictError, StaleRoundError):
            # This one was not taken; an earlier one may still be.
            batch.is_in_doubt = before
            raise

    def _is_done(self, state: TableState, query_id: str, batch_id: int) -> bool:
        if not query_id:
            return False
        state.trusted()
        if state.topic_id not in {None, query_id}:
            raise LakeError(
                f"{self._settings.table} is kept by {state.topic_id}, a topic or a query of "
                f"another checkpoint, and this is query {query_id}; write to another table"
            )
        return state.offsets.get(_SEQUENCE, 0) > batch_id

    def abort(self, messages: Messages) -> None:
        """Runs on the driver, after a task or the commit failed.

        Where all tasks are done, the commit was tried: it has deleted the files if it knows that
        they belong to nobody. Others are the table's, or may be, if the commit comes late; if not,
        the removal of orphans finds them.
        """
        if all(one is not None for one in messages):
            return
        _, files = _written(messages)
        delete_files(self._place, [one.url for one in files])


def _is_in(table: LakeTable, batch: _Batch) -> bool:
    return any(one.commit_id == batch.commit_id for one in table.history())


def _own_settings(asked: LakeSettings) -> LakeSettings:
    if asked.layout == "iceberg":
        from kaa.spark.lake.iceberg import catalog

        return catalog.own_settings(asked)
    from kaa.spark.lake import folder

    return folder.own_settings(asked)


def _written(messages: Messages) -> tuple[str, list[WrittenFile]]:
    written = [one for one in messages if isinstance(one, WrittenFiles)]
    return next((one.query_id for one in written), ""), [
        file for one in written for file in one.files
    ]


class TableWriter(DataSourceArrowWriter):
    """The writer of a batch query."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._rows = TableRows(options, schema, is_overwrite=overwrite)
        given = {name.lower(): value for name, value in options.items()}
        self._query_id = given.get("txnappid", "")
        version = given.get("txnversion", "0")
        if bool(self._query_id) != ("txnversion" in given) or not version.isdecimal():
            raise LakeError("txnAppId and txnVersion, a number, go together")
        self._batch_id = int(version)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._rows.write(iterator, self._query_id, self._batch_id)

    def commit(self, messages: Messages) -> None:
        self._rows.commit(messages, self._batch_id)

    def abort(self, messages: Messages) -> None:
        self._rows.abort(messages)


class TableStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query; in complete mode each batch is the whole table."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._rows = TableRows(options, schema, is_overwrite=overwrite)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        found = [None if context is None else context.getLocalProperty(name)
                 for name in (_QUERY_ID, _BATCH_ID)]  # fmt: skip
        query_id, batch_id = found
        if query_id is None or batch_id is None:
            raise LakeError("Spark does not say which query and batch this task belongs to")
        return self._rows.write(iterator, query_id, int(batch_id))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  Spark's name.
        self._rows.commit(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803  Spark's name.
        del batchId
        self._rows.abort(messages)
