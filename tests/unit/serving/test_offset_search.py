from __future__ import annotations

import pytest

from kaa.records.batch import CompressionType
from kaa.records.build import BatchBuilder
from kaa.serving.offset_search import search_offset
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.GZIP])
def test_the_first_record_at_or_after_a_time(node: Node, compression: CompressionType) -> None:
    node.create_topic("t")
    partition = node.partition("t")
    for first in (100, 200):
        builder = BatchBuilder(compression_type=compression)
        for number in range(5):
            builder.append(first + number, None, b"value")
        partition.append(bytearray(builder.build()), now_ms=0)

    async def found(timestamp: int) -> int | None:
        answer = await search_offset(node.services.batch_work, partition, timestamp)
        return None if answer is None else answer.offset

    asked = (0, 102, 150, 204, 205)
    assert [node.run(found(timestamp)) for timestamp in asked] == [0, 2, 5, 9, None]
