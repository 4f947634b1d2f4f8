"""Where a share group begins in a partition that it has not read: `share.auto.offset.reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.client.consumer.offsets import duration_ms
from kaa.log.errors import LogError
from kaa.serving.offset_search import search_offset
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kaa.model.seams import Clock
    from kaa.replication.partition import Partition


async def start_offset(clock: Clock, executor: Executor, partition: Partition, reset: str) -> int:
    """The offset; LogError if it is not known now."""
    log = partition.online_log()
    if reset == "earliest":
        return log.log_start_offset
    if partition.is_behind_predecessor():
        raise LogError(Errors.OFFSET_NOT_AVAILABLE, "the high watermark is not known yet")
    end = log.high_watermark
    if reset == "latest":
        return end
    timestamp = clock.wall_ms() - duration_ms(reset.partition(":")[2])
    found = await search_offset(executor, partition, max(0, timestamp))
    return end if found is None or found.offset > end else found.offset
