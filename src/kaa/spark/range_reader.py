"""A range of offsets of one partition as Arrow batches: what a task does.

Batches are fetched as the broker keeps them and decoded by the kernel straight into columns; no
Python object is made per record. The next fetch is under way while the last one is decoded.

What was planned is read exactly. Offsets without a record (compacted away, markers, aborted
transactions) are passed over in silence, unless the beginning of the log has moved past them: that
is a loss of data, which fails the task or is reported and skipped, as `failOnDataLoss` says. A
topic that was created again since the plan was made is one too.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kaa
from kaa.client.errors import KafkaError
from kaa.limits import SPARK_BATCH_BYTES_MAX, SPARK_BATCH_ROWS_MAX, SPARK_FETCH_WAIT_MS
from kaa.spark.brokers import brokers_of, settle
from kaa.spark.errors import DataLossError, SparkSourceError, VersionMismatchError
from kaa.spark.offsets import EARLIEST
from kaa.spark.schema import flags_of
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Iterator

    import pyarrow as pa

    from kaa.client.consumer.requests import FetchedBatches
    from kaa.spark.options import SourceOptions
    from kaa.spark.plan import OffsetRange
    from kaa.spark.tier.aborted import Aborted
    from kaa.spark.tier.plan import Piece


@dataclass(frozen=True, slots=True)
class Task:
    """One range, and what the driver knew when it was planned."""

    range: OffsetRange
    topic_id: str | None
    version: str
    # What the store has of it, from its start on, and the transactions in that which were aborted.
    pieces: tuple[Piece, ...] = ()
    aborted: tuple[Aborted, ...] = ()


def check_version(version: str) -> None:
    """Driver and executor must have the same Kaa: what one plans, the other reads."""
    if version != kaa.__version__:
        raise VersionMismatchError(
            f"the driver has kaa {version}, this executor has {kaa.__version__}; install the same "
            "version on all machines, or ship one packed environment to them"
        )


def report_loss(options: SourceOptions, what: str) -> None:
    """Fails, or tells that data was lost."""
    if options.fails_on_data_loss:
        raise DataLossError(what)
    warnings.warn(f"{what}; failOnDataLoss is false, so the query goes on", stacklevel=2)


class RangeReader:
    """Reads one range of offsets. `batches` may be iterated once, and raises where records are lost
    and `failOnDataLoss` is set.
    """

    def __init__(self, options: SourceOptions, task: Task, columns: tuple[str, ...]) -> None:
        self._options = options
        self._task = task
        self._columns = columns
        self._flags = flags_of(columns)
        self._brokers = brokers_of(options.settings)
        self._partition = task.range.partition
        # The next offset to decode.
        self._position = task.range.start
        self._end = task.range.end

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows of the range, in order."""
        check_version(self._task.version)
        if self._options.reads_local_files:
            from kaa.spark.local_segments import local_batches

            for rows, aborted, position in local_batches(self._brokers, self._options, self._task):
                yield from self._decode(rows, aborted)
                self._position = max(self._position, position)
        if self._task.pieces and self._position < self._end:
            from kaa.spark.tier.remote_segments import remote_batches

            for rows, aborted, position in remote_batches(self._brokers, self._options, self._task):
                yield from self._decode(rows, aborted)
                self._position = max(self._position, position)
            self._end_tier()
        pending = self._fetch(self._position) if self._position < self._end else None
        try:
            while pending is not None:
                fetched = self._answer(pending)
                pending = None
                if fetched is None:
                    if self._position < self._end:
                        pending = self._fetch(self._position)
                    continue
                after = min(fetched.next_offset, self._end)
                if after < self._end:
                    pending = self._fetch(after)
                aborted = [(producer, first) for first, producer in fetched.aborted or ()]
                yield from self._decode(fetched.data, aborted)
                self._position = max(self._position, after)
        finally:
            if pending is not None:
                pending.cancel()
            settle()

    def _end_tier(self) -> None:
        """What the store should have had goes to the brokers, unless they are not to be asked."""
        tier = self._options.tier
        if self._position >= self._end or tier is None or not tier.is_only:
            return
        log_start = self._log_start()
        if log_start <= self._position:
            raise SparkSourceError(
                f"an object of the remote segment of {self._partition} that holds offset "
                f"{self._position} is missing in the store; tier=auto asks the brokers for it"
            )
        self._skip_to(log_start)

    def _decode(self, data: memoryview, aborted: list[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        # The driver, which plans, does without the kernel and pyarrow.
        from kaa.records.arrow import ColumnReader
        from kaa.records.arrow_pyarrow import record_batch
        from kaa.records.errors import RecordsError

        reader = ColumnReader(
            data,
            partition=self._partition.partition,
            start_offset=self._position,
            end_offset=self._end,
            aborted=aborted,
            check_crcs=self._options.checks_crcs,
            timestamp_unit="us",
        )
        topic = self._partition.topic if "topic" in self._columns else None
        try:
            while not reader.is_exhausted:
                columns = reader.read(self._flags, SPARK_BATCH_ROWS_MAX, SPARK_BATCH_BYTES_MAX)
                if columns.row_count:
                    batch = record_batch(columns, topic)
                    yield batch.select(list(self._columns))
        except RecordsError as error:
            raise SparkSourceError(
                f"records of {self._partition} from offset {reader.next_offset} on cannot be read: "
                f"{error}"
            ) from error
        self._position = max(self._position, min(reader.next_offset, self._end))

    # --- fetches

    def _fetch(self, offset: int) -> concurrent.futures.Future[FetchedBatches]:
        return self._brokers.submit(self._fetch_until_there_is_something(offset))

    async def _fetch_until_there_is_something(self, offset: int) -> FetchedBatches:
        """One fetch, repeated while nothing has come, until the time to poll is up."""
        deadline = time.monotonic() + self._options.poll_timeout_ms / 1000
        wait_ms = 0
        while True:
            fetched = await self._brokers.fetch_batches(
                self._partition, offset, self._options.fetch_bytes, max_wait_ms=wait_ms
            )
            if fetched.next_offset > offset or fetched.log_start_offset > offset:
                return fetched
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                raise SparkSourceError(
                    f"no record of {self._partition} at offset {offset} came within "
                    f"{self._options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs); the high "
                    f"watermark is {fetched.high_watermark}, the last stable offset "
                    f"{fetched.last_stable_offset}, and the query reads up to {self._end}"
                )
            wait_ms = int(max(1, min(SPARK_FETCH_WAIT_MS, left_ms)))

    def _answer(self, pending: concurrent.futures.Future[FetchedBatches]) -> FetchedBatches | None:
        """What was fetched; None if the position moved over a loss."""
        try:
            fetched = pending.result()
        except KafkaError as error:
            if error.error is Errors.OFFSET_OUT_OF_RANGE:
                self._skip_to(self._log_start())
                return None
            if error.error in _GONE:
                report_loss(self._options, f"{self._partition} is gone ({error.error.name})")
                self._position = self._end
                return None
            raise
        self._check_topic()
        if fetched.log_start_offset > self._position:
            self._skip_to(fetched.log_start_offset)
            if self._position >= self._end:
                return None
        return fetched

    def _skip_to(self, log_start: int) -> None:
        if log_start <= self._position:
            # The log ends before this offset: it was truncated, or the topic was made again.
            report_loss(
                self._options,
                f"{self._partition} ends before offset {self._position}, up to {self._end} was "
                "to be read",
            )
            self._position = self._end
            return
        report_loss(
            self._options,
            f"offsets {self._position} to {min(log_start, self._end) - 1} of {self._partition} are "
            f"gone, the log begins at {log_start}",
        )
        self._position = min(log_start, self._end)

    def _log_start(self) -> int:
        from kaa.client.consumer.offsets import list_offsets

        work = list_offsets(
            self._brokers.cluster, {self._partition: EARLIEST}, self._brokers.timeout_ms
        )
        return self._brokers.call(work)[self._partition].offset

    def _check_topic(self) -> None:
        expected: Any = self._task.topic_id
        known = self._brokers.cluster.metadata.topics.get(self._partition.topic)
        if expected is not None and known is not None and str(known.topic_id) != expected:
            report_loss(
                self._options, f"topic {self._partition.topic!r} was deleted and created again"
            )


_GONE = frozenset({Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID})
