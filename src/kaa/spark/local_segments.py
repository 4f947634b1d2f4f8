"""Closed segments read straight from the files of a broker on this machine.

A closed segment never changes: it is deleted, or compaction puts another file in its place. So a
task that can see the files of the leader need not ask the leader for their content; what is not in
closed segments it fetches as always. The option `localFiles` allows it.

What makes it safe:

- The folder is the leader's own: the broker names it (DescribeLogDirs), `meta.properties` in it
  has the id of the cluster and of the leader, and `partition.metadata` the id of the topic.
- Nothing is read at or above the end that the broker gives for the isolation level of the query:
  the high watermark, or the last stable offset. Batches never lie across it.
- Aborted transactions are those of the segment's own index and of those after it, since a
  transaction is listed where its marker is.
- An entry is dropped only when the data is gone, so log and index must be of the same state. Both
  are opened, then the name of the log must still lead to the file that was opened: compaction and
  deletion rename the log first.
- A file that is not there, or no longer the same, ends local reading, and the rest is fetched.

An entry of the offset index `.index` has 8 bytes: the offset less the segment's base, and the
position in the log; the last one at or before an offset is where to begin looking. An entry of
`.txnindex` has 34:

| offset | bytes | field |
|---|---|---|
| 0 | 2 | version |
| 2 | 8 | producer id |
| 10 | 8 | first offset |
| 18 | 8 | offset of the marker |
| 26 | 8 | last stable offset |
"""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kaa.client.consumer.offsets import READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from kaa.client.errors import ClientError
from kaa.model.topics import TopicPartition
from kaa.records.batch import (
    BASE_TIMESTAMP_POSITION,
    LAST_OFFSET_DELTA_POSITION,
    LOG_OVERHEAD,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
)
from kaa.spark.offsets import EARLIEST, LATEST
from kaa.wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.spark.brokers import Brokers
    from kaa.spark.options import SourceOptions
    from kaa.spark.range_reader import Task

_INT: Final = Struct(">i")
_INDEX_ENTRY: Final = Struct(">ii")
_ABORTED_ENTRY: Final = Struct(">hqqqq")


class Chunk(NamedTuple):
    """Whole batches, the transactions to pass over in them, and the offset after them."""

    data: memoryview
    aborted: list[tuple[int, int]]
    next_offset: int


class _Aborted(NamedTuple):
    """A transaction that was aborted, from its first record to its marker."""

    producer_id: int
    first: int
    last: int


class _Place(NamedTuple):
    """Where the partition lies, and up to which offset it may be read."""

    folder: Path
    end: int


def local_batches(brokers: Brokers, options: SourceOptions, task: Task) -> Iterator[Chunk]:
    """As much of a range as lies in closed segments on this machine, in order."""
    try:
        place = _locate(brokers, options, task)
    except ClientError:
        return
    if place is None:
        return
    position = task.range.start
    while position < place.end:
        try:
            segment = _Segment.containing(place.folder, position)
        except OSError:
            return
        if segment is None:
            return
        with segment:
            start = position
            for chunk in segment.chunks(place.end, position, options):
                position = chunk.next_offset
                yield chunk
            position = max(position, segment.next_base)
            if position == start:
                return


def _locate(brokers: Brokers, options: SourceOptions, task: Task) -> _Place | None:
    partition, start, end = task.range
    cluster = brokers.cluster
    brokers.call(cluster.topic(partition.topic, brokers.timeout_ms))
    leader = cluster.leader_or_raise(*partition)
    request = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=partition.topic, partitions=[partition.partition])]
    )
    what = f"log directory of {partition}"
    response = brokers.call(cluster.call(request, what, brokers.timeout_ms, node_id=leader))
    for result in response.results:
        holds = any(
            TopicPartition(topic.name, replica.partition_index) == partition
            for topic in result.topics
            for replica in topic.partitions
            if not replica.is_future_key
        )
        folder = Path(result.log_dir, str(partition))
        identity = (cluster.metadata.cluster_id, leader, task.topic_id)
        if holds and _is_same(folder, *identity):
            break
    else:
        return None
    isolation = READ_COMMITTED if options.is_read_committed else READ_UNCOMMITTED
    bounds = {
        time: brokers.call(list_offsets(cluster, {partition: time}, brokers.timeout_ms, isolation))
        for time in (EARLIEST, LATEST)
    }
    if start < bounds[EARLIEST][partition].offset:
        # Data is lost, which the fetch that follows will find and tell.
        return None
    return _Place(folder, min(end, bounds[LATEST][partition].offset))


