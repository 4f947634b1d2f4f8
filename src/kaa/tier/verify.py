"""Compares what the metadata says of a remote log with the objects that are there and the log.

Nothing is repaired: an object without metadata may be a copy under way, and only its leader knows.
What is looked for:

| Kind | Meaning |
|---|---|
| missing | a readable segment lacks an object |
| damaged | an object has another size, or with `deep` another checksum, than was written |
| orphan | an object belongs to no segment that the metadata knows |
| gap | offsets from the start of the log to its local start are in no readable segment |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.tier.metadata.model import SegmentState
from kaa.tier.store.layout import Part, folder, object_name, parse_name
from kaa.tier.store.segments import DamagedObjectError, RemoteSegments, decode_written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kaa.tier.metadata.cache import RemoteLogCache
    from kaa.tier.metadata.model import SegmentMetadata, TopicIdPartition
    from kaa.tier.store.objects import ObjectStore


class TierProblem(NamedTuple):
    """Something that is not as it should be."""

    kind: str
    what: str


def readable(cache: RemoteLogCache) -> list[SegmentMetadata]:
    """The segments that readers may use, by their offsets."""
    found = (one for one in cache.segments() if one.state == SegmentState.COPY_SEGMENT_FINISHED)
    return sorted(found, key=lambda one: (one.start_offset, one.end_offset))


def gaps(segments: Sequence[SegmentMetadata], start: int, local_start: int) -> list[TierProblem]:
    """Offsets that nobody has; segments come in their order."""
    found, position = [], start
    for segment in segments:
        if segment.start_offset > position and position < local_start:
            end = min(segment.start_offset, local_start) - 1
            found.append(TierProblem("gap", f"offsets {position} to {end}"))
        position = max(position, segment.end_offset + 1)
    if position < local_start:
        found.append(TierProblem("gap", f"offsets {position} to {local_start - 1}"))
    return found


async def verify(
    store: ObjectStore,
    partition: TopicIdPartition,
    cache: RemoteLogCache,
    *,
    start: int,
    local_start: int,
    deep: bool,
) -> AsyncIterator[TierProblem]:
    """Yields what is wrong with a remote log, by the table above; `deep` reads every object.
    StoreError if the store does not answer.
    """
    sizes = {info.name: info.size_bytes async for info in store.list(folder(partition))}
    segments = readable(cache)
    for segment in segments:
        for finding in _parts(segment, sizes):
            yield finding
        if deep:
            try:
                await RemoteSegments(store).verify(segment)
            except DamagedObjectError as error:
                yield TierProblem("damaged", str(error))
    for name in sizes:
        parsed = parse_name(name)
        if parsed is None or parsed.segment_id not in cache:
            yield TierProblem("orphan", name)
    for finding in gaps(segments, start, local_start):
        yield finding


def _parts(segment: SegmentMetadata, sizes: dict[str, int]) -> list[TierProblem]:
    """Objects that are not there, or have the wrong size. A segment of a JVM broker has no list of
    them, and only its log is known to be there.
    """
    written = decode_written(segment.custom_metadata)
    expected = {part: one.size_bytes for part, one in written.items()}
    expected[Part.LOG] = segment.size_bytes
    found = []
    for part, size in expected.items():
        name = object_name(segment, part)
        if name not in sizes:
            found.append(TierProblem("missing", name))
        elif sizes[name] != size:
            found.append(TierProblem("damaged", f"{name} has {sizes[name]} bytes, not {size}"))
    return found
