"""The reader of streaming queries: where each batch ends, and what it reads.

One of these lives on the driver for a run of a query. What it keeps between batches may be lost at
any time: the checkpoint holds all that the next run needs (`offsets`). Copies of it go to the
executors, where `read` is called; they take nothing along but options and columns.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kaa.client.errors import ClientError
from kaa.limits import SPARK_SIZES_SECONDS
from kaa.spark.lookup import Lookup
from kaa.spark.offsets import BYTES, LAG, StreamOffset, nested
from kaa.spark.plan import least, limit_bytes, limit_rows, ranges_between, waiting_rows
from kaa.spark.progress import publish, refuse_active_group
from kaa.spark.range_reader import RangeReader, report_loss
from kaa.spark.topic_reader import RangePartition, columns_of_schema, partitions_of, tell_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from kaa.spark.lookup import Found
    from kaa.spark.offsets import PartitionOffsets
    from kaa.spark.options import SourceOptions

# Limits of rows, bytes and time cannot be passed to Spark together. It is given one, so that it
# asks for limited batches, and what counts is in the options.
_ROWS_WITHOUT_LIMIT = 2**63 - 1


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark calls for a streaming query: offsets and plans on the driver, `read` elsewhere."""

    def __init__(self, options: SourceOptions, schema: StructType | tuple[str, ...]) -> None:
        self._options = options
        self._columns = schema if isinstance(schema, tuple) else columns_of_schema(schema)
        self._lookup: Lookup | None = None
        # With AvailableNow, where everything ends; found when it is first needed.
        self._is_available_now = False
        self._final: tuple[Found, PartitionOffsets] | None = None
        self._latest: PartitionOffsets = {}
        # When the last batch was let through, for maxTriggerDelay.
        self._admitted_at = float("-inf")
        # What the last batch reads, and what it leaves, for `reportLatestOffset`.
        self._batch_rows = 0
        self._lag_rows = 0
        # Stored bytes of a record, where brokers tell them, and until when that is good enough.
        self._record_bytes: float | None = None
        self._record_bytes_until = float("-inf")

    def __reduce__(self) -> tuple[Any, ...]:
        return TopicStreamReader, (self._options, self._columns)

    # --- where batches end

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name.
        """Says nothing: the first batch carries its start."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name.
        options = self._options
        if (
            options.max_offsets_per_trigger is None
            and options.max_bytes_per_trigger is None
            and options.min_offsets_per_trigger is None
        ):
            return ReadAllAvailable()
        return ReadMaxRows(options.max_offsets_per_trigger or _ROWS_WITHOUT_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name.
        self._is_available_now = True

    def latestOffset(  # noqa: N802  Spark's name.
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        lookup = self._begin()
        before = StreamOffset.read(start)
        found, latest = self._ends(lookup)
        self._latest = latest
        begin = self._begin_of_batch(lookup, before, found)
        if self._options.tier is not None and self._options.tier.is_only:
            # A query that was begun beyond the end of the store waits for it.
            latest = {one: max(end, begin.get(one, 0)) for one, end in latest.items()}
        end = latest
        if not isinstance(limit, ReadAllAvailable):
            end = self._admit(lookup, begin, latest)
        self._batch_rows, self._lag_rows = waiting_rows(begin, end), waiting_rows(end, latest)
        if before is not None and before.offsets == end and not _recreated(before, found):
            return start
        return StreamOffset(
            end,
            start=begin if before is None else None,
            topic_ids=found.topic_ids,
            group=self._options.commit_group,
            cluster_id=None if self._options.commit_group is None else lookup.cluster_id(),
        ).write()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name.
        """The ends of all partitions, what the batch leaves unread, and how large it is, about.

        Spark has no place for metrics of a Python source, and shows this in the progress of each
        batch. It is not an offset: no batch begins or ends with it.
        """
        report: dict[str, Any] = {LAG: self._lag_rows}
        size = self._batch_rows * (self._bytes_of_record() or 0)
        if size or not self._batch_rows:
            report[BYTES] = round(size)
        return report | nested(self._latest)

    def _bytes_of_record(self) -> float | None:
        """Looked up now and then; a cluster that does not tell sizes is asked no further."""
        now = time.monotonic()
        if self._lookup is not None and self._batch_rows and now >= self._record_bytes_until:
            self._record_bytes_until = now + SPARK_SIZES_SECONDS
            try:
                self._record_bytes = self._lookup.mean_record_bytes()
            except ClientError:
                self._record_bytes_until = float("inf")
        return self._record_bytes

    def _begin(self) -> Lookup:
        if self._lookup is None:
            tell_warnings(self._options.warnings)
            if self._options.commit_group is not None:
                refuse_active_group(self._options.settings, self._options.commit_group)
            self._lookup = Lookup(self._options)
        return self._lookup

    def _ends(self, lookup: Lookup) -> tuple[Found, PartitionOffsets]:
        if self._final is not None:
            return self._final
        found = lookup.partitions()
        ends = (found, lookup.tier_bounded(lookup.latest(found.partitions), found))
        if self._is_available_now:
            self._final = ends
        return ends

    def _begin_of_batch(
        self, lookup: Lookup, before: StreamOffset | None, found: Found
    ) -> PartitionOffsets:
        if before is None:
            return lookup.resolve(self._options.start, found.partitions)
        recreated = _recreated(before, found)
        return {
            partition: 0 if partition.topic in recreated else offset
            for partition, offset in before.offsets.items()
        }

    def _admit(
        self, lookup: Lookup, begin: PartitionOffsets, latest: PartitionOffsets
    ) -> PartitionOffsets:
        options = self._options
        now = time.monotonic()
        rows = waiting_rows(begin, latest)
        if (
            options.min_offsets_per_trigger is not None
            and rows < options.min_offsets_per_trigger
            and (now - self._admitted_at) * 1000 < options.max_trigger_delay_ms
            # Nobody waits for more data where a run ends with what there is.
            and not self._is_available_now
        ):
            return begin
        if rows:
            self._admitted_at = now
        end = latest
        if options.max_offsets_per_trigger is not None:
            end = limit_rows(begin, latest, options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None and rows:
            densities = lookup.densities(begin, latest)
            by_bytes = limit_bytes(begin, latest, densities, options.max_bytes_per_trigger)
            end = least(end, by_bytes)
        return end

    # --- what batches read

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        last = StreamOffset.read(end)
        if last is None:
            return []
        planned = ranges_between(StreamOffset.read(start), last)
        for loss in planned.losses:
            report_loss(self._options, loss)
        return partitions_of(self._options, planned.ranges, last.topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            yield from RangeReader(self._options, partition.task, self._columns).batches()

    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this when the next batch is planned, so progress comes one batch late."""
        reached = StreamOffset.read(end)
        if reached is not None and self._options.commit_group is not None:
            publish(self._options.settings, self._options.commit_group, reached.offsets)

    def stop(self) -> None:
        """Connections belong to the process, which Spark ends."""


def _recreated(before: StreamOffset, found: Found) -> set[str]:
    return {
        topic
        for topic, topic_id in found.topic_ids.items()
        if before.topic_ids.get(topic, topic_id) != topic_id
    }
