"""The partitions of a fetch whose records are in remote storage.

They are read beside each other while the other partitions of the answer wait, for at most
`remote.fetch.max.wait.ms`. What is not there by then stays empty: the store goes on reading, and
the client's next fetch finds it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kaa.log.errors import LogError
from kaa.wire.messages.k01_fetch import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.log.log import FetchIsolation
    from kaa.replication.partition import Partition
    from kaa.serving.remote_logs import RemoteLogs
    from kaa.wire.messages.k01_fetch import PartitionData


class RemotePart(NamedTuple):
    """What is to be read of one partition, and the answer that it goes to."""

    partition: Partition
    offset: int
    bytes_max: int
    min_one: bool
    isolation: FetchIsolation
    result: PartitionData


async def read_remote(remote_logs: RemoteLogs, parts: Iterable[RemotePart]) -> None:
    """Fills in the answers of all parts."""
    try:
        async with asyncio.timeout(remote_logs.wait_seconds_max), asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(_read(remote_logs, part))
    except TimeoutError:
        return


async def _read(remote_logs: RemoteLogs, part: RemotePart) -> None:
    result = part.result
    try:
        found = await remote_logs.read(
            part.partition,
            part.offset,
            bytes_max=part.bytes_max,
            min_one=part.min_one,
            isolation=part.isolation,
        )
    except LogError as failure:
        result.error_code = failure.error
        result.high_watermark = result.last_stable_offset = result.log_start_offset = -1
        result.aborted_transactions = None
        return
    result.records = found.data
    if found.aborted is not None:
        result.aborted_transactions = [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in found.aborted
        ]
