"""Group commit: writes of the metadata log that share a sync.

A write is in the page cache when it is announced here. If no sync runs, one starts; if one runs,
the write waits for the next, together with all others that come meanwhile. Records of a leader can
be made to wait for more of them (`controller.quorum.append.linger.ms`). One report stands for all
writes up to the one it names. A failed sync is reported once and never tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.errors import LogError
from kaa.quorum.events import LogWritten

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Executor

    from kaa.model.seams import Clock
    from kaa.quorum.metadata_log import MetadataLog


class SharedSync:
    """Syncs the metadata log, with one sync for all writes that wait. Call `wrote` after each
    write; `written` is called when it is on disk.
    """

    def __init__(
        self,
        log: MetadataLog,
        clock: Clock,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        written: Callable[[LogWritten], None],
        failed: Callable[[BaseException], None],
        linger_ms: int = 0,
    ) -> None:
        self._log = log
        self._clock = clock
        self._executor = executor
        self._loop = loop
        # Called with the newest write that is on disk, and where the log ended with it.
        self._written = written
        self._failed = failed
        # The newest write that no sync covers yet.
        self._waiting_write_id: int | None = None
        self._is_syncing = False
        self._has_failed = False
        self._linger_ms = linger_ms
        # Starts the sync of a write that waits for others.
        self._timer: asyncio.TimerHandle | None = None

    def wrote(self, write_id: int, *, needs_sync: bool, may_linger: bool = False) -> None:
        """A write is in the log; one that needs no sync is still reported after those that do, and
        one that may not linger takes those along that do.
        """
        if not needs_sync and not self._is_syncing and self._timer is None:
            end_offset = self._log.end_offset
            self._loop.call_soon(self._written, LogWritten(write_id, end_offset))
            return
        self._waiting_write_id = write_id
        if self._is_syncing or self._has_failed:
            return
        if not may_linger or not self._linger_ms:
            self._sync()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._linger_ms / 1000, self._sync)

    def close(self) -> None:
        """Begins no sync for those that linger: what closes the log syncs them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sync(self) -> None:
        self.close()
        write_id, self._waiting_write_id = self._waiting_write_id, None
        assert write_id is not None
        end_offset = self._log.end_offset
        try:
            job = self._log.flush_job()
        except LogError as error:
            self._has_failed = True
            self._failed(error)
            return
        self._is_syncing = True

        def synced(done: asyncio.Future[None]) -> None:
            self._is_syncing = False
            error = done.exception()
            if error is not None:
                self._has_failed = True
                if isinstance(error, OSError):
                    error = self._log.fail_flush(job, error)
                self._failed(error)
                return
            try:
                self._log.complete_flush(job, self._clock.wall_ms())
            except Exception as fault:
                # Nobody would hear of this write, nor of those that wait for the next sync.
                self._has_failed = True
                self._failed(fault)
                raise
            self._written(LogWritten(write_id, end_offset))
            if self._waiting_write_id is not None and not self._is_syncing:
                self._sync()

        self._loop.run_in_executor(self._executor, job.run).add_done_callback(synced)
