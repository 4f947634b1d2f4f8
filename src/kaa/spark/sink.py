"""The writers of batch and streaming queries.

By default a row is written at least once: a task that Spark repeats writes its rows again. With
`exactlyOnce` the rows of a task are one transaction, which is committed when Spark commits the
batch (`kaa.spark.once`). There the key is the id of the query, which Spark keeps in the
checkpoint; a batch write has none, and is repeated safely only if its user names it by `txnAppId`
and `txnVersion`. Inside `foreachBatch` these are required: two writes there would look like a
repetition of one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

import kaa
from kaa.spark.errors import OptionError, SparkSourceError
from kaa.spark.once.driver import Driver
from kaa.spark.once.machine import abort_batch, commit_batch
from kaa.spark.once.tasks import TaskNames, write_transaction
from kaa.spark.progress import publish_batch, query_of_checkpoint
from kaa.spark.range_reader import check_version
from kaa.spark.topic_reader import tell_warnings
from kaa.spark.writing import RowWriter, check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kaa.spark.once.machine import Entry
    from kaa.spark.options import SinkOptions

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"
_RUN_LETTERS = 8


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What a task tells the driver."""

    row_count: int
    query_id: str = ""
    entry: Entry | None = None


Messages = list[WriterCommitMessage | None]


class _Rows:
    """What both writers have in common."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(
            [(one.name, one.dataType.simpleString()) for one in schema.fields], options.topic
        )
        tell_warnings(options.warnings)
        self.options = options
        self._version = kaa.__version__

    def write(self, batches: Iterator[pa.RecordBatch], names: TaskNames | None) -> TaskWritten:
        """Runs in a task; with names the rows are a transaction."""
        check_version(self._version)
        if names is not None:
            row_count, entry = write_transaction(self.options, names, batches)
            return TaskWritten(row_count, names.query_id, entry)
        writer = RowWriter(self.options)
        writer.write(batches)
        return TaskWritten(writer.row_count)

    def commit(self, messages: Messages, batch_id: int) -> None:
        """Runs on the driver, when all tasks are done."""
        query_id, entries = _entries(messages)
        if self.options.is_exactly_once and query_id:
            skips_older = self.options.application_id is not None
            Driver(self.options, query_id).run(
                commit_batch(batch_id, entries, skips_older=skips_older)
            )

    def abort(self, messages: Messages, batch_id: int, query_id: str | None) -> None:
        """Runs on the driver, when a task or the commit failed; never raises.

        Tasks that failed or were killed tell nothing, perhaps all of them: then the given query is
        the one whose transactions may be open.
        """
        written_by, entries = _entries(messages)
        query = written_by or query_id
        if not (self.options.is_exactly_once and query):
            return
        has_lost_tasks = any(message is None for message in messages)
        try:
            Driver(self.options, query).run(
                abort_batch(batch_id, entries, has_lost_tasks=has_lost_tasks)
            )
        except Exception as error:  # noqa: BLE001  What is left is swept away, or times out.
            warnings.warn(f"transactions of batch {batch_id} stay open: {error}", stacklevel=2)


def _entries(messages: Messages) -> tuple[str, Sequence[Entry]]:
    written = [message for message in messages if isinstance(message, TaskWritten)]
    entries = [message.entry for message in written if message.entry is not None]
    return next((message.query_id for message in written), ""), entries


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SparkSourceError("rows are written outside of a Spark task")
    return context


class TopicWriter(DataSourceArrowWriter):
    """The writer of a batch query; Spark copies it to the tasks, with the id it has."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._rows = _Rows(options, schema)
        self._write_id = uuid4().hex
        self._batch_id = options.application_version or 0

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._rows.write(iterator, self._names())

    def _names(self) -> TaskNames | None:
        options = self._rows.options
        if not options.is_exactly_once:
            return None
        task = _task()
        if options.application_id is None and task.getLocalProperty(_QUERY_ID):
            raise OptionError(
                "exactlyOnce inside foreachBatch needs the options txnAppId and txnVersion: "
                "an id of this write, and the number of the batch"
            )
        return TaskNames(
            self._query_id(),
            self._write_id[:_RUN_LETTERS],
            task.partitionId(),
            task.attemptNumber(),
            self._batch_id,
        )

    def _query_id(self) -> str:
        return self._rows.options.application_id or self._write_id

    def commit(self, messages: Messages) -> None:
        self._rows.commit(messages, self._batch_id)

    def abort(self, messages: Messages) -> None:
        self._rows.abort(messages, self._batch_id, self._query_id())


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query; another one commits than those that wrote."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._rows = _Rows(options, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._rows.write(iterator, self._names())

    def _names(self) -> TaskNames | None:
        if not self._rows.options.is_exactly_once:
            return None
        task = _task()
        properties = [task.getLocalProperty(name) for name in (_QUERY_ID, _RUN_ID, _BATCH_ID)]
        query_id, run_id, batch_id = properties
        if query_id is None or batch_id is None:
            raise SparkSourceError("Spark does not say which query and batch this task belongs to")
        run = (run_id or "").replace("-", "")[:_RUN_LETTERS]
        return TaskNames(query_id, run, task.partitionId(), task.attemptNumber(), int(batch_id))

    def commit(
        self,
        messages: Messages,
        batchId: int,  # noqa: N803  Spark's name.
    ) -> None:
        self._rows.commit(messages, batchId)
        options = self._rows.options
        publish_batch(options.settings, options.checkpoint_location, batchId)

    def abort(
        self,
        messages: Messages,
        batchId: int,  # noqa: N803  Spark's name.
    ) -> None:
        query_id = query_of_checkpoint(self._rows.options.checkpoint_location)
        self._rows.abort(messages, batchId, query_id)
