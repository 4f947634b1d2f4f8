"""When and how the committed image is written as a snapshot.

A snapshot is due when enough bytes were committed since the last one, or when one is old and there
is something new. It is encoded in slices, so that other work of the loop goes on in between, from a
copy of the image, since the image moves on meanwhile; the disk works in the executor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaa.controller.feature_table import record_version
from kaa.controller.framing import encode_record
from kaa.model.threads import outlast, outlasted
from kaa.quorum.snapshots import build_snapshot
from kaa.quorum.voters import NO_KRAFT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from kaa.controller.image import ClusterImage
    from kaa.controller.loader import MetadataLoader
    from kaa.model.seams import Clock
    from kaa.quorum.driver import QuorumDriver


class Snapshotter:
    """Writes snapshots of the committed image. `committed` is called after every commit; `run`
    writes a snapshot when one is due.
    """

    def __init__(
        self,
        driver: QuorumDriver,
        loader: MetadataLoader,
        clock: Clock,
        executor: Executor,
        report: Callable[[str], None],
        *,
        bytes_max: int,
        interval_ms: int,
    ) -> None:
        self._driver = driver
        self._loader = loader
        self._clock = clock
        self._executor = executor
        self._report = report
        self._bytes_max = bytes_max
        self._interval_ms = interval_ms
        self._last_ms = driver.monotonic_ms()
        self._is_due = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def committed(self) -> None:
        """Looks whether a snapshot is due; called after every commit."""
        new_bytes = self._loader.bytes_since_snapshot
        age_ms = self._driver.monotonic_ms() - self._last_ms
        is_old = 0 < self._interval_ms <= age_ms
        if new_bytes >= self._bytes_max or (new_bytes and is_old):
            self._is_due.set()

    async def run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            await self.take_or_report()

    async def take_or_report(self) -> None:
        """Writes a snapshot. The log has everything, so one that cannot be written is no loss: a
        broken disk shows itself at the next append.
        """
        try:
            await self.take()
        except OSError as error:
            self._report(f"cannot write a snapshot of the metadata: {error}")

    async def take(self) -> bool:
        """Writes a snapshot of what is committed now; whether there was anything new."""
        async with self._one_at_a_time:
            return await self._take()

    async def _take(self) -> bool:
        loader, log = self._loader, self._driver.log
        snapshot_id = loader.snapshot_id
        latest = log.latest_snapshot_id()
        if loader.is_in_transaction or (latest is not None and snapshot_id <= latest):
            return False
        loader.bytes_since_snapshot = 0
        self._last_ms = self._driver.monotonic_ms()
        # Both as of the end of the snapshot: later ones may not be committed.
        kraft_version, voters = self._driver.voters_at(snapshot_id.offset - 1)
        batches = build_snapshot(
            snapshot_id,
            encoded_values(loader.image.copy()),
            timestamp=self._clock.wall_ms(),
            last_contained_log_timestamp=loader.last_timestamp,
            kraft_version=kraft_version,
            voters=None if kraft_version == NO_KRAFT_VERSION else voters,
        )
        loop = asyncio.get_running_loop()
        beginning = loop.run_in_executor(self._executor, log.begin_snapshot, snapshot_id)
        was_cancelled = await outlast(beginning)
        writer = beginning.result()
        try:
            if was_cancelled:
                raise asyncio.CancelledError
            for batch in batches:
                await outlasted(loop.run_in_executor(self._executor, writer.append, batch))
            await outlasted(loop.run_in_executor(self._executor, writer.finish))
        except BaseException:
            writer.abandon()
            raise
        log.add_snapshot(writer, self._clock.wall_ms())
        self._driver.forget_voters_before(snapshot_id.offset)
        return True


def encoded_values(image: ClusterImage) -> Iterator[bytes]:
    """The records of an image, each in the version that the cluster's features allow."""
    for record in image.records():
        yield encode_record(record, record_version(record, image.features))
