"""Every object of remote segments read and judged: a Spark job, or a loop in this process.

| Kind | Meaning |
|---|---|
| missing | an object is not there |
| damaged | an object or a batch has another size or checksum than was written |
| offsets | a batch lies outside of its segment, or does not follow the one before it |
| epochs | a batch has another leader epoch than the metadata says for its offsets |
| index | an entry of the offset index does not lead to a batch |

Offsets without a record, which compaction and aborted appends leave, are counted, not as faults.
Segments are never rewritten: the metadata has no way to replace one in the middle of a history.
Small ones are counted, since the settings of the topic can keep them from being made.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.limits import SPARK_TIER_SMALL_SEGMENT_BYTES, SPARK_TIER_TASK_BYTES
from kaa.records.batch import RecordBatch
from kaa.records.checksum import crc32c
from kaa.records.errors import RecordsError
from kaa.records.legacy import iter_any_batches
from kaa.spark.brokers import loop_of_process
from kaa.spark.tier.plan import Piece
from kaa.spark.tier.remote_segments import Scan
from kaa.spark.tier.stores import store_of
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import ObjectMissingError, StoreError
from kaa.tier.store.segments import (
    DamagedObjectError,
    RemoteSegments,
    WrittenObject,
    decode_written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaa.spark.tier.stores import StoreReference
    from kaa.tier.metadata.model import SegmentMetadata

_INDEX_ENTRY: Final = Struct(">ii")
_SMALL_PARTS: Final = tuple(part for part in Part if part is not Part.LOG)


class AuditFinding(NamedTuple):
    """Something that is not as it should be."""

    kind: str
    what: str


class SegmentReport(NamedTuple):
    """What was found in one segment."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    segment_id: str
    bytes: int
    batches: int
    records: int
    # Offsets without a record between the first batch and the last one.
    absent: int
    findings: tuple[AuditFinding, ...]

    @property
    def is_small(self) -> bool:
        return self.bytes < SPARK_TIER_SMALL_SEGMENT_BYTES


class AuditTask(NamedTuple):
    """Segments that one task reads."""

    store: StoreReference
    segments: tuple[SegmentMetadata, ...]


def audit_tasks(store: StoreReference, segments: Iterable[SegmentMetadata]) -> list[AuditTask]:
    """Whole segments, the small ones together."""
    tasks: list[AuditTask] = []
    size = 0
    for segment in segments:
        if tasks and size + segment.size_bytes <= SPARK_TIER_TASK_BYTES:
            tasks[-1] = AuditTask(store, (*tasks[-1].segments, segment))
            size += segment.size_bytes
        else:
            tasks.append(AuditTask(store, (segment,)))
            size = segment.size_bytes
    return tasks


def audit(task: AuditTask) -> list[SegmentReport]:
    """Reads the segments of a task; what runs on executors."""
    segments = RemoteSegments(store_of(task.store))
    return [_SegmentAudit(segments, one).report() for one in task.segments]


def run_tasks(
    tasks: list[AuditTask], spark: Any, advance: Callable[[list[SegmentReport]], None]
) -> None:
    """Runs tasks on a session of Spark, or in this process if there is none, and hands out what
    each finds when it is there.
    """
    if spark is None:
        for task in tasks:
            advance(audit(task))
        return
    # A job of some tasks for each core, so that progress is reported.
    step = 4 * int(spark.sparkContext.defaultParallelism)
    for first in range(0, len(tasks), step):
        some = tasks[first : first + step]
        parts = spark.sparkContext.parallelize(some, len(some))
        advance(list(parts.flatMap(audit).collect()))


class _SegmentAudit:
    """Reads one segment."""

    def __init__(self, segments: RemoteSegments, segment: SegmentMetadata) -> None:
        self._segments = segments
        self._segment = segment
        self._loop = loop_of_process()
        self._findings: list[AuditFinding] = []
        self._batches = self._records = self._absent = 0
        self._size = self._crc = 0
        self._positions: set[int] = set()
        # After the last batch.
        self._next_offset: int | None = None

    def report(self) -> SegmentReport:
        segment = self._segment
        self._read_log()
        for part in _SMALL_PARTS:
            self._read_part(part)
        return SegmentReport(
            segment.partition.topic,
            segment.partition.partition,
            segment.start_offset,
            segment.end_offset,
            str(segment.segment_id),
            segment.size_bytes,
            self._batches,
            self._records,
            self._absent,
            tuple(self._findings),
        )

    def _add(self, kind: str, what: str) -> None:
        self._findings.append(AuditFinding(kind, what))

    def _read_log(self) -> None:
        segment = self._segment
        name = object_name(segment, Part.LOG)
        piece = Piece(segment, segment.start_offset, segment.end_offset + 1)
        try:
            for chunk in Scan(self._loop, self._segments, [piece], ()).chunks():
                self._crc = crc32c(chunk.data, self._crc)
                for batch in iter_any_batches(chunk.data):
                    self._judge(name, batch)
        except ObjectMissingError:
            self._add("missing", name)
            return
        except (StoreError, RecordsError) as error:
            self._add("damaged", f"{name}: {error}")
            return
        found = WrittenObject(self._size, self._crc)
        expected = decode_written(segment.custom_metadata).get(Part.LOG, found)
        if found != expected:
            self._add("damaged", f"{name} has checksum {found.crc:08x}, not {expected.crc:08x}")

    def _judge(self, name: str, batch: Any) -> None:
        place, segment = self._size, self._segment
        self._positions.add(place)
        self._size += batch.size_in_bytes
        self._batches += 1
        first, after = batch.base_offset, batch.next_offset
        where = f"{name} at byte {place}"
        if first < (segment.start_offset if self._next_offset is None else self._next_offset):
            self._add("offsets", f"{where}: offset {first} does not follow those before it")
        elif after > segment.end_offset + 1:
            self._add("offsets", f"{where}: offset {after - 1} lies after {segment.end_offset}")
        elif self._next_offset is not None:
            self._absent += first - self._next_offset
        self._next_offset = after
        if not isinstance(batch, RecordBatch):
            return
        self._records += batch.record_count
        self._absent += after - first - batch.record_count
        if not batch.is_valid_crc():
            self._add("damaged", f"{where}: the checksum of the batch is wrong")
        expected = [one.epoch for one in segment.leader_epochs if one.offset <= first][-1:]
        if expected != [batch.partition_leader_epoch]:
            self._add(
                "epochs",
                f"{where}: epoch {batch.partition_leader_epoch}, the metadata has {expected}",
            )

    def _read_part(self, part: Part) -> None:
        name = object_name(self._segment, part)
        try:
            data = self._loop.call(self._segments.read_part(self._segment, part))
        except ObjectMissingError:
            self._add("missing", name)
        except DamagedObjectError as error:
            self._add("damaged", str(error))
        except StoreError as error:
            self._add("damaged", f"{name}: {error}")
        else:
            if part is Part.OFFSET_INDEX and self._batches:
                for position in _positions(data or b""):
                    if position not in self._positions:
                        self._add("index", f"{name}: no batch begins at byte {position}")
                        return


def _positions(index: bytes) -> Iterator[int]:
    whole = index[: len(index) // _INDEX_ENTRY.size * _INDEX_ENTRY.size]
    for number, (relative, position) in enumerate(_INDEX_ENTRY.iter_unpack(whole)):
        # What a JVM broker copied may end in zeros.
        if number and (relative, position) == (0, 0):
            return
        yield position
