"""The stream reader of the format `kaa_table`: what was added to a table, batch by batch.

`increments` says what a stream reads and how far it is. The first position of a query is found when
its first batch is planned, and is kept in the end of that batch, as with topics: Spark asks for an
initial offset again and again, and keeps none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from kaa.spark.formats.untyped import pa, pc
from kaa.spark.lake.increments import (
    BEFORE_ALL,
    Limits,
    StreamPosition,
    end_of_batch,
    files_between,
)
from kaa.spark.lake.table import LakeError, TableState
from kaa.spark.lake.table_state import ReadPlan, offsets_option, open_existing, read_file
from kaa.spark.option_names import TABLE, check_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from kaa.spark.formats.untyped import RecordBatch
    from kaa.spark.lake.iceberg.table import IcebergTable
    from kaa.spark.lake.increments import Changes

_CHANGES: Final = ("fail", "skip", "added")
_START: Final = "start"
_FILES_WITHOUT_LIMIT: Final = 2**31 - 1


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver for a run of a query; copies of it read files on executors."""

    def __init__(self, options: Mapping[str, str], schema: StructType | list[str]) -> None:
        check_names(options, TABLE, ("catalog.", "store."))
        self._options = {name.lower(): value for name, value in options.items()}
        self._names = schema if isinstance(schema, list) else [one.name for one in schema.fields]
        changes = self._options.get("changes", "fail")
        if changes not in _CHANGES:
            raise LakeError(f"option changes is one of {', '.join(_CHANGES)}, not {changes}")
        self._changes = cast("Changes", changes)
        self._limits = Limits(
            self._number("maxFilesPerTrigger"), self._number("maxBytesPerTrigger")
        )
        self._from = offsets_option(self._options.get("fromoffsets"), "fromOffsets")
        self._is_available_now = False
        # With AvailableNow, where everything ends; found when it is first needed.
        self._final: str | None = None
        self._head = BEFORE_ALL

    def __reduce__(self) -> tuple[Any, ...]:
        return TableStreamReader, (self._options, self._names)

    def _number(self, name: str) -> int | None:
        text = self._options.get(name.lower())
        if text is None:
            return None
        if not text.isdecimal() or int(text) < 1:
            raise LakeError(f"option {name} is a number from 1 on, not {text}")
        return int(text)

    def _table(self) -> IcebergTable:
        settings, table = open_existing(self._options)
        from kaa.spark.lake.iceberg.catalog import IcebergLake

        if not isinstance(table, IcebergLake):
            raise LakeError(f"{settings.table} is a folder of Parquet files; streams read Iceberg")
        return table.data

    # --- where batches end

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name.
        """Says nothing: the first batch carries its start."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name.
        if self._limits == Limits():
            return ReadAllAvailable()
        # Two limits cannot be passed on; what counts is in the options.
        return ReadMaxFiles(self._limits.files or _FILES_WITHOUT_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name.
        self._is_available_now = True

    def latestOffset(  # noqa: N802  Spark's name.
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        table = self._table()
        before = StreamPosition.read(start)
        lineage = table.lineage()
        self._head = lineage[-1].snapshot if lineage else BEFORE_ALL
        if self._is_available_now:
            self._final = self._head = self._final or self._head
        begin = before or self._begin(table)
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._limits
        end = begin
        if self._head != BEFORE_ALL:
            end = end_of_batch(table, begin, self._head, self._changes, limits)
        if end == before:
            return start
        written = end.write()
        return written if before is not None else {**written, _START: begin.write()}

    def _begin(self, table: IcebergTable) -> StreamPosition:
        starting = self._options.get("startingversion", "earliest")
        if starting == "latest" or self._head == BEFORE_ALL:
            return StreamPosition(self._head)
        if starting == "earliest":
            return StreamPosition(self._head, 0, is_whole=True)
        if starting not in {one.snapshot for one in table.lineage()}:
            raise LakeError(
                f"startingVersion is earliest, latest or a snapshot of the table, not {starting}"
            )
        return StreamPosition(starting)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name.
        """The newest snapshot: with the end of the batch beside it, the lag."""
        return StreamPosition(self._head).write()

    # --- what batches read

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        last = StreamPosition.read(end)
        if last is None:
            return []
        first = StreamPosition.read(start) or StreamPosition.read(end[_START])
        assert first is not None, "the first batch carries its start"
        files = files_between(self._table(), first, last, self._changes)
        if not files:
            return []
        table = self._table()
        schema = pa.schema(
            [table.write_schema().field(one).remove_metadata() for one in self._needed()]
        )
        plan = ReadPlan(TableState("", {}, "", None), (), schema, table.reader())
        return [InputPartition((plan, one)) for one in files]

    def _needed(self) -> list[str]:
        more = ("partition", "offset") if self._from else ()
        return [*self._names, *(one for one in more if one not in self._names)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        if partition.value is None:
            return
        plan, file = partition.value
        for batch in read_file(replace(plan), file):
            rows = batch if self._from is None else batch.filter(_from_on(batch, self._from))
            yield rows.select(self._names)


def _from_on(rows: RecordBatch, starts: Mapping[int, int]) -> Any:
    """Which rows are not before the offset that their partition starts at."""
    left = pa.array([False] * rows.num_rows)
    for partition, offset in starts.items():
        here = pc.equal(rows.column("partition"), pa.scalar(partition, pa.int32()))
        left = pc.or_(left, pc.and_(here, pc.less(rows.column("offset"), pa.scalar(offset))))
    return pc.invert(left)
