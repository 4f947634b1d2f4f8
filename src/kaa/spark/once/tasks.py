"""The part of the exactly-once sink that runs in tasks: one open transaction each.

A transaction is named `<prefix>.<query>.<run>.<partition>.<attempt>.<batch mod 4>`: by what Spark
repeats, so that names are few, and by the run, so that a run never meets those that another left
open. Should a name be in use all the same, because an attempt of the same task still has it, the
next attempt's is taken. A batch uses other names than the three before it, so that a late
repetition of a commit never meets a newer transaction under its name.

A driver may abort a transaction while its task is still at work (it *sweeps*, see `machine`).
What the task adds after that would begin a new transaction of the same producer and epoch, with a
part of the rows. So a task ends with a look at its transaction: only if all partitions that it
wrote to are in it, it is the one that was begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.client.errors import ClientError, KafkaError
from kaa.limits import SPARK_TASK_ATTEMPTS_MAX
from kaa.spark.brokers import brokers_of
from kaa.spark.errors import LostTransactionError, SparkSourceError
from kaa.spark.once.driver import name_of_query
from kaa.spark.once.machine import Entry
from kaa.spark.once.transactions import (
    ONGOING,
    add_partitions,
    end_transaction,
    open_transaction,
)
from kaa.spark.writing import RowWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kaa.model.topics import TopicPartition
    from kaa.spark.brokers import Brokers
    from kaa.spark.options import SinkOptions

_NAMES_PER_TASK = 4


class TaskNames(NamedTuple):
    """What Spark calls this task."""

    query_id: str
    run: str
    partition: int
    attempt: int
    batch_id: int

    def transactional_id(self, options: SinkOptions, attempt: int) -> str:
        """The name that an attempt of this task uses."""
        name = name_of_query(options, self.query_id)
        number = self.batch_id % _NAMES_PER_TASK
        return f"{name}{self.run}.{self.partition}.{attempt}.{number}"


def write_transaction(
    options: SinkOptions, names: TaskNames, batches: Iterator[pa.RecordBatch]
) -> tuple[int, Entry | None]:
    """Writes rows and leaves the transaction open; no row, no transaction."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return 0, None
    brokers = brokers_of(options.settings)
    entry = _open(brokers, options, names)

    written: set[TopicPartition] = set()

    def begin(partitions: list[TopicPartition]) -> None:
        written.update(partitions)
        brokers.call(add_partitions(brokers.cluster, entry, partitions, brokers.timeout_ms))

    try:
        writer = RowWriter(
            options,
            producer=(entry.producer_id, entry.producer_epoch),
            transactional_id=entry.transactional_id,
            before_new_partitions=begin,
        )
        writer.write(_chain(first, batches))
        _check_whole(brokers, entry, written)
    except BaseException:
        _abort(brokers, entry)
        raise
    return writer.row_count, entry


def _check_whole(brokers: Brokers, entry: Entry, written: set[TopicPartition]) -> None:
    name = entry.transactional_id
    found = brokers.call(brokers.admin.describe_transactions([name]))[name]
    if isinstance(found, KafkaError):
        raise found
    known = Entry(name, found.producer_id, found.producer_epoch)
    if found.state != ONGOING or known != entry or not written <= set(found.partitions):
        raise LostTransactionError(
            f"transaction {name} was aborted while its task was at work: it timed out, or another "
            "run of the query took its place"
        )


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _open(brokers: Brokers, options: SinkOptions, names: TaskNames) -> Entry:
    for attempt in range(names.attempt, names.attempt + SPARK_TASK_ATTEMPTS_MAX):
        name = names.transactional_id(options, attempt)
        found = brokers.call(brokers.admin.describe_transactions([name]))[name]
        if isinstance(found, KafkaError) or found.state != ONGOING:
            return brokers.call(
                open_transaction(
                    brokers.cluster, name, options.transaction_timeout_ms, brokers.timeout_ms
                )
            )
    raise SparkSourceError(
        f"{SPARK_TASK_ATTEMPTS_MAX} transactions of partition {names.partition} are open; "
        f"kaa txn abort --prefix {name_of_query(options, names.query_id)} clears them"
    )


def _abort(brokers: Brokers, entry: Entry) -> None:
    try:
        brokers.call(end_transaction(brokers.cluster, entry, brokers.timeout_ms, is_commit=False))
    except ClientError:
        # It is swept away with the next batch, or times out.
        return
