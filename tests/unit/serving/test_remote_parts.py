"""Partitions of a fetch that are read from remote storage, beside each other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kaa.log.errors import LogError
from kaa.log.log import FetchIsolation
from kaa.log.transaction_index import AbortedTransaction
from kaa.serving.remote_logs import RemoteLogs, RemoteRead
from kaa.serving.remote_parts import RemotePart, read_remote
from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import PartitionData


class Reads:
    """Answers by the offset that is asked for."""

    wait_seconds_max = 0.05

    def __init__(self) -> None:
        self.was_cancelled = False

    async def read(self, _: object, offset: int, **__: object) -> RemoteRead:
        if offset == 1:
            return RemoteRead(b"records", [AbortedTransaction(7, 1, 2, 3)])
        if offset == 2:
            raise LogError(Errors.UNKNOWN_SERVER_ERROR, "the store is down")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        raise AssertionError


def part(offset: int) -> RemotePart:
    result = PartitionData(
        partition_index=offset, high_watermark=9, log_start_offset=0, records=b""
    )
    nobody = cast("Any", None)
    return RemotePart(nobody, offset, 100, True, FetchIsolation.TXN_COMMITTED, result)


def test_one_that_fails_and_one_that_is_slow_cost_the_others_nothing() -> None:
    reads, parts = Reads(), [part(1), part(2), part(3)]
    asyncio.run(read_remote(cast("RemoteLogs", reads), parts))
    good, failed, late = (one.result for one in parts)
    assert (good.error_code, good.records, good.high_watermark) == (0, b"records", 9)
    assert good.aborted_transactions is not None
    assert [one.producer_id for one in good.aborted_transactions] == [7]
    assert (failed.error_code, failed.high_watermark) == (Errors.UNKNOWN_SERVER_ERROR, -1)
    assert (late.error_code, late.records, late.high_watermark) == (0, b"", 9)
    assert reads.was_cancelled
