"""The store of the world: what all brokers tier to, with faults of its own.

An object appears whole, when the last part of its upload has arrived; a process that dies before
leaves nothing. Each request takes a while. What may go wrong is chosen by faults:

| Fault | What the store does while it lasts |
|---|---|
| store slow | everything takes up to some seconds |
| store down | refuses everything |
| uploads cut | loses the connection in the middle of most uploads |
| answers lost | does what it is asked, and now and then the answer is lost |
| short ranges | gives fewer bytes than were asked for, now and then |
| damaged ranges | gives a wrong byte, now and then, of those that some checksum covers |

What must be so, whatever happens:

| Name | What may not happen |
|---|---|
| object-changed | an object is written again with something else in it |
| named-deleted | an object goes while everybody who knows its segment takes it for readable |
| lost-locally | a record is gone from a disk, and no remote segment has it |
| orphan | after healing, an object stays without metadata, or that of a deleted topic |
| object-missing | after healing, metadata names an object that is not there |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, cast

from kaa.records.batch import CRC_POSITION, iter_batches
from kaa.tier.metadata.machine import RemoteMetadataError
from kaa.tier.metadata.model import SegmentState
from kaa.tier.store.layout import Part, object_name, parse_name
from kaa.tier.store.objects import ObjectInfo, ObjectMissingError, StoreError
from tests.simulation.world.committed import InvariantError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
    from pathlib import Path

    from kaa.replication.partition import Partition
    from kaa.tier.metadata.model import SegmentMetadata, TopicIdPartition
    from kaa.tier.store.layout import ObjectName
    from tests.simulation.world.kernel import Kernel
    from tests.simulation.world.processes import Node

PART_BYTES = 16_384
REQUEST_SECONDS_MIN = 0.001
REQUEST_SECONDS_MAX = 0.01
_CUT_SHARE = 0.6
_LOST_SHARE = 0.3
_BAD_SHARE = 0.3


class SimStore:
    """See the module's text. `nodes` are those who use it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.nodes: Sequence[Node] = ()
        self.objects: dict[str, bytes] = {}
        self.counts: Counter[str] = Counter()
        # The faults that are in force, by their names.
        self.faults: Counter[str] = Counter()
        self.slowness = 1.0
        # What may not be, and was first.
        self.violation: InvariantError | None = None

    # --- requests

    async def put(self, name: str, source: Path | bytes) -> None:
        data = cast("bytes", source)
        for start in range(0, max(len(data), 1), PART_BYTES):
            await self._request(name)
            if self._happens("uploads cut", _CUT_SHARE):
                raise StoreError(f"{name}: the connection was lost after {start} bytes")
        if self.objects.get(name, data) != data:
            raise self._violation("object-changed", name)
        self.objects[name] = data
        self.counts["objects written"] += 1
        self._answer(name)

    async def get(self, name: str) -> bytes:
        await self._request(name)
        data = self._object(name)
        self.counts["objects read"] += 1
        return self._received(name, 0, data)

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        await self._request(name)
        data = self._object(name)[start:end]
        self.counts["ranges read"] += 1
        return self._received(name, start, data)

    async def size(self, name: str) -> int:
        await self._request(name)
        return len(self._object(name))

    async def delete(self, names: Iterable[str]) -> None:
        for name in names:
            await self._request(name)
            if name in self.objects:
                self._check_unnamed(name)
                del self.objects[name]
                self.counts["objects deleted"] += 1
            self._answer(name)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        await self._request(prefix)
        for name in sorted(self.objects):
            if name.startswith(prefix):
                yield ObjectInfo(name, len(self.objects[name]))

    def _object(self, name: str) -> bytes:
        try:
            return self.objects[name]
        except KeyError:
            raise ObjectMissingError(name) from None

    async def _request(self, name: str) -> None:
        seconds = self._kernel.random.uniform(REQUEST_SECONDS_MIN, REQUEST_SECONDS_MAX)
        await asyncio.sleep(seconds * self.slowness)
        if self.faults["store down"]:
            self.counts["requests refused"] += 1
            raise StoreError(f"{name}: the store refuses")

    def _answer(self, name: str) -> None:
        if self._happens("answers lost", _LOST_SHARE):
            raise StoreError(f"{name}: the answer was lost")

    def _received(self, name: str, start: int, data: bytes) -> bytes:
        if data and self._happens("short ranges", _BAD_SHARE):
            return data[: self._kernel.random.randrange(len(data))]
        if data and self._happens("damaged ranges", _BAD_SHARE):
            place = self._kernel.random.randrange(len(data))
            if name.endswith(Part.LOG.value):
                place = _proven(self.objects[name], start + place) - start
            return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        return data

    def _happens(self, fault: str, share: float) -> bool:
        is_so = self.faults[fault] > 0 and self._kernel.random.random() < share
        self.counts[f"times of {fault}"] += is_so
        return is_so

    # --- what must be so

    def _violation(self, name: str, detail: str) -> InvariantError:
        """Nodes go on after any error of their store, so that it is kept for the story."""
        self.violation = self.violation or InvariantError(name, detail)
        return self.violation

    def known(self, partition: TopicIdPartition) -> Iterator[tuple[SegmentMetadata, ...]]:
        """The segments of a partition, as each node that may say so knows them."""
        for node in self.nodes:
            tiering = None if node.broker is None else node.broker._tiering
            if tiering is not None:
                try:
                    yield tiering._metadata.user(partition).cache.segments()
                except RemoteMetadataError:
                    continue

    def _check_unnamed(self, name: str) -> None:
        named = parse_name(name)
        assert named is not None, name
        states = [
            segment.state
            for segments in self.known(named.partition)
            for segment in segments
            if segment.segment_id == named.segment_id
        ]
        if states and all(state == SegmentState.COPY_SEGMENT_FINISHED for state in states):
            raise self._violation("named-deleted", name)

    def check_local_start(self, partition: TopicIdPartition, replicas: Sequence[Partition]) -> None:
        """What left a disk is in the store: all offsets from the start of the log on."""
        logs = [replica.log for replica in replicas if replica.log is not None]
        offset = max(log.log_start_offset for log in logs)
        local = max(log.local_log_start_offset for log in logs)
        if local <= offset:
            return
        readable = sorted(
            (segment.start_offset, segment.end_offset)
            for segments in self.known(partition)
            for segment in segments
            if object_name(segment, Part.LOG) in self.objects
        )
        for start, end in readable:
            if start <= offset <= end:
                offset = end + 1
        if readable and offset < local:
            where = f"{partition.topic}-{partition.partition}"
            detail = f"{where}: {offset} is not on a disk from {local} on, {readable}"
            raise InvariantError("lost-locally", detail)

    def problems(self, deleted: Iterable[str]) -> Sequence[str]:
        """What is left in the store, or missing there, once everything has settled."""
        gone = set(deleted)
        found = []
        for name in sorted(self.objects):
            named = parse_name(name)
            assert named is not None, name
            if named.partition.topic in gone:
                found.append(f"orphan: {name} of a deleted topic")
            elif not self._is_named(named):
                found.append(f"orphan: {name} without metadata")
        partitions = {named.partition for named in map(parse_name, self.objects) if named}
        for partition in sorted(partitions):
            for segments in self.known(partition):
                found += [
                    f"object-missing: {object_name(segment, Part.LOG)}"
                    for segment in segments
                    if segment.state == SegmentState.COPY_SEGMENT_FINISHED
                    and object_name(segment, Part.LOG) not in self.objects
                ]
        return found

    def _is_named(self, named: ObjectName) -> bool:
        known = list(self.known(named.partition))
        return any(
            segment.segment_id == named.segment_id for segments in known for segment in segments
        )


def _proven(content: bytes, place: int) -> int:
    """This byte of a log, or one nearby that the checksum of its batch covers: offsets and epochs
    are outside.
    """
    for batch in iter_batches(content):
        if batch.position <= place < batch.end:
            return max(place, batch.position + CRC_POSITION)
    return place
