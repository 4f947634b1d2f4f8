"""At most so many at a time, where the number may change while others wait."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class Slots:
    """An asynchronous context; who came first goes first."""

    def __init__(self, count_max: Callable[[], int]) -> None:
        self._count_max = count_max
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def __aenter__(self) -> None:
        if not self._waiting and self._taken < self._count_max():
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            # A leaver hands the slot over.
            await turn
        except BaseException:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self._taken -= 1
                self._wake()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._taken -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._taken < self._count_max():
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
