"""The first record at or after a time, without holding the loop: batches that take long to look
through are looked through by a thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaa.limits import SEARCH_ON_LOOP_BYTES_MAX
from kaa.log.lookup import BatchSearch, look_up
from kaa.records.errors import CorruptRecordsError, RecordsError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kaa.log.lookup import TimestampAndOffset
    from kaa.replication.partition import Partition


async def search_offset(
    executor: Executor, partition: Partition, timestamp: int
) -> TimestampAndOffset | None:
    """In the log that the partition has at each moment: it may move meanwhile. LogError."""
    found = look_up(partition.online_log(), timestamp)
    while isinstance(found, BatchSearch):
        try:
            answer = await _search(executor, found)
        except RecordsError as error:
            damage = CorruptRecordsError(f"the batch up to offset {found.next_offset - 1}: {error}")
            raise partition.online_log().damaged(damage) from error
        if answer is not None:
            return answer
        found = look_up(partition.online_log(), timestamp, found.next_offset)
    return found


async def _search(executor: Executor, search: BatchSearch) -> TimestampAndOffset | None:
    batch = search.batch
    if batch.is_compressed or batch.size_in_bytes > SEARCH_ON_LOOP_BYTES_MAX:
        return await asyncio.get_running_loop().run_in_executor(executor, search.run)
    return search.run()
