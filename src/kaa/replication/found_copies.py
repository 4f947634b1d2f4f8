"""Copies of moves that were found at a start, and are read once before their moves go on.

They are read one after the other (`kaa.log.copy_check`), off the loop, some batches at a time and
no faster than moves may be. Until then nothing is copied to them, so that nobody writes to what is
read. Moves that were begun since do not wait for them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from kaa.limits import DUTY_RETRY_SECONDS, MOVE_PIECE_BYTES
from kaa.log.copy_check import CopyCheck
from kaa.log.errors import ShortageError, StorageError
from kaa.model.threads import outlasted
from kaa.records.errors import CorruptRecordsError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kaa.log.log import UnifiedLog


class CopyOwner(Protocol):
    """Who goes on with the copies."""

    @property
    def bytes_per_second(self) -> int:
        """How fast moves may be at the moment."""
        ...

    async def rest_for(self, size: int) -> None:
        """Keeps to that rate after so many bytes."""
        ...

    def copy_is_whole(self, copy: UnifiedLog) -> None: ...

    def copy_is_damaged(self, copy: UnifiedLog, reason: str) -> None: ...


class FoundCopies:
    """The copies that are to be read; `run` has to be running. The owner hears nothing more of one
    that it has forgotten.
    """

    def __init__(self, owner: CopyOwner, executor: Executor) -> None:
        self._owner = owner
        self._executor = executor
        # In order.
        self._left: dict[UnifiedLog, None] = {}
        self._has_some = asyncio.Event()

    def __contains__(self, copy: UnifiedLog) -> bool:
        return copy in self._left

    def add(self, copy: UnifiedLog) -> None:
        self._left[copy] = None
        self._has_some.set()

    def forget(self, copy: UnifiedLog) -> None:
        self._left.pop(copy, None)

    async def run(self) -> None:
        """Reads copies until it is cancelled; after a failure it begins with the one that was
        being read.
        """
        while True:
            await self._has_some.wait()
            while self._left:
                await self._read(next(iter(self._left)))
            self._has_some.clear()

    async def _read(self, copy: UnifiedLog) -> None:
        damage: str | None = None
        try:
            await self._read_all(copy)
        except ShortageError:
            await asyncio.sleep(DUTY_RETRY_SECONDS)
            return
        except StorageError:
            # Its move ends with the disk.
            self.forget(copy)
        except CorruptRecordsError as error:
            damage = str(error)
        if copy not in self._left:
            return
        self.forget(copy)
        if damage is None:
            self._owner.copy_is_whole(copy)
        else:
            self._owner.copy_is_damaged(copy, damage)

    async def _read_all(self, copy: UnifiedLog) -> None:
        check = CopyCheck(copy)
        try:
            while check.next_segment():
                while size := await self._read_slice(check):
                    await self._owner.rest_for(size)
                    if copy not in self._left:
                        return
        finally:
            check.close()

    async def _read_slice(self, check: CopyCheck) -> int:
        loop = asyncio.get_running_loop()
        # A slow move shows that it goes on.
        bytes_max = min(MOVE_PIECE_BYTES, self._owner.bytes_per_second)
        return await outlasted(loop.run_in_executor(self._executor, check.read, bytes_max))