def _is_same(folder: Path, cluster_id: str | None, node_id: int, topic_id: str | None) -> bool:
    """Whether this folder is the partition of that broker, cluster and topic."""
    try:
        node = _properties(folder.parent / "meta.properties", "=")
        topic = _properties(folder / "partition.metadata", ":")
    except OSError:
        return False
    return (
        None not in (cluster_id, topic_id)
        and node.get("cluster.id") == cluster_id
        and node.get("node.id") == str(node_id)
        and topic.get("topic_id") == topic_id
    )


def _properties(path: Path, separator: str) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    pairs = (line.partition(separator) for line in lines if not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


class _Segment:
    """One closed segment, opened; as a context it is closed at the end."""

    def __init__(self, folder: Path, bases: list[int], number: int) -> None:
        self._folder = folder
        self._later_bases = bases[number:]
        self._base = bases[number]
        self.next_base = bases[number + 1]
        self._path = self._file(self._base, "log")
        self._descriptor = os.open(self._path, os.O_RDONLY)

    @classmethod
    def containing(cls, folder: Path, offset: int) -> _Segment | None:
        """The closed segment that an offset lies in; None if only the active one may have it."""
        bases = sorted(int(path.stem) for path in folder.glob("*.log") if path.stem.isdecimal())
        number = bisect_right(bases, offset) - 1
        if number < 0 or number + 1 >= len(bases):
            return None
        return cls(folder, bases, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    def _file(self, base: int, kind: str) -> Path:
        return self._folder / f"{base:020}.{kind}"

    def chunks(self, end: int, offset: int, options: SourceOptions) -> Iterator[Chunk]:
        """Whole batches from the one with this offset on, up to an end."""
        aborted: list[_Aborted] = []
        try:
            if options.is_read_committed:
                aborted = self._aborted()
            position = self._position_of(offset)
            if not os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                return
        except OSError:
            return
        size = os.fstat(self._descriptor).st_size
        length = options.fetch_bytes
        while position < size:
            data = memoryview(os.pread(self._descriptor, length, position))
            whole, next_offset, first_bytes = _whole_batches(data, end)
            if not whole:
                if first_bytes <= length:
                    return
                length = first_bytes
                continue
            # A transaction that ended before must not hide what its producer wrote later.
            hidden = [(one.producer_id, one.first) for one in aborted if one.last >= offset]
            yield Chunk(data[:whole], hidden, next_offset)
            position += whole
            offset = next_offset
            length = options.fetch_bytes

    def _position_of(self, offset: int) -> int:
        try:
            index = self._file(self._base, "index").read_bytes()
        except FileNotFoundError:
            return 0
        entries = list(_INDEX_ENTRY.iter_unpack(index[: len(index) // 8 * 8]))
        number = bisect_right(entries, (offset - self._base, 1 << 31)) - 1
        return int(entries[number][1]) if number >= 0 else 0

    def _aborted(self) -> list[_Aborted]:
        """The aborted transactions of this segment and of those after it."""
        found: list[_Aborted] = []
        for base in self._later_bases:
            try:
                index = self._file(base, "txnindex").read_bytes()
            except FileNotFoundError:
                continue
            whole = len(index) // _ABORTED_ENTRY.size * _ABORTED_ENTRY.size
            found += [
                _Aborted(producer_id, first, last)
                for _, producer_id, first, last, _ in _ABORTED_ENTRY.iter_unpack(index[:whole])
            ]
        return found


def _whole_batches(data: memoryview, end: int) -> tuple[int, int, int]:
    """Bytes of whole batches that begin before an offset, the offset after them, and the size of
    the first batch, should it be longer than all that is here.
    """
    position = 0
    next_offset = 0
    first_bytes = 0
    while len(data) - position >= BASE_TIMESTAMP_POSITION:
        base_offset, length = LOG_OVERHEAD.unpack_from(data, position)
        batch_bytes = LOG_OVERHEAD_BYTES + length
        first_bytes = first_bytes or batch_bytes
        if length <= 0 or base_offset >= end or position + batch_bytes > len(data):
            break
        next_offset = base_offset + 1
        if data[position + MAGIC_POSITION] >= MAGIC_V2:
            next_offset += _INT.unpack_from(data, position + LAST_OFFSET_DELTA_POSITION)[0]
        position += batch_bytes
    return position, next_offset, first_bytes
