"""The first record at or after a time, without holding the loop: batches that take long to look
through are looked through by a thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaa.limits import SEARCH_ON_LOOP_BYTES_MAX
from kaa.log.lookup import BatchSearch, look_up

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kaa.log.log import UnifiedLog
    from kaa.log.lookup import TimestampAndOffset


async def search_offset(
    executor: Executor, log: UnifiedLog, timestamp: int
) -> TimestampAndOffset | None:
    found = look_up(log, timestamp)
    while isinstance(found, BatchSearch):
        batch = found.batch
        if batch.is_compressed or batch.size_in_bytes > SEARCH_ON_LOOP_BYTES_MAX:
            answer = await asyncio.get_running_loop().run_in_executor(executor, found.run)
        else:
            answer = found.run()
        if answer is not None:
            return answer
        found = look_up(log, timestamp, found.next_offset)
    return found
