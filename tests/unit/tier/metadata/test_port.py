from __future__ import annotations

import asyncio

import pytest

from kaa.tier.metadata.machine import NotAssignedError
from kaa.tier.metadata.model import SegmentState
from kaa.tier.metadata.port import MemoryMetadata
from tests.unit.tier.metadata.samples import PARTITION, segment, update


def test_the_twin_in_memory() -> None:
    metadata = MemoryMetadata()
    with pytest.raises(NotAssignedError):
        asyncio.run(metadata.publish(segment(1, 0, 9)))
    metadata.assign([PARTITION])
    assert metadata.is_ready(PARTITION)
    asyncio.run(metadata.publish(segment(1, 0, 9)))
    asyncio.run(metadata.publish(update(1, SegmentState.COPY_SEGMENT_FINISHED)))
    metadata.unassign([PARTITION])
    assert metadata.user(PARTITION).cache.find(0, 5) is not None
