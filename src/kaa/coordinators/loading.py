"""Brings a partition of a coordinator's topic into the memory of its machine.

The whole partition is replayed, in slices between which the loop serves clients; files are read by
a thread. Records of a transaction count when its marker comes, which the machine sees to.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.limits import RECORDS_PER_PIECE, SMALL_RECORD_BYTES
from kaa.log.log import FetchIsolation
from kaa.model.threads import outlasted
from kaa.records.batch import NO_PRODUCER_ID
from kaa.records.control import ControlRecordType, read_end_transaction_marker
from kaa.records.legacy import iter_upgraded_batches
from kaa.records.record import iter_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from kaa.coordinators.machine import Machine, Moment
    from kaa.coordinators.records import RecordTypes
    from kaa.records.batch import CompressionType, RecordBatch
    from kaa.replication.partition import Partition


class Settings(NamedTuple):
    """How a shard writes and loads; looked up for every batch, since it can change."""

    # -1: until the loop has nothing else to add.
    linger_ms: int
    commit_timeout_ms: int
    load_bytes: int
    compression_type: CompressionType


class Host(Protocol):
    """What a shard needs from its node."""

    loop: asyncio.AbstractEventLoop
    # Reads the log off the loop.
    executor: Executor | None

    def now(self) -> Moment: ...

    def settings(self) -> Settings: ...

    def report(self, text: str) -> None: ...


async def replay_log(
    partition: Partition,
    machine: Machine,
    types: RecordTypes,
    host: Host,
    is_closed: Callable[[], bool],
) -> int:
    """Replays the partition to its end, unless it is closed before; where that is."""
    timeline = machine.timeline
    offset = partition.online_log().log_start_offset
    # Counted over batches, which are small where commits came one by one.
    spent = 0
    timeline.commit(partition.online_log().high_watermark)
    # Asked for each time: the partition may have another log by then, in another directory.
    while not is_closed() and offset < partition.online_log().log_end_offset:
        found = partition.read(
            offset, host.settings().load_bytes, FetchIsolation.LOG_END, min_one=True
        )
        if found.region is None:
            break
        try:
            work = host.loop.run_in_executor(host.executor, found.region.read)
            data = await outlasted(work)
        finally:
            found.region.release()
        for batch in iter_upgraded_batches(data):
            for cost in _replay_batch(machine, types, batch, offset):
                spent += cost
                if spent >= RECORDS_PER_PIECE:
                    spent = 0
                    await asyncio.sleep(0)
                    if is_closed():
                        return offset
            offset = batch.next_offset
        timeline.commit(partition.online_log().high_watermark)
    end_offset = partition.online_log().log_end_offset
    timeline.move(end_offset)
    return end_offset


def _replay_batch(
    machine: Machine, types: RecordTypes, batch: RecordBatch, start_offset: int
) -> Iterator[int]:
    """Replays the records from an offset on, one at each step; gives what each of them costs, in
    small records.
    """
    timeline = machine.timeline
    if batch.is_control:
        timeline.move(batch.base_offset)
        marker = read_end_transaction_marker(batch)
        if marker is not None:
            is_commit = marker.control_type is ControlRecordType.COMMIT
            for _ in machine.replay_end_transaction(batch.producer_id, is_commit=is_commit):
                yield RECORDS_PER_PIECE
        yield 1
        return
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
    for record in iter_records(batch):
        if record.offset >= start_offset:
            found = types.decode(record.key, record.value)
            if found is not None:
                timeline.move(record.offset)
                rest = machine.replay(record.offset, *found, producer_id, batch.producer_epoch)
                for _ in rest or ():
                    yield RECORDS_PER_PIECE
        yield 1 + len(record.value or b"") // SMALL_RECORD_BYTES
